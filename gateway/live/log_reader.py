"""Brings channels that fell behind up to their logs: one task for those whose logs fail as one."""

import asyncio
from collections.abc import Iterable

from tailrace.gateway.live.channel import Channel
from tailrace.streams.errors import AccessDenied, JobNotFound, NoStore
from tailrace.streams.process.logs import get_logger
from tailrace.streams.replies import read_logs
from tailrace.streams.store.connection import Store

BATCH = 100  # logs read in one trip
PIECE = 100  # entries of each
TURN = 250  # events after which others have their turn: a few milliseconds of this process
LONGEST_PAUSE_SECONDS = 2.0  # between tries while the store is away

AWAY = (NoStore, AccessDenied)

log = get_logger()


class LogReader:
    """Reads logs in batches, while there is any channel behind its own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._behind: dict[Channel, list[asyncio.Future[None]]] = {}  # and the callers that wait for each
        self._work = asyncio.Event()

    def __contains__(self, channel: Channel) -> bool:
        return channel in self._behind

    def add(self, channel: Channel, *waiting: "asyncio.Future[None]") -> None:
        """Read the log of this one too, and tell those who wait for it."""
        self._behind.setdefault(channel, []).extend(waiting)
        self._work.set()

    async def run(self) -> None:
        pause_seconds = 0.0
        while True:
            await self._work.wait()
            self._work.clear()
            try:
                while self._behind:
                    await self._read(dict(self._next() for _ in range(min(BATCH, len(self._behind)))))
                pause_seconds = 0.0
            except AWAY:  # the feed says so in the log
                pause_seconds = min(LONGEST_PAUSE_SECONDS, pause_seconds * 2 or 0.1)
                try:  # a client that comes meanwhile is a reason to try at once
                    await asyncio.wait_for(self._work.wait(), pause_seconds)
                except TimeoutError:
                    self._work.set()

    def _next(self) -> tuple[Channel, list[asyncio.Future[None]]]:
        channel = next(iter(self._behind))
        return channel, self._behind.pop(channel)

    async def _read(self, behind: dict[Channel, list[asyncio.Future[None]]]) -> None:
        """Bring these channels up to their logs and answer the callers that wait."""
        channels = [channel for channel in behind if channel.watchers]
        for channel in channels:
            channel.reading = True
        unfinished: set[Channel] = set()
        try:
            unfinished = await self._read_logs(channels)
        except AWAY as error:
            self._put_back(behind, error)
            raise
        except Exception as error:
            if len(behind) > 1:  # one damaged job must not hold up the others
                await self._read_apart(behind)
                return
            for channel, waiting in behind.items():
                log.error("unreadable_job", job=channel.job_id, reason=repr(error))
                channel.gone = True
                settle(waiting, error)
        finally:
            for channel in channels:
                channel.reading = False
                channel.wake()
        for channel, waiting in behind.items():
            if channel in unfinished:
                self._behind.setdefault(channel, []).extend(waiting)
            else:
                settle(waiting, JobNotFound(channel.job_id) if channel.gone else None)

    async def _read_apart(self, behind: dict[Channel, list[asyncio.Future[None]]]) -> None:
        left = dict(behind)
        for channel in behind:
            try:
                await self._read({channel: left.pop(channel)})
            except AWAY as error:
                self._put_back(left, error)
                raise

    def _put_back(self, behind: dict[Channel, list[asyncio.Future[None]]], error: Exception) -> None:
        """The store went away: callers hear of it, and channels with watchers are brought up to date later."""
        for channel, waiting in behind.items():
            if not channel.unread:
                self._behind.setdefault(channel, [])
            settle(waiting, error)

    async def _read_logs(self, channels: list[Channel]) -> set[Channel]:
        """Bring these channels on by a piece of their logs; those that are not at its end yet."""
        wanted = [(channel.keys, channel.key, channel.next_read) for channel in channels]
        unfinished, done = set(), 0
        for channel, reply in zip(channels, await read_logs(self._store, wanted, PIECE), strict=True):
            part = reply.part()
            channel.gone = part is None
            if part and not channel.take(part):
                unfinished.add(channel)
            done += 1 + len(reply.kept)
            if done > TURN:
                done = 0
                await asyncio.sleep(0)
        return unfinished


def settle(waiting: Iterable[asyncio.Future[None]], error: Exception | None) -> None:
    for done in waiting:
        if not done.done():
            if error:
                done.set_exception(error)
            else:
                done.set_result(None)
