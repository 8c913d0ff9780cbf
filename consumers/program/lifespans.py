"""Resources of handlers, such as a database pool: opened once in each process, closed when it drains."""

import asyncio
import inspect
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Self

from tailrace.streams.errors import BadConfiguration
from tailrace.streams.process.logs import get_logger

log = get_logger()

CLOSE_SECONDS = 5.0  # what closing may take: with the grace before it, less than a supervisor waits

Lifespan = Callable[[], AbstractAsyncContextManager[Any]]


def check_lifespan(lifespan: object) -> None:
    """Raise `BadConfiguration` for an object that is not a lifespan."""
    if inspect.isasyncgenfunction(lifespan):
        raise BadConfiguration(f"lifespan {name_of(lifespan)} must be decorated with @contextlib.asynccontextmanager")
    if not callable(lifespan):
        raise BadConfiguration(
            f"lifespan must be a function that gives an async context manager, not {type(lifespan).__name__}"
        )


class Lifespans:
    """The objects that lifespans have opened in this process, each once."""

    def __init__(self, lifespans: Iterable[Lifespan | None]) -> None:
        self._wanted = [lifespan for lifespan in dict.fromkeys(lifespans) if lifespan]
        self._opened: dict[Lifespan, Any] = {}
        self._stack = AsyncExitStack()

    @classmethod
    def given(cls, lifespan: Lifespan | None, state: Any) -> Self:
        """Use this object in place of entering the lifespan."""
        given = cls(())
        if lifespan:
            given._opened[lifespan] = state
        return given

    def state(self, lifespan: Lifespan | None) -> Any:
        """The object that a lifespan has opened; None for a handler without one."""
        return self._opened.get(lifespan) if lifespan else None

    async def open(self, lifespan: Lifespan) -> None:
        """Enter a lifespan, unless it has been entered. Raises `BadConfiguration` when that fails."""
        if lifespan in self._opened:
            return
        try:
            self._opened[lifespan] = await self._stack.enter_async_context(lifespan())
        except Exception as error:
            log.exception("lifespan_failed", lifespan=name_of(lifespan))
            cause = only(error)
            why = f"{type(cause).__name__}: {cause}"
            raise BadConfiguration(f"the lifespan {name_of(lifespan)} of the handlers failed: {why}") from error

    async def open_all(self, *, unless: asyncio.Event) -> bool:
        """Enter every lifespan; give up, and answer False, when the event comes first.

        It is entered and left by one task, as those need it that hold a task group.
        """
        task = asyncio.current_task()
        assert task is not None
        asked = asyncio.create_task(unless.wait())
        asked.add_done_callback(lambda asked: asked.cancelled() or task.cancel())
        try:
            for lifespan in self._wanted:
                await self.open(lifespan)
        except asyncio.CancelledError:
            if not unless.is_set():
                raise
            task.uncancel()
            return False
        finally:
            asked.cancel()
        return True

    async def __aenter__(self) -> Self:
        await self.open_all(unless=asyncio.Event())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close in reverse order. What goes wrong is logged: every job is settled by now."""
        self._opened.clear()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._stack.aclose()
        except Exception as error:
            late = isinstance(error, TimeoutError)
            log.exception("lifespan_not_closed", note=f"it took over {CLOSE_SECONDS:g} s" if late else str(error))


class BlockingLifespans:
    """Lifespans of a process without a running loop: each is opened at its first use.

    The loop runs in the thread that asks, because what is opened may be bound to its thread, and only while it asks.
    """

    def __init__(self) -> None:
        self._lifespans = Lifespans(())
        self._loop = asyncio.new_event_loop()
        self._asked: asyncio.Queue[tuple[Lifespan, asyncio.Future[Any]] | None] = asyncio.Queue()
        self._keeper: asyncio.Task[None] | None = None

    def open(self, lifespan: Lifespan) -> Any:
        """The object that the lifespan has opened. Raises `BadConfiguration` if it fails; the next call tries again."""
        if (opened := self._lifespans.state(lifespan)) is not None:
            return opened
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._asked.put_nowait((lifespan, answer))
        self._keeper = self._keeper or self._loop.create_task(self._keep())
        return self._loop.run_until_complete(answer)

    async def _keep(self) -> None:
        """One task enters and leaves them all."""
        while asked := await self._asked.get():
            lifespan, answer = asked
            try:
                await self._lifespans.open(lifespan)
                answer.set_result(self._lifespans.state(lifespan))
            except BadConfiguration as error:
                answer.set_exception(error)
        await self._lifespans.close()

    def close(self) -> None:
        if self._keeper:
            self._asked.put_nowait(None)
            self._loop.run_until_complete(self._keeper)


def only(error: BaseException) -> BaseException:
    """The error in a group of one: a task group of the lifespan wraps what went wrong in it."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        (error,) = error.exceptions
    return error


def name_of(lifespan: object) -> str:
    return f"{getattr(lifespan, '__module__', '')}.{getattr(lifespan, '__qualname__', lifespan)}".lstrip(".")
