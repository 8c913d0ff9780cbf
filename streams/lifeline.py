"""A process that was started by another ends with it, whatever killed the other: the pipe between them closes."""

import os
import signal
import threading

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
