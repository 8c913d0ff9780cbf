"""The README is true: its handler runs, its commands exist."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tailrace.ops.bootstrap import CHECKOUT
from tailrace.ops.commands import COMMANDS
from tailrace.streams.keys import PlatformKeys
from tests.ops.commands import environment, tailrace

README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
HANDLER, CLIENT = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_the_code_of_the_readme_runs_as_the_readme_says(tmp_path: Path, valkey_url: str) -> None:
    (tmp_path / "handlers.py").write_text(HANDLER)
    (line,) = re.findall(r"^    python3 -m ops (submit default greet .*)$", README, flags=re.MULTILINE)
    consumer = subprocess.Popen(
        [sys.executable, "-m", "tailrace.consumers", "default"],
        cwd=CHECKOUT,
        env=environment(REDIS_URL=valkey_url, TAILRACE_HANDLERS=str(tmp_path / "handlers.py")),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        done = tailrace(*shlex.split(line), REDIS_URL=valkey_url)
        asked = subprocess.run(
            [sys.executable, "-c", CLIENT + "\nimport asyncio; print(asyncio.run(greet_all(['Ada'])))"],
            cwd=CHECKOUT,
            env=environment(REDIS_URL=valkey_url),
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        consumer.terminate()
        assert consumer.wait(20) == 0
    assert done.returncode == 0, done.stderr
    job_id, result = done.stdout.splitlines()
    assert job_id.startswith(PlatformKeys("default").platform)
    assert json.loads(result) == {"greeted": 2, "attempt": 1}
    *events, returned = asked.stdout.splitlines()
    assert events == ["queued None None", "started None None", "progress 1 greeting Ada", "completed None None"]
    assert returned == "{'greeted': 1, 'attempt': 1}"


def test_the_handler_has_about_fifteen_lines() -> None:
    assert len(HANDLER.splitlines()) <= 15


def test_every_command_of_the_readme_exists() -> None:
    named = set(re.findall(r"(?:`|^    )(?:\$ )?(?:[A-Z_]+=\S+ )?(?:tailrace|python3 -m ops) (\w+)", README, re.M))
    assert {"up", "test", "race", "submit", "consume", "bench", "doctor"} <= named <= set(COMMANDS)


def test_the_picture_is_small() -> None:
    assert (CHECKOUT / "gateway" / "page-takeover.png").stat().st_size < 100_000
