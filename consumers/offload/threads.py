"""Threads for plain handlers: kept for the next job, and left behind when they do not stop.

They are daemons: a thread that hangs must not keep its consumer from leaving. anyio's threads are not, so a consumer
that drains would wait for such a thread forever; a call in one also takes twice the CPU time (48 us against 24 us).
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError as TakenBack
from queue import SimpleQueue
from typing import Any

from tailrace.consumers.attempt import Attempt
from tailrace.consumers.attempts.blocking import SyncAttempt
from tailrace.streams.errors import Cancelled
from tailrace.streams.process.logs import get_logger

log = get_logger()


class Threads:
    """A pool with as many threads as handlers run in threads at the same time."""

    def __init__(self, stop_seconds: float) -> None:
        """A thread has `stop_seconds` to stop before it is abandoned."""
        self._stop_seconds = stop_seconds
        self._idle: list[SimpleQueue[Work | None]] = []
        self._started = 0
        self._closed = False
        self.abandoned = 0  # threads that did not stop and still run

    async def call(self, function: Callable[[SyncAttempt[Any]], Any], attempt: Attempt[Any]) -> Any:
        work = Work(function, attempt)
        self._queue().put(work)
        try:
            return await asyncio.shield(work.ended)
        except asyncio.CancelledError:
            if work.ended.done():  # it cancelled itself
                raise
            await self._stop(work)
            raise

    def _queue(self) -> "SimpleQueue[Work | None]":
        """The queue of an idle thread; of a new one when all are busy."""
        if self._idle:
            return self._idle.pop()
        self._started += 1
        queue: SimpleQueue[Work | None] = SimpleQueue()
        threading.Thread(target=self._serve, args=(queue,), name=f"handler-{self._started}", daemon=True).start()
        return queue

    def _serve(self, queue: "SimpleQueue[Work | None]") -> None:
        while work := queue.get():
            ended = work.run()
            try:
                work.loop.call_soon_threadsafe(self._ended, work, ended, queue)
            except RuntimeError:  # the loop is gone
                return
            del work, ended  # while it waits it must not keep a job's data alive

    def _ended(self, work: "Work", ended: tuple[Any, BaseException | None], queue: "SimpleQueue[Work | None]") -> None:
        if self._closed:
            queue.put(None)
        else:
            self._idle.append(queue)
        if work.abandoned:
            self.abandoned -= 1
            log.info("thread_came_back", job=work.attempt.job.id, attempt=work.attempt.number, still=self.abandoned)
        work.settle(*ended)

    async def _stop(self, work: "Work") -> None:
        work.stop()
        try:
            await asyncio.wait([work.ended], timeout=self._stop_seconds)
        finally:  # also when a second cancel ends the wait
            if not work.ended.done():
                work.abandoned = True
                self.abandoned += 1
                job, number = work.attempt.job, work.attempt.number
                log.warning("thread_abandoned", job=job.id, attempt=number, kind=job.kind, abandoned=self.abandoned)

    def close(self) -> None:
        """End the idle threads now, and the others when their calls are done."""
        self._closed = True
        while self._idle:
            self._idle.pop().put(None)


class Work:
    """One call of a plain function in a thread."""

    def __init__(self, function: Callable[[SyncAttempt[Any]], Any], attempt: Attempt[Any]) -> None:
        self.attempt = attempt
        self.loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[Any] = self.loop.create_future()
        self.abandoned = False
        self._function = function
        self._context = contextvars.copy_context()
        self._stopped = False
        self._asking: asyncio.Future[Any] | None = None  # what the thread waits for

    # In the thread

    def run(self) -> tuple[Any, BaseException | None]:
        attempt = self.attempt
        its_attempt = SyncAttempt(attempt.job, attempt.claim, attempt.args, attempt.worker, self._ask)
        its_attempt.state = attempt.state
        try:
            return self._context.run(self._function, its_attempt), None
        except BaseException as error:  # a thread must outlive all that its handler does
            return None, error

    def _ask(self, verb: str, *args: Any) -> Any:
        coroutine = self._answer(verb, args)
        try:
            asked = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        except RuntimeError:  # the loop is gone
            coroutine.close()
            raise Cancelled(self.attempt.job.id, self.attempt.number) from None
        try:
            return asked.result()
        except TakenBack:
            raise Cancelled(self.attempt.job.id, self.attempt.number) from None

    # In the loop

    async def _answer(self, verb: str, args: tuple[Any, ...]) -> Any:
        if self._stopped:
            raise Cancelled(self.attempt.job.id, self.attempt.number)
        self._asking = asyncio.current_task()
        return await self.attempt.ask(verb, *args)

    def stop(self) -> None:
        """Raise `Cancelled` in the handler at each call of its attempt, also in the one that waits now."""
        self._stopped = True
        if self._asking:
            self._asking.cancel()

    def settle(self, result: Any, error: BaseException | None) -> None:
        if self.ended.done():
            return
        if self._stopped:
            self.ended.cancel()
        elif error is None:
            self.ended.set_result(result)
        elif isinstance(error, StopIteration):  # a future cannot carry it
            self.ended.set_exception(RuntimeError(f"the handler raised StopIteration: {error}"))
        else:
            self.ended.set_exception(error)
