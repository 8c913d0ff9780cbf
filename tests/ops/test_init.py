"""`init`: a starter project that works as it is written."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tailrace.producers.kinds import KINDS
from tailrace.producers.platforms import BUILT_IN
from tests.ops.commands import Here, environment, tailrace
from tests.ops.up_process import INSTALLED, Up

WRITTEN = {
    ".env.example",
    "README.md",
    "compose.yaml",
    "handlers.py",
    "tailrace.toml",
    "test_handlers.py",
}


@pytest.fixture
def project(tmp_path: Path, here: Here) -> Path:
    folder = tmp_path / "new" / "greetings"
    code, _, said = here("init", str(folder))
    assert code == 0, said
    return folder


@pytest.fixture
def up(project: Path) -> Iterator[Up]:
    """As its README says: with the variables of .env.example."""
    lines = (project / ".env.example").read_text().splitlines()
    told = dict(line.split("=", 1) for line in lines if re.match(r"[A-Z]", line))
    running = Up(project / ".tailrace", "greetings", cwd=str(project), **told)
    yield running
    running.clean_up()


def shell(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    told = environment(PATH=f"{Path(INSTALLED).parent}{os.pathsep}{os.environ['PATH']}")
    return subprocess.run(words, cwd=project, env=told, capture_output=True, text=True, timeout=50, check=False)


def test_the_project_is_whole_and_its_test_passes(project: Path) -> None:
    assert {path.name for path in project.iterdir()} == WRITTEN
    done = shell(project, sys.executable, "-m", "unittest")
    assert done.returncode == 0, done.stderr
    assert "Ran 3 tests" in done.stderr


def test_up_and_submit_work_as_the_readme_says(project: Path, up: Up) -> None:
    up.wait_until_ready()
    assert "platforms  greetings\n" in up.said()
    assert "submit greetings greet ARGS --follow" in up.said()
    (submit,) = re.findall(r"tailrace (submit .*--follow)", (project / "README.md").read_text())
    done = shell(project, "sh", "-c", f"tailrace {submit}")
    assert done.returncode == 0, done.stderr + up.said()
    assert '{"greetings": ["Hello Ada", "Hello Grace"]}' in done.stdout
    refused = shell(project, "tailrace", "submit", "kurly", "greet")
    assert (refused.returncode, refused.stderr.count("known are greetings;")) == (2, 1), refused.stderr
    ours = re.compile("|".join({*BUILT_IN, *KINDS} - {"default"}))
    assert not ours.search(up.said()), up.said()


def test_the_next_steps_that_it_prints_work_from_where_it_was_called(tmp_path: Path) -> None:
    printed = tailrace("init", str(tmp_path / "a b")).stdout
    test = re.search(r"^test +(.*)$", printed, re.M)
    assert test
    done = shell(Path.cwd(), "sh", "-c", test[1])
    assert "Ran 3 tests" in done.stderr
    assert f"'TAILRACE_CONFIG={tmp_path}/a b/tailrace.toml'" in printed


def test_a_folder_that_is_not_empty_is_left_as_it_is(tmp_path: Path, here: Here) -> None:
    (tmp_path / "mine").write_text("x")
    code, printed, said = here("init", str(tmp_path))
    assert (code, printed) == (2, "")
    assert said == f"tailrace: DIR: {tmp_path} is not empty; name a new or an empty folder\n"
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    code, _, said = here("init", str(tmp_path / "mine"))
    assert (code, said) == (2, f"tailrace: DIR: {tmp_path / 'mine'} is a file; name a new or an empty folder\n")
