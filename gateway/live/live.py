"""Live: the channels of all watched jobs, and the one task that brings those that fell behind up to their logs."""

import asyncio
from collections.abc import AsyncIterator, Callable, Container, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Protocol

from tailrace.gateway.live.channel import Channel, Watcher
from tailrace.gateway.live.frames import JobFrame, frames_of
from tailrace.gateway.metrics.counters import GatewayCounters
from tailrace.streams.errors import AccessDenied, JobNotFound, NoStore
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Hint
from tailrace.streams.process.logs import get_logger
from tailrace.streams.replies import read_logs
from tailrace.streams.store.connection import Store

BATCH = 100  # logs read in one trip
PIECE = 100  # entries of each
TURN = 250  # events after which others have their turn: a few milliseconds of this process
SURE_SECONDS = 1.0  # that a job is still there after the last event; for a client that comes later the log is read
LONGEST_PAUSE_SECONDS = 2.0  # between tries while the store is away
CLOSING = "this gateway ends"

AWAY = (NoStore, AccessDenied)

log = get_logger()


class Listener(Protocol):
    """Wants to hear of every job of some platforms."""

    def wants(self, platform: str) -> bool: ...
    def hear(self, frames: Sequence[JobFrame]) -> None: ...
    def doubt(self) -> None: ...
    def close(self) -> None: ...


class Live:
    """A job has a channel while it is watched. The feed is a hint, the log is the truth."""

    def __init__(self, store: Store) -> None:
        self.closing = False
        self.counters = GatewayCounters()
        self.watched = asyncio.Event()  # set while there is any channel: the feed is read only then
        self.heard = asyncio.Event()  # set while the feed is read: whatever happens is heard, or doubted
        self._store = store
        self._channels: dict[tuple[str, str], Channel] = {}
        self._listeners: set[Listener] = set()
        self._behind: dict[Channel, list[asyncio.Future[None]]] = {}  # and the callers that wait for each
        self._waiting: set[asyncio.Future[None]] = set()  # for any channel to catch up
        self._work = asyncio.Event()

    @property
    def count(self) -> int:
        """How many jobs are watched."""
        return len(self._channels)

    def count_of(self, platforms: Container[str]) -> int:
        """How many jobs of these platforms are watched."""
        return sum(platform in platforms for platform, _ in self._channels)

    def watches(self, platform: str) -> Callable[[str], bool]:
        """Tells of each key of a platform whether its job is watched."""
        if any(listener.wants(platform) for listener in self._listeners):
            return lambda _: True
        return lambda key: (platform, key) in self._channels

    @contextmanager
    def telling(self, listener: Listener) -> Iterator[None]:
        """Tell a listener of every event for as long as this lasts."""
        self._listeners.add(listener)
        self.watched.set()
        try:
            yield
        finally:
            self._listeners.discard(listener)
            self._rest()

    def _rest(self) -> None:
        """Without watchers and listeners, the feed need not be read."""
        if not self._channels and not self._listeners:
            self.watched.clear()

    @asynccontextmanager
    async def watch(self, keys: PlatformKeys, key: str, watcher: Watcher, base: int = 0) -> AsyncIterator[Channel]:
        """The channel of a job, read at least once, from behind the event of number `base` on or from before.

        Raises `JobNotFound`, or one of `AWAY`.
        """
        # The channel is known to the feed before its log is read: no event can fall between the two.
        channel = self._channels.setdefault((keys.platform, key), Channel(keys, key))
        channel.watchers.add(watcher)
        channel.want(base)
        self.watched.set()
        try:
            # A job may have been removed, and its id given to another one: no event tells of that.
            if channel.unread or channel.gone or channel.ended:
                await self.catch_up(channel)
            elif self.heard.is_set() and channel.quiet_seconds > SURE_SECONDS:
                with suppress(*AWAY):  # then it is shown as far as it is known, as on streams that are open already
                    await self.catch_up(channel)
            yield channel
        finally:
            channel.watchers.discard(watcher)
            if not channel.watchers and self._channels.get((keys.platform, key)) is channel:
                del self._channels[keys.platform, key]
                self._rest()

    async def catch_up(self, channel: Channel) -> None:
        """Return after a read of the log that began now or later. Raises one of `AWAY`, also when we close."""
        if self.closing:
            raise NoStore(CLOSING)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(done)
        done.add_done_callback(self._waiting.discard)
        self._behind.setdefault(channel, []).append(done)
        self._work.set()
        await done

    def hear(self, platform: str, hints: Sequence[Hint]) -> None:
        """Pass on what the feed says."""
        if listeners := [each for each in self._listeners if each.wants(platform)]:
            frames = frames_of(platform, hints)
            for listener in listeners:
                listener.hear(frames)
        grown = set()
        for hint in hints:
            channel = self._channels.get((platform, hint.key))
            if channel is None:
                continue
            # One that has to be compared with its log grows by that alone: an end that follows would close its streams.
            if channel in self._behind or channel.reading or not channel.follow(hint):
                self._behind.setdefault(channel, [])
                self._work.set()
            else:
                grown.add(channel)
        for channel in grown:
            channel.wake()

    def doubt(self, platform: str | None = None) -> None:
        """Events may have been missed, on one platform or on all: read the logs."""
        for listener in self._listeners:
            if platform is None or listener.wants(platform):
                listener.doubt()
        self.compare(platform)

    def compare(self, platform: str | None = None) -> None:
        """Bring the watched jobs of one platform or of all up to their logs."""
        for channel in self._channels.values():
            if platform in (None, channel.keys.platform):
                self._behind.setdefault(channel, [])
        self._work.set()

    async def look(self, seconds: float) -> None:
        """Compare quiet watched jobs with their logs, every so often: no event tells of a removal."""
        while True:
            await asyncio.sleep(seconds)
            for channel in self._channels.values():
                if channel.quiet_seconds > seconds / 2:
                    self._behind.setdefault(channel, [])
                    self._work.set()

    def close(self) -> None:
        """End every stream; the clients come back by themselves, to any gateway."""
        self.closing = True
        settle(list(self._waiting), NoStore(CLOSING))  # a store that hangs must not hold us up
        for listener in self._listeners:
            listener.close()
        for channel in self._channels.values():
            channel.wake()

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


def settle(waiting: list[asyncio.Future[None]], error: Exception | None) -> None:
    for done in waiting:
        if not done.done():
            if error:
                done.set_exception(error)
            else:
                done.set_result(None)
