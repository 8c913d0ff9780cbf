"""A process that was started by another ends with it, whatever killed the other: the pipe between them closes."""

import ctypes
import os
import signal
import sys
import threading

PR_SET_PDEATHSIG = 1  # of prctl(2)

VARIABLE = "TAILRACE_LIFELINE"  # the number of an inherited descriptor whose other end the parent holds


def descriptor() -> int | None:
    """The lifeline this process was given, if it was given one."""
    text = os.environ.get(VARIABLE, "")
    return int(text) if text.isdigit() else None


def watch(fd: int) -> None:
    """End this process at once when the other end of `fd` closes: the parent is gone, and its store with it."""

    def wait() -> None:
        while os.read(fd, 64):
            pass
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, name="lifeline", daemon=True).start()


def end_with_parent() -> None:
    """Have the kernel end this process with its parent: one that is stopped at that moment reads no lifeline.

    Only Linux can. The parent is the thread that started us: it must live as long as its process.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
