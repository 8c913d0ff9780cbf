"""Where handlers come from: packages whose modules import their siblings, files, and a consumer that reloads them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.streams.process import launch
from tests.support.deployment import Deployment
from tests.support.eventually import eventually

DB = "pool = 'pool'\n"
HANDLERS = """
from tailrace import Attempt, Handlers
{imports}

handles = Handlers()


@handles("ask")
async def ask(attempt: Attempt[dict]) -> str:
    return pool


@handles("train", run_in="process")
def train(attempt) -> str:
    return pool
"""

RELATIVE, ABSOLUTE, BESIDE = "from .db import pool", "from shop.db import pool", "from db import pool"
CODE = """
import asyncio, sys
from tailrace.consumers.program.loading import load_handlers
from tailrace.consumers.testing import run_handler
async def main():
    handles = load_handlers(sys.argv[1])
    print([(await run_handler(handles, kind)).result for kind in sys.argv[2:]])
asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("where", "imports", "package"),
    [
        ("shop.handlers", RELATIVE, True),
        ("shop/handlers.py", RELATIVE, True),
        ("shop/handlers.py", ABSOLUTE, False),
        ("shop/handlers.py", BESIDE, False),
    ],
)
def test_handlers_import_their_siblings(tmp_path: Path, where: str, imports: str, package: bool) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "db.py").write_text(DB)
    (tmp_path / "shop" / "handlers.py").write_text(HANDLERS.format(imports=imports))
    if package:
        (tmp_path / "shop" / "__init__.py").touch()
    kinds = ("ask", "train") if package else ("ask",)  # a worker process finds them in the same way
    program = tmp_path / "program.py"
    program.write_text(CODE)
    ran = subprocess.run(
        [sys.executable, "-P", str(program), where, *kinds],
        cwd=tmp_path,
        env={"PYTHONPATH": str(launch.HOME)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.stdout, ran.returncode) == (f"{['pool' for _ in kinds]}\n", 0), ran.stderr


async def test_a_consumer_reloads_its_handlers_when_a_file_changes(deployment: Deployment, tmp_path: Path) -> None:
    """Also after a mistake in them, and a job that runs is handed back to start again with the new code."""
    (tmp_path / "shop").mkdir()
    file = tmp_path / "shop" / "db.py"
    file.write_text(DB)
    (tmp_path / "shop" / "__init__.py").touch()
    handlers = tmp_path / "shop" / "handlers.py"
    handlers.write_text(HANDLERS.format(imports=RELATIVE))
    consumer = deployment.start_consumer("research", "--reload", f"--handlers={handlers}")
    running = await deployment.submit("research", steps=2, seconds=600.0)
    await deployment.started(running)

    async def waits() -> bool:
        return bool(consumer.said("consumer_ended"))

    file.write_text("pool = 'no pool\n")
    await eventually("the mistake is told", waits)
    assert "SyntaxError" in consumer.log.read_text()
    file.write_text("pool = 'a larger pool'\n")
    await deployment.started(running, 2)
    assert (await deployment.ended(await deployment.submit("research", kind="ask")))[-1].result == "a larger pool"
    assert [line["file"] for line in consumer.said("reloading")] == [str(file), str(file)]
    consumer.interrupt()
    consumer.interrupt_group()
    assert await consumer.ended() == 0
