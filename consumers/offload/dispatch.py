"""Calls handlers that are more than an async function: with hooks around them, in a thread, or in another process."""

from typing import Any, Self

from tailrace.consumers.attempt import Attempt
from tailrace.consumers.middleware import call_through
from tailrace.consumers.offload.processes import WorkerProcesses
from tailrace.consumers.offload.threads import Threads
from tailrace.consumers.registry import Handler

TIDY_SECONDS = 1.0  # a process can be killed: it need not be waited for as long as a thread


class Offload:
    """The threads and worker processes of one consumer. They are started when they are first needed, and kept."""

    def __init__(self, obey_seconds: float = 5.0) -> None:
        """After `obey_seconds` the runner settles an attempt by itself; what does not stop is given up before."""
        stop_seconds = 0.8 * obey_seconds
        self._threads = Threads(stop_seconds)
        self._processes = WorkerProcesses(min(stop_seconds, TIDY_SECONDS))

    async def call(self, handler: Handler, attempt: Attempt[Any]) -> Any:
        """The handler's result. A cancel stops the thread or process, and waits for it a little.

        A thread that does not stop is abandoned, and its reports are refused. A process is killed.
        """

        async def itself() -> Any:
            if handler.run_in == "thread":
                return await self._threads.call(handler.function, attempt)
            if handler.run_in == "process":
                return await self._processes.call(handler, attempt)
            return await handler.function(attempt)

        return await call_through(handler.hooks, attempt, itself)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the worker processes. Threads that still run end with this process."""
        self._threads.close()
        await self._processes.close()
