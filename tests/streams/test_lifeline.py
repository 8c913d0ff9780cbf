"""A process that ends with its parent, also when it cannot hear that the parent is gone."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from tests.support.eventually import eventually

CHILD = """
import time
from tailrace.streams.process.lifeline import end_with_parent
end_with_parent()
print("ready", flush=True)
time.sleep(60)
"""
PARENT = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def family() -> Iterator[tuple[psutil.Process, psutil.Process]]:
    """A parent and its child."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        yield psutil.Process(parent.pid), child
        parent.kill()
        with suppress(psutil.NoSuchProcess):
            child.kill()


async def test_a_stopped_process_ends_with_its_parent(family: tuple[psutil.Process, psutil.Process]) -> None:
    parent, child = family
    child.suspend()
    parent.kill()

    async def gone() -> bool:
        return not child.is_running() or child.status() == psutil.STATUS_ZOMBIE

    await eventually("it is gone", gone)
