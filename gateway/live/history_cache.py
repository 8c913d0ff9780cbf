"""Histories of ended jobs, kept for a second, and one read of the store for all clients that ask at once."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from tailrace.gateway.etags import etag_of
from tailrace.streams.history.pages import HistoryPage
from tailrace.streams.keys import PlatformKeys

KEPT_SECONDS = 1.0  # an ended job may be reopened or forgotten: no answer about it is older than this
KEPT_BYTES = 64 * 1024 * 1024


class Told(NamedTuple):
    """The history of a job, encoded."""

    body: bytes
    etag: bytes | None  # of a job that has ended: only that one may be kept, here and by clients


def told_of(page: HistoryPage) -> Told:
    tag = tag_of(page.events) if page.record.state.ended else None
    return Told(b"[%b]" % b",".join(page.events), tag)


def tag_of(events: Sequence[bytes]) -> bytes:
    """The tag of events that follow each other, made of the first and the last: each has its number and its moment."""
    return etag_of(b"\n".join([*events[:1], *events[-1:]]))


class KeptHistories:
    """The newest history of each job that clients ask for. Nothing is kept of jobs that may still change."""

    def __init__(self, read: Callable[[PlatformKeys, str], Awaitable[Told]], most_bytes: int = KEPT_BYTES) -> None:
        self._read = read
        self._most_bytes = most_bytes
        self._kept: dict[str, tuple[Told, float]] = {}  # with its last moment; in the order of their reads
        self._bytes = 0
        self._next: dict[str, asyncio.Future[Told]] = {}  # the read of a job that has not begun yet
        self._readers: dict[str, asyncio.Task[None]] = {}

    def get(self, job_id: str) -> Told | None:
        told, until = self._kept.get(job_id, (None, 0.0))
        return told if until > time.monotonic() else None

    async def read(self, keys: PlatformKeys, key: str) -> Told:
        """The history by a read that begins now or later: clients that ask during one read share the next.

        To share the read under way would be to answer with what was true before the question.
        """
        job_id = keys.id(key)
        if job_id not in self._next:
            self._next[job_id] = asyncio.get_running_loop().create_future()
        answer = self._next[job_id]
        if job_id not in self._readers:  # its own task: the caller's may be cancelled
            self._readers[job_id] = asyncio.create_task(self._answer(keys, key))
        return await asyncio.shield(answer)

    async def _answer(self, keys: PlatformKeys, key: str) -> None:
        job_id = keys.id(key)
        while answer := self._next.pop(job_id, None):
            begun = time.monotonic()
            try:
                told = await self._read(keys, key)
            except Exception as error:
                answer.set_exception(error)
                answer.exception()  # if all clients have left, asyncio would warn that its error was never read
                continue
            if told.etag is not None:
                self._keep(job_id, told, begun + KEPT_SECONDS)
            answer.set_result(told)
        del self._readers[job_id]

    def _keep(self, job_id: str, told: Told, until: float) -> None:
        self._drop(job_id)
        self._kept[job_id] = told, until
        self._bytes += len(told.body)
        now = time.monotonic()
        while self._kept:
            oldest = next(iter(self._kept))
            if self._bytes <= self._most_bytes and self._kept[oldest][1] > now:
                break
            self._drop(oldest)

    def _drop(self, job_id: str) -> None:
        if job_id in self._kept:
            self._bytes -= len(self._kept.pop(job_id)[0].body)
