"""Live: the channels of all watched jobs. The feed is a hint, the log is the truth."""

import asyncio
from collections.abc import AsyncIterator, Callable, Container, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Protocol

import anyio

from tailrace.gateway.live.channel import Channel, Watcher
from tailrace.gateway.live.frames import JobFrame, frames_of
from tailrace.gateway.live.log_reader import AWAY, LogReader, settle
from tailrace.gateway.metrics.counters import GatewayCounters
from tailrace.streams.errors import NoStore
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Hint
from tailrace.streams.store.connection import Store

SURE_SECONDS = 1.0  # that a job is still there after the last event; for a client that comes later the log is read
CLOSING = "this gateway ends"


class Hearing:
    """Which feeds are read now: their events arrive, or are known to be missing."""

    def __init__(self) -> None:
        self._read: dict[str, bool] = {}  # by platform
        self._all = asyncio.Event()

    def note(self, platforms: Iterable[str], *, read: bool) -> None:
        self._read.update(dict.fromkeys(platforms, read))
        if all(self._read.values()):
            self._all.set()
        else:
            self._all.clear()

    def on(self, platform: str) -> bool:
        return self._read.get(platform, False)

    def on_any(self, platforms: Iterable[str]) -> bool:
        return any(map(self.on, platforms))

    async def wait(self) -> None:
        """Until all feeds are read."""
        await self._all.wait()


class Listener(Protocol):
    """An object that gets every event of some platforms."""

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
        self.heard = Hearing()
        self._store = store
        self._channels: dict[tuple[str, str], Channel] = {}
        self._listeners: set[Listener] = set()
        self._readers: dict[str, LogReader] = {}
        self._unstarted: list[LogReader] = []
        self._more = asyncio.Event()
        self._waiting: set[asyncio.Future[None]] = set()  # for any channel to catch up

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
            elif self.heard.on(keys.platform) and channel.quiet_seconds > SURE_SECONDS:
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
        self._group(channel).add(channel, done)
        await done

    def hear(self, platform: str, hints: Sequence[Hint]) -> None:
        """Pass an event of the feed on to its channel and to listeners."""
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
            group = self._group(channel)
            if channel in group or channel.reading or not channel.follow(hint):
                group.add(channel)
            else:
                grown.add(channel)
        for channel in grown:
            channel.wake()

    def doubt(self, *platforms: str) -> None:
        """Events may have been missed, on these platforms or, without any, on all: read the logs."""
        for listener in self._listeners:
            if not platforms or any(map(listener.wants, platforms)):
                listener.doubt()
        self.compare(*platforms)

    def compare(self, *platforms: str) -> None:
        """Bring the watched jobs of these platforms, or of all, up to their logs."""
        for channel in self._channels.values():
            if not platforms or channel.keys.platform in platforms:
                self._group(channel).add(channel)

    async def look(self, seconds: float) -> None:
        """Compare quiet watched jobs with their logs, every so often: no event tells of a removal."""
        while True:
            await asyncio.sleep(seconds)
            for channel in self._channels.values():
                if channel.quiet_seconds > seconds / 2:
                    self._group(channel).add(channel)

    def close(self) -> None:
        """End every stream; the clients come back by themselves, to any gateway."""
        self.closing = True
        settle(list(self._waiting), NoStore(CLOSING))  # a store that hangs must not hold us up
        for listener in self._listeners:
            listener.close()
        for channel in self._channels.values():
            channel.wake()

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            while True:
                self._more.clear()
                for group in self._unstarted:
                    tasks.start_soon(group.run)
                self._unstarted.clear()
                await self._more.wait()

    def _group(self, channel: Channel) -> LogReader:
        """The reader of a job's log: one for all, or on a cluster one for each slot."""
        tag = channel.keys.tag if self._store.clustered else ""
        if tag not in self._readers:
            self._readers[tag] = LogReader(self._store)
            self._unstarted.append(self._readers[tag])
            self._more.set()
        return self._readers[tag]
