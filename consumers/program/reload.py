"""`tailrace consume --reload`: a consumer that is started again when a file of its handlers changes; for development.

The parent only watches. It looks at the times of files twice a second, which needs no library and works on every file
system; a project has a few thousand of them at most.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import anyio

from tailrace.consumers.program.loading import package_of
from tailrace.streams.errors import BadConfiguration
from tailrace.streams.process import launch, lifeline
from tailrace.streams.process.logs import get_logger
from tailrace.streams.process.shutdown import RESTART, Shutdown
from tailrace.streams.process.supervisor import Process, cause, end, exited

log = get_logger()

LOOK_SECONDS = 0.5
FINISH_SECONDS = 1.0  # then running jobs are handed back: they start again with the new code, and nothing is counted
NOT_SOURCES = {"__pycache__", "node_modules", "site-packages"}

Snapshot = dict[str, tuple[int, int]]


async def keep_reloading(words: list[str], handlers: str | None) -> int:
    """Run a consumer with these words of its command line until a signal comes; its exit code."""
    folder = folder_of(handlers)
    held, _ = os.pipe()  # nothing is written: the other end closes when this process ends
    shutdown, code = Shutdown(), RESTART
    with shutdown.listening():
        while not shutdown.drain.is_set():
            before = snapshot(folder)
            child = start(words, held)
            try:
                changed = await until_changed(folder, before, child, shutdown)
                code = await stop(child, shutdown)
            finally:
                end(child)
            if code != RESTART and not changed and not shutdown.drain.is_set():
                log.warning("consumer_ended", cause=cause(code), note="it starts again when a file changes")
                changed = await until_changed(folder, before, None, shutdown)
            if changed:
                log.info("reloading", file=changed)
    return code


def folder_of(handlers: str | None) -> Path:
    """The folder from which the handlers are imported."""
    if not handlers:
        raise BadConfiguration("--reload: name your handlers with --handlers or TAILRACE_HANDLERS")
    return package_of(Path(handlers).absolute())[0] if handlers.endswith(".py") else Path.cwd()


def start(words: list[str], lifeline_fd: int) -> Process:
    return subprocess.Popen(
        launch.command("tailrace.consumers", *words),
        env={**os.environ, lifeline.VARIABLE: str(lifeline_fd)},
        pass_fds=[lifeline_fd],
        process_group=0,  # Ctrl-C is for the parent, which asks it to drain
    )


async def until_changed(folder: Path, before: Snapshot, child: Process | None, shutdown: Shutdown) -> str:
    """The file that changed; empty when the child has ended or the shutdown was asked for."""
    while not shutdown.drain.is_set() and (child is None or child.poll() is None):
        with anyio.move_on_after(LOOK_SECONDS):
            await shutdown.drain.wait()
        if changed := dict(snapshot(folder).items() ^ before.items()):
            return min(changed)
    return ""


async def stop(child: Process, shutdown: Shutdown) -> int:
    """Let the consumer drain: within its grace at the end, for a moment before a restart."""
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
        if shutdown.drain.is_set():
            async with anyio.create_task_group() as tasks:

                async def hurry() -> None:
                    await shutdown.now.wait()
                    child.send_signal(signal.SIGINT)

                tasks.start_soon(hurry)
                await exited(child)
                tasks.cancel_scope.cancel()
        elif not await exited(child, FINISH_SECONDS):
            child.send_signal(signal.SIGINT)
            await exited(child)
    return child.wait()


def snapshot(folder: Path) -> Snapshot:
    """Every source file below a folder, with its time and size."""
    found = {}
    for path in sources(str(folder)):
        try:
            status = os.stat(path)
        except OSError:  # an editor has just replaced it
            continue
        found[path] = status.st_mtime_ns, status.st_size
    return found


def sources(folder: str) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        hidden = {name for name in folders if name.startswith(".") or name in NOT_SOURCES}
        folders[:] = [
            name for name in folders if name not in hidden and not os.path.exists(f"{place}/{name}/pyvenv.cfg")
        ]
        yield from (f"{place}/{name}" for name in files if name.endswith((".py", ".toml")))
