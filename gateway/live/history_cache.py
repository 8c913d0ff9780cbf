"""Kept histories: one read of the store for all who ask at once and, when the job has ended, for a second more."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tailrace.streams.keys import PlatformKeys

KEPT_SECONDS = 1.0  # an ended job may be reopened or forgotten: what is told about it is never older than this
KEPT_BYTES = 64 * 1024 * 1024


class Told(NamedTuple):
    """The history of a job, encoded."""

    body: bytes
    etag: bytes | None  # of a job that has ended: only that one may be kept, here and by clients


class Kept(NamedTuple):
    told: Told
    until: float


class KeptHistories:
    """The newest word about each job that is asked for. Nothing is kept of jobs that may still change."""

    def __init__(self, read: Callable[[PlatformKeys, str], Awaitable[Told]], most_bytes: int = KEPT_BYTES) -> None:
        self._read = read
        self._most_bytes = most_bytes
        self._kept: dict[str, Kept] = {}  # in the order of their reads, so the first is the first to be dropped
        self._bytes = 0
        self._asking: dict[str, list[asyncio.Future[Told]]] = {}  # who waits for the next read of a job
        self._readers: set[asyncio.Task[None]] = set()

    def get(self, job_id: str) -> Told | None:
        kept = self._kept.get(job_id)
        return kept.told if kept and kept.until > time.monotonic() else None

    async def read(self, keys: PlatformKeys, key: str) -> Told:
        """The history by a read that begins now or later: who comes while one is under way shares the one after it.

        To share the one under way would be to answer with what was true before the question.
        """
        job_id = keys.id(key)
        answer: asyncio.Future[Told] = asyncio.get_running_loop().create_future()
        if job_id in self._asking:
            self._asking[job_id].append(answer)
        else:
            self._asking[job_id] = [answer]
            reader = asyncio.create_task(self._answer(keys, key))  # not the caller's own: that one may be cancelled
            self._readers.add(reader)
            reader.add_done_callback(self._readers.discard)
        return await answer

    async def _answer(self, keys: PlatformKeys, key: str) -> None:
        job_id = keys.id(key)
        while asking := self._asking[job_id]:
            self._asking[job_id] = []
            begun = time.monotonic()
            try:
                told = await self._read(keys, key)
            except Exception as error:
                for answer in asking:
                    if not answer.done():
                        answer.set_exception(error)
                continue
            if told.etag is not None:
                self._keep(job_id, Kept(told, begun + KEPT_SECONDS))
            for answer in asking:
                if not answer.done():
                    answer.set_result(told)
        del self._asking[job_id]

    def _keep(self, job_id: str, kept: Kept) -> None:
        self._drop(job_id)
        self._kept[job_id] = kept
        self._bytes += len(kept.told.body)
        now = time.monotonic()
        while self._kept:
            oldest = next(iter(self._kept))
            if self._bytes <= self._most_bytes and self._kept[oldest].until > now:
                break
            self._drop(oldest)

    def _drop(self, job_id: str) -> None:
        if kept := self._kept.pop(job_id, None):
            self._bytes -= len(kept.told.body)
