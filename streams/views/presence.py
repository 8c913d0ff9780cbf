"""Which consumers live, by what this process has seen itself: a beat counter that changes between two looks.

Only this process's own clock counts: the clocks of the store and of consumers may jump. A counter that changes
shows that its consumer is alive.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import anyio
import msgspec
from msgspec import Struct

from tailrace.streams.errors import WrongField
from tailrace.streams.keys import PlatformKeys, join_id, split_id
from tailrace.streams.leases import read_leases
from tailrace.streams.messages import About
from tailrace.streams.operations import BrokenOperation
from tailrace.streams.store.connection import ServerRefusal
from tailrace.streams.transitions import Transitions
from tailrace.streams.views.apart import look_apart
from tailrace.streams.views.corrupt import of_each

T = TypeVar("T")

DEADLINE_SECONDS = 10.0  # of a consumer that does not tell its own: one that is silent for as long is not alive
PATIENCE_SECONDS = 2.5  # for the first change of a counter; a beat comes every two seconds unless set otherwise
LOOK_SECONDS = 0.1
GLANCE_SECONDS = 0.5  # how old a look may be for a caller that does not wait
CONTINUITY_SECONDS = 10.0  # between two looks; after a longer pause a change does not show that it is alive now
NOTHING = About()


class ConsumerPresence(Struct, frozen=True):
    """One process that serves platforms, as it was last seen."""

    owner: str
    platforms: tuple[str, ...]
    beats: int
    changed_seconds: float | None  # since its counter was seen to change; None: it was not
    watched_seconds: float
    deadline_seconds: float

    @property
    def alive(self) -> bool | None:
        """None: it was not watched for long enough to tell."""
        silent = self.watched_seconds if self.changed_seconds is None else self.changed_seconds
        if silent >= self.deadline_seconds:
            return False
        return None if self.changed_seconds is None else True


class Watch:
    """The beats seen of one owner."""

    def __init__(self, now: float, changed: float | None) -> None:
        self.since = now
        self.changed = changed
        self.counters: dict[str, str] = {}
        self.deadline_seconds = DEADLINE_SECONDS


class Presence:
    """Remembers beats between two reads; the first read waits for a beat."""

    def __init__(
        self,
        transitions: Transitions,
        platforms: Iterable[str],
        patience_seconds: float = PATIENCE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transitions = transitions
        self._platforms = list(platforms)
        self._patience_seconds = patience_seconds
        self._clock = clock
        self._watches: dict[str, Watch] = {}
        self._deadlines: dict[str, float] = {}  # of those that beat
        self._looked: float | None = None
        self._one_at_a_time = anyio.Lock()

    async def see(self) -> list[ConsumerPresence]:
        """Every consumer that beats or holds a job. Waits for those it does not know yet, up to its patience."""
        async with self._one_at_a_time:
            now = await self._look()
            while any(w.changed is None and now - w.since < self._patience_seconds for w in self._watches.values()):
                await anyio.sleep(LOOK_SECONDS)
                now = await self._look()
            return [tell(owner, watch, now) for owner, watch in sorted(self._watches.items())]

    async def glance(self) -> list[ConsumerPresence] | None:
        """As `see`, without waiting for a beat: by one look, or by one of a moment ago. None: there was no look yet."""
        now = self._clock()
        looked_lately = self._looked is not None and now - self._looked <= GLANCE_SECONDS
        if not looked_lately and not self._one_at_a_time.locked():
            async with self._one_at_a_time:
                now = await self._look()
        if self._looked is None or now - self._looked > CONTINUITY_SECONDS:
            return None
        # As it was when we looked: no worker was silent because the store keeps us waiting.
        return [tell(owner, watch, self._looked) for owner, watch in sorted(self._watches.items())]

    async def jobs(self) -> dict[str, list[str]]:
        """The ids of the jobs that each owner runs. Read page by page: there may be ten thousand."""
        found: dict[str, list[str]] = {}
        store = self._transitions.store
        for platform, count in (await self._ask("HLEN", "leases")).items():
            for lease in await read_leases(store, store.keys(platform)) if count else ():
                found.setdefault(lease.owner, []).append(join_id(platform, lease.key))
        return {owner: sorted(jobs) for owner, jobs in found.items()}

    async def told(self) -> dict[str, About]:
        """The facts that consumers report about themselves, without other platforms and unreadable ones."""
        found: dict[str, About] = {}
        for flat in (await self._ask("HGETALL", "consumers")).values():
            for owner, raw in zip(flat[::2], flat[1::2], strict=True):
                with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                    about = msgspec.json.decode(raw, type=About)
                    refused = tuple(each for each in about.refused if self._is_ours(each.job_id))
                    found[owner.decode()] = msgspec.structs.replace(about, refused=refused)
        return found

    async def _ask(self, command: str, name: str) -> dict[str, Any]:
        """The answer of a command about one key of each platform."""

        async def ask(platforms: Sequence[PlatformKeys]) -> list[Any]:
            try:
                return await self._transitions.store.commands([(command, keys[name]) for keys in platforms])
            except ServerRefusal as error:
                raise BrokenOperation(str(error)) from None

        return (await self._each(ask))[0]

    async def _each(
        self, ask: Callable[[Sequence[PlatformKeys]], Awaitable[Sequence[T]]]
    ) -> tuple[dict[str, T], set[str]]:
        """The answer for each platform, and the platforms whose node of a cluster does not answer."""
        store = self._transitions.store
        looked = await look_apart(
            store, self._platforms, lambda group: of_each([store.keys(name) for name in group], ask)
        )
        return {name: answer for answers in looked.answers for name, answer in answers.items()}, set(looked.down)

    def _is_ours(self, job_id: str) -> bool:
        try:
            return split_id(job_id)[0] in self._platforms
        except WrongField:
            return False

    async def _look(self) -> float:
        looks, down = await self._each(self._transitions.observe)
        now = self._clock()
        await self._learn_deadlines({owner for beats in looks.values() for owner in beats})
        continuous = self._looked is not None and now - self._looked <= CONTINUITY_SECONDS
        known, self._watches, self._looked = (self._watches if continuous else {}), {}, now
        counters: dict[str, dict[str, str]] = {}
        for platform, beats in looks.items():
            for owner, counter in beats.items():
                counters.setdefault(owner, {})[platform] = counter
        for owner, seen in counters.items():
            # One that was not there a moment ago has just begun to beat.
            watch = known.get(owner) or Watch(now, now if continuous and has_beaten(seen) else None)
            if watch.counters and any(watch.counters.get(platform) != counter for platform, counter in seen.items()):
                watch.changed = now
            watch.counters = seen
            watch.deadline_seconds = self._deadlines.get(owner, DEADLINE_SECONDS)
            self._watches[owner] = watch
        for owner, watch in known.items():
            if watch.counters.keys() & down:  # it may beat where we cannot look
                self._watches.setdefault(owner, watch)
        return now

    async def _learn_deadlines(self, owners: set[str]) -> None:
        """Ask once for each owner: it tells its deadline with its first beat, and never another."""
        if new := owners - self._deadlines.keys():
            told = await self.told()
            for owner in new:
                self._deadlines[owner] = told.get(owner, NOTHING).deadline_seconds or DEADLINE_SECONDS
        for gone in self._deadlines.keys() - owners:
            del self._deadlines[gone]


def has_beaten(counters: Mapping[str, str]) -> bool:
    """An owner that claimed and has not beaten yet is there with a counter of 0."""
    return any(counter != "0" for counter in counters.values())


def tell(owner: str, watch: Watch, now: float) -> ConsumerPresence:
    return ConsumerPresence(
        owner=owner,
        platforms=tuple(sorted(watch.counters)),
        beats=max((int(counter) for counter in watch.counters.values() if counter.isdecimal()), default=0),
        changed_seconds=None if watch.changed is None else round(now - watch.changed, 3),
        watched_seconds=round(now - watch.since, 3),
        deadline_seconds=watch.deadline_seconds,
    )
