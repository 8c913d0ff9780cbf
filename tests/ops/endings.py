"""Whether processes have ended, and how long they took."""

import time
from collections.abc import Iterable

import psutil


def is_running(pid: int) -> bool:
    """A process that is ending lets go of its memory, and so of its command line, before its files and its locks."""
    try:
        return bool(psutil.Process(pid).cmdline())
    except psutil.NoSuchProcess:  # a zombie too: it only waits for its parent, or for init, to look
        return False


def seconds_until_gone(pids: Iterable[int]) -> float:
    begun, left = time.monotonic(), list(pids)
    while left := [pid for pid in left if is_running(pid)]:
        assert time.monotonic() - begun < 20, left
        time.sleep(0.005)
    return time.monotonic() - begun
