"""The only ways a job may change: one method for each Lua file, of the same name.

Each method sends one call and repeats nothing by itself; every call may be repeated by whoever made it, because
it carries what makes it idempotent: the job's key, a nonce, a running number. `commit` runs many at once.
"""

import asyncio
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

from tailrace.streams.errors import TailraceError
from tailrace.streams.functions import Script, build
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import BeatReply, Claim, Errors, Job, Lease, Sweep
from tailrace.streams.policies import MAX_EVENTS, MAX_STEP_BYTES, Policy, rules_of
from tailrace.streams.replies import pairs, to_beat, to_claims, to_errors, to_leases, to_steps, to_sweep, which
from tailrace.streams.schedules import Agenda, Move, to_agenda
from tailrace.streams.store.connection import ServerRefusal, Store
from tailrace.streams.store.server import read_clock
from tailrace.streams.waiting.position import Line, to_line

MOST_PLATFORMS = 50  # in one call: a millisecond or two of the server's time
RECLAIM_BATCH = 50  # jobs taken from one owner in one call: a few milliseconds of the server's time
ENLIST_BATCH = 250  # leases in one look
MEND_BATCH = 500  # entries that one look for jobs without a place reads: a few milliseconds as well
FORGET_BATCH = 100  # jobs removed in one call: a few milliseconds as well
TICKS = 100  # schedules in one look, and ticks in one call: a few milliseconds as well
DEFINITION_BYTES = 256 * 1024  # of definitions in one look
ARGS_ROOM = 8 * 1024  # larger args are kept beside the stream entry, so that its nodes stay small

SETTLING = ("report", "save", "recall", "complete", "fail", "delay", "release", "claim")
TENDING = (
    *("holdings", "enlist", "reclaim", "bury"),
    *("tally", "errors", "line", "wake", "mend", "forget", "release", "fail"),
)
BEATING = ("beat",)  # a script of its own: it is called for every platform all the time, and needs few keys
ACTING = ("cancel", "reopen", "drop", "pause", "resume", "restart", "unschedule")
TICKING = ("tick", "agenda")
BRINGING = (("submit",), ("schedule",), TICKING)  # what brings new work: refused when memory is full


KEPT = ("ended_completed", "ended_failed", "ended_cancelled", "ended_kept", "events")  # what `forget` removes from


class Operation(NamedTuple):
    """One transition to be run: its name, the keys of its job, its arguments in the order of its header."""

    name: str
    keys: tuple[str, ...]
    args: tuple[Any, ...]


class Again(NamedTuple):
    """Whether and when a job is tried again; `attempts` 0: not after a failure."""

    seconds: float
    attempts: int
    max_starts: int
    order: str = "block"


class Tally(NamedTuple):
    """How many jobs wait on a platform, and how many have ever ended there, by outcome."""

    waiting: int
    completed: int
    failed: int
    cancelled: int


class BrokenOperation(TailraceError):
    """A script met something it cannot have written itself: a key of another type, a record without its fields."""


@cache
def script(*names: str) -> Script:
    return build(names, brings_work=names in BRINGING)


class Transitions:
    """The transitions of one store. Platforms are given by their keys."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def run(
        self,
        names: tuple[str, ...],
        sheets: Sequence[tuple[PlatformKeys, Sequence[Operation]]],
        *,
        whole: bool = False,
    ) -> list[Any]:
        """Run operations, platform by platform, in one call for each fifty platforms; one answer each, in order.

        `whole`: this call must not overtake others that are under way, whatever the server knows of our scripts.
        """
        if len(sheets) > MOST_PLATFORMS:
            calls = [sheets[first : first + MOST_PLATFORMS] for first in range(0, len(sheets), MOST_PLATFORMS)]
            parts = await asyncio.gather(*(self.run(names, part, whole=whole) for part in calls))
            return [answer for part in parts for answer in part]
        keys: list[str] = []
        args: list[Any] = []
        own = script(*names).keys
        for platform, operations in sheets:
            keys += platform.own if len(own) == len(platform.own) else [platform[name] for name in own]
            args.append(len(operations))
            for operation in operations:
                keys += operation.keys
                args.append(operation.name)
                args += operation.args
        answers: list[Any] = await self.store.run(script(*names), keys, args, whole=whole)
        return answers

    async def commit(self, platform: PlatformKeys, operations: Sequence[Operation]) -> list[Any]:
        """Settle what many attempts have to say and claim what comes next, in one call."""
        return await self.run(SETTLING, [(platform, operations)])

    async def submit(self, jobs: Sequence[tuple[Job, str]], *, whole: bool = False) -> list[list[str]]:
        """Accept jobs of one platform, each with its fingerprint: `accepted <state>`, `again <state>` or `conflict`."""
        platform = PlatformKeys(jobs[0][0].platform)
        operations = [submit(platform, job, fingerprint) for job, fingerprint in jobs]
        answers = await self.run(("submit",), [(platform, operations)], whole=whole)
        return [[word.decode() for word in checked(answer)] for answer in answers]

    async def claim(
        self, platform: PlatformKeys, owner: str, deadline_seconds: float, policy: Policy, nonces: Sequence[str]
    ) -> list[Claim]:
        operation = claim(owner, deadline_seconds, rules_of(policy), nonces)
        return to_claims(checked((await self.commit(platform, [operation]))[0]))

    async def report(
        self, platform: PlatformKeys, key: str, nonce: str, number: int, event: bytes, max_events: int = MAX_EVENTS
    ) -> str:
        return await self._word(SETTLING, platform, report(platform, key, nonce, number, event, max_events))

    async def save(self, platform: PlatformKeys, key: str, nonce: str, name: str, value: bytes) -> str:
        return await self._word(SETTLING, platform, save(platform, key, nonce, name, value, MAX_STEP_BYTES))

    async def recall(
        self, platform: PlatformKeys, key: str, nonce: str, cursor: str = "0"
    ) -> tuple[str, dict[str, bytes]] | None:
        """Where the next part begins, if there is one, and steps by name; None: it is not this attempt's job."""
        return to_steps(checked((await self.commit(platform, [recall(platform, key, nonce, cursor)]))[0]))

    async def complete(self, platform: PlatformKeys, key: str, nonce: str, event: bytes) -> str:
        return await self._word(SETTLING, platform, complete(platform, key, nonce, event))

    async def fail(self, platform: PlatformKeys, key: str, nonce: str, again: Again, more: bytes) -> str:
        return await self._word(SETTLING, platform, fail(platform, key, nonce, again, more))

    async def delay(self, platform: PlatformKeys, key: str, nonce: str, again: Again, *, hold: bool = False) -> str:
        return await self._word(SETTLING, platform, delay(platform, key, nonce, again, hold=hold))

    async def release(self, platform: PlatformKeys, key: str, nonce: str, max_starts: int) -> str:
        return await self._word(SETTLING, platform, release(platform, key, nonce, max_starts))

    async def cancel(self, platform: PlatformKeys, key: str, more: bytes = b"") -> str:
        """`more` tells who and why: JSON members with a leading comma."""
        operation = Operation("cancel", (platform.record(key), platform.log(key)), (key, more))
        return await self._word(ACTING, platform, operation)

    async def reopen(self, platform: PlatformKeys, key: str, more: bytes = b"") -> str:
        keys = (platform.record(key), platform.log(key), platform.args(key))
        return await self._word(ACTING, platform, Operation("reopen", keys, (key, more)))

    async def drop(self, platform: PlatformKeys, key: str) -> str:
        keys = (platform.record(key), platform.log(key), platform.args(key), platform.steps(key))
        return await self._word(ACTING, platform, Operation("drop", keys, (key,)))

    async def pause(self, platform: PlatformKeys, by: str) -> str:
        return await self._word(ACTING, platform, Operation("pause", (), (by,)))

    async def resume(self, platform: PlatformKeys) -> str:
        return await self._word(ACTING, platform, Operation("resume", (), ()))

    async def restart(self, platform: PlatformKeys, request: str, owners: Iterable[str]) -> int | None:
        """Ask these consumers to leave, once for each name of a request. None: there is another, and none was asked."""
        asking = Operation("restart", (), (request, " ".join(owners)))
        answer = checked((await self.run(ACTING, [(platform, [asking])]))[0])
        return None if answer == b"changed" else int(answer)

    async def schedule(
        self,
        platform: PlatformKeys,
        name: str,
        before: str,
        definition: bytes,
        next_ms: int | None,
        *,
        keep: bool = False,
    ) -> str:
        """`before` is the mark of the definition that was read; `changed` says that it is not there any more."""
        operation = Operation("schedule", (), (name, before, definition, shown(next_ms), int(keep)))
        return await self._word(("schedule",), platform, operation)

    async def unschedule(self, platform: PlatformKeys, name: str, before: str = "", definition: bytes = b"") -> str:
        """Remove a schedule; or, with a definition that stays, pause it."""
        return await self._word(ACTING, platform, Operation("unschedule", (), (name, before, definition)))

    async def agenda(self, platforms: Sequence[tuple[PlatformKeys, int]]) -> list[Agenda | BrokenOperation]:
        """See which schedules are due on platforms, passing over the first so many of each.

        A platform with corrupt keys hides no other.
        """
        now_ms, ticking = await asyncio.gather(
            read_clock(self.store), which(self.store, [keys for keys, _ in platforms], ("ticks",))
        )
        nothing = Agenda(now_ms, None, [])
        asked = [(keys, passed) for keys, passed in platforms if keys.platform in ticking]
        looks = [(keys, [Operation("agenda", (), (passed, TICKS, DEFINITION_BYTES))]) for keys, passed in asked]
        answers = iter(await self.run(TICKING, looks) if looks else ())
        agendas: list[Agenda | BrokenOperation] = []
        for keys, _ in platforms:
            answer = next(answers) if keys.platform in ticking else None
            agendas.append(nothing if answer is None else broken(answer) or to_agenda(answer))
        return agendas

    async def tick(self, platform: PlatformKeys, moves: Sequence[Operation]) -> list[list[str] | BrokenOperation]:
        """Move schedules of one platform to their next ticks, each by an operation that `tick` makes."""
        answers = await self.run(TICKING, [(platform, moves)])
        return [broken(answer) or [word.decode(errors="replace") for word in answer] for answer in answers]

    async def beat(
        self, held: Sequence[tuple[PlatformKeys, Sequence[str]]], owner: str, about: bytes = b""
    ) -> list[BeatReply]:
        """Beat on platforms, in one call. `about` is what the owner has to tell of itself, if that is new."""
        sheets = [(keys, [Operation("beat", (), (owner, " ".join(nonces), about))]) for keys, nonces in held]
        return [to_beat(checked(answer)) for answer in await self.run(BEATING, sheets)]

    async def wake(self, platforms: Sequence[tuple[PlatformKeys, Policy]]) -> int:
        """Bring what is due in line, on platforms, in one call; how many there were."""
        answers = await self.run(TENDING, [(keys, [wake(policy)]) for keys, policy in platforms])
        return sum(int(checked(answer)) for answer in answers)

    async def forget(self, platform: PlatformKeys, policy: Policy, most: int = FORGET_BATCH) -> int:
        """Remove ended jobs that need not be kept any longer; how many, at most `most`."""
        return (await self.forget_all([(platform, policy)], most))[0]

    async def forget_all(self, platforms: Sequence[tuple[PlatformKeys, Policy]], most: int = FORGET_BATCH) -> list[int]:
        """The same on platforms; those that keep nothing are not asked."""
        kept = await which(self.store, [keys for keys, _ in platforms], KEPT)
        sheets = [(keys, [forget(policy, most)]) for keys, policy in platforms if keys.platform in kept]
        answers = iter(await self.run(TENDING, sheets) if sheets else ())
        return [int(checked(next(answers))) if keys.platform in kept else 0 for keys, _ in platforms]

    async def mend(
        self, platforms: Sequence[tuple[PlatformKeys, str]], most: int = MEND_BATCH, jobs: Sequence[str] = ()
    ) -> list[Sweep]:
        """Put jobs that no list names back in line: a page of each platform, from its cursor on, or the jobs named."""
        sheets = [(keys, [Operation("mend", (), (" ".join(jobs), cursor, most))]) for keys, cursor in platforms]
        return [to_sweep(checked(answer)) for answer in await self.run(TENDING, sheets)]

    async def observe(self, platforms: Sequence[PlatformKeys]) -> list[dict[str, str]]:
        """The beat counter of each owner, on platforms, in one trip; a script would cost four times as much."""
        try:
            found = await self.store.commands([("HGETALL", keys["beats"]) for keys in platforms])
        except ServerRefusal as error:
            raise BrokenOperation(str(error)) from None
        return [pairs(flat) for flat in found]

    async def holdings(self, platform: PlatformKeys, owner: str, most: int = RECLAIM_BATCH) -> list[Lease]:
        """Some of the leases that an owner holds."""
        (answer,) = await self.run(TENDING, [(platform, [Operation("holdings", (), (owner, most))])])
        return to_leases(pairs(checked(answer)))

    async def enlist(self, platforms: Sequence[tuple[PlatformKeys, int]], most: int = ENLIST_BATCH) -> list[int]:
        """Put some leases of platforms on their owners' lists, each from a cursor on; the next cursors."""
        sheets = [(keys, [Operation("enlist", (), (cursor, most))]) for keys, cursor in platforms]
        return [int(checked(answer)) for answer in await self.run(TENDING, sheets)]

    async def tally(self, platforms: Sequence[PlatformKeys]) -> list[Tally | BrokenOperation]:
        """How many jobs wait on platforms, and how many have ever ended there, in one call."""
        answers = await self.run(TENDING, [(keys, [Operation("tally", (), ())]) for keys in platforms])
        return [broken(answer) or Tally(*map(int, answer)) for answer in answers]

    async def errors(self, platforms: Sequence[PlatformKeys], most: int) -> list[Errors | BrokenOperation]:
        """How many failed jobs platforms keep, by the type of their error, in one call; so many types of each."""
        answers = await self.run(TENDING, [(keys, [Operation("errors", (), (most,))]) for keys in platforms])
        return [broken(answer) or to_errors(answer) for answer in answers]

    async def line(self, platform: PlatformKeys, key: str, policy: Policy, siblings: tuple[str, ...] = ()) -> Line:
        """See where a job stands in line, and what may hold it up."""
        args = (key, policy.rate, policy.key_rate, " ".join(siblings))
        operation = Operation("line", (platform.record(key),), args)
        return to_line(checked((await self.run(TENDING, [(platform, [operation])]))[0]))

    async def tend(self, platforms: Sequence[tuple[PlatformKeys, Policy]]) -> list[dict[str, str]]:
        """`observe` on platforms, and `wake` where something may have come; a look is cheaper than a script."""
        asked = [keys for keys, _ in platforms]
        beats, stirs = await asyncio.gather(self.observe(asked), which(self.store, asked, ("due", "alarms", "called")))
        if sheets := [(keys, [wake(policy)]) for keys, policy in platforms if keys.platform in stirs]:
            await self.run(TENDING, sheets)
        return beats

    async def reclaim(self, platform: PlatformKeys, lease: Lease, counter: str, policy: Policy) -> str:
        return word((await self.reclaim_all(platform, [lease], counter, policy))[0])

    async def reclaim_all(
        self, platform: PlatformKeys, leases: Sequence[Lease], counter: str, policy: Policy
    ) -> list[Any]:
        """Take the jobs of some leases of one owner away, in one call; the raw answer of each."""
        operations = [reclaim(platform, lease, counter, policy) for lease in leases]
        return await self.run(TENDING, [(platform, operations)])

    async def bury(self, platform: PlatformKeys, owner: str, counter: str) -> str:
        return await self._word(TENDING, platform, Operation("bury", (), (owner, counter)))

    async def _word(self, names: tuple[str, ...], platform: PlatformKeys, operation: Operation) -> str:
        return word((await self.run(names, [(platform, [operation])]))[0])


def submit(platform: PlatformKeys, job: Job, fingerprint: str) -> Operation:
    keys = (platform.record(job.key), platform.log(job.key), platform.args(job.key))
    options = job.options
    args = (job.key, options.priority, job.kind, job.args, fingerprint, ARGS_ROOM, options.extras())
    return Operation("submit", keys, args)


def tick(platform: PlatformKeys, name: str, before: str, move: Move, job: Job, fingerprint: str) -> Operation:
    """Bring the job of a tick in line, unless the tick was missed, and move its schedule on."""
    accepting = submit(platform, job, fingerprint)
    place = (name, before, move.tick_ms, shown(move.next_ms), int(move.fires_ms is None))
    return Operation("tick", accepting.keys, (*place, *accepting.args))


def shown(ms: int | None) -> int | str:
    return "" if ms is None else ms


def claim(
    owner: str, deadline_seconds: float, rules: tuple[int | str, ...], nonces: Sequence[str], company: str = "locked"
) -> Operation:
    """`rules` as `rules_of` makes them; `company`: some | none | locked, what else the process of the owner runs."""
    return Operation("claim", (), (owner, int(deadline_seconds * 1000), company, *rules, " ".join(nonces)))


def report(
    platform: PlatformKeys, key: str, nonce: str, number: int, event: bytes, max_events: int = MAX_EVENTS
) -> Operation:
    return Operation("report", (platform.log(key),), (key, nonce, number, max_events, event))


def save(platform: PlatformKeys, key: str, nonce: str, name: str, value: bytes, most: int) -> Operation:
    return Operation("save", (platform.record(key), platform.steps(key)), (key, nonce, most, name, value))


def recall(platform: PlatformKeys, key: str, nonce: str, cursor: str = "0") -> Operation:
    return Operation("recall", (platform.steps(key),), (key, nonce, cursor))


def complete(platform: PlatformKeys, key: str, nonce: str, event: bytes) -> Operation:
    return Operation("complete", (platform.record(key), platform.log(key)), (key, nonce, event))


def fail(platform: PlatformKeys, key: str, nonce: str, again: Again, more: bytes) -> Operation:
    args = (key, nonce, again.attempts, again.max_starts, round(again.seconds * 1000), again.order, more)
    return Operation("fail", (platform.record(key), platform.log(key)), args)


def delay(platform: PlatformKeys, key: str, nonce: str, again: Again, *, hold: bool = False) -> Operation:
    args = (key, nonce, again.max_starts, round(again.seconds * 1000), int(hold), again.order)
    return Operation("delay", (platform.record(key), platform.log(key)), args)


def release(platform: PlatformKeys, key: str, nonce: str, max_starts: int) -> Operation:
    return Operation("release", (platform.record(key), platform.log(key)), (key, nonce, max_starts))


def reclaim(platform: PlatformKeys, lease: Lease, counter: str, policy: Policy) -> Operation:
    args = (lease.key, lease.nonce, lease.owner, counter, policy.max_crashes, policy.max_starts)
    return Operation("reclaim", (platform.record(lease.key), platform.log(lease.key)), args)


def wake(policy: Policy) -> Operation:
    return Operation("wake", (), (policy.key_overall, policy.key_rate, round(policy.key_rate_seconds * 1000)))


def forget(policy: Policy, most: int) -> Operation:
    times = (round(policy.keep_completed_seconds * 1000), round(policy.keep_failed_seconds * 1000))
    return Operation("forget", (), (times[0], policy.keep_completed, times[1], policy.keep_failed, most))


def checked(answer: Any) -> Any:
    """The answer itself, or an error when its operation broke."""
    if error := broken(answer):
        raise error
    return answer


def broken(answer: Any) -> BrokenOperation | None:
    if isinstance(answer, list) and answer and answer[0] == b"error":
        return BrokenOperation(answer[1].decode(errors="replace"))
    return None


def word(answer: Any) -> str:
    text: bytes = checked(answer)
    return text.decode()
