"""The only ways a job may change: transitions, run in one call of the server.

Nothing is repeated here; its caller may repeat every call, because it carries what makes it idempotent: the job's key,
a nonce, a running number. What an attempt says of its own job goes through `commit`, many operations at once.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tailrace.streams.functions import script_of
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.leases import see_limit, to_leases
from tailrace.streams.messages import BeatReply, Errors, Job, Lease, Sweep
from tailrace.streams.operations import (
    NO_NOTE,
    Again,
    AuditNote,
    BrokenOperation,
    Operation,
    broken,
    call,
    checked,
    word,
)
from tailrace.streams.policies import Policy, rules_of
from tailrace.streams.replies import pairs, to_beat, to_errors, to_sweep, which
from tailrace.streams.schedules import Agenda, Move, to_agenda
from tailrace.streams.store.connection import ServerRefusal, Store
from tailrace.streams.store.replication import PROMISES
from tailrace.streams.store.server import read_clock
from tailrace.streams.waiting.position import Line, to_line

# How much one call does: a millisecond or two of the server's time, because all others wait for it.
MOST_PLATFORMS = 25
RECLAIM_BATCH = 12  # jobs taken from one owner
ENLIST_BATCH = 80  # leases in one look
MEND_BATCH = 60  # entries in one look for jobs without a place
FORGET_BATCH = 40  # jobs removed
TIDY_TRIES = 5  # looks at leases and at what happened since
TICKS = 100  # schedules in one look
TICK_BATCH = 25  # ticks
DEFINITION_BYTES = 256 * 1024  # of definitions in one look
MOST_SIGNALS = 100  # that a job may have
ARGS_ROOM = 8 * 1024  # larger args are kept beside the stream entry, so that its nodes stay small

KEPT = ("ended_completed", "ended_failed", "ended_cancelled", "ended_kept", "events")  # what `forget` removes from


def share(batch: int, platforms: int) -> int:
    """How much of a batch is for each platform, where a call is for several."""
    return max(1, batch // min(platforms, MOST_PLATFORMS))


class Forgotten(NamedTuple):
    """How many ended jobs of a platform were removed, and whether there may be more to remove."""

    removed: int
    more: bool


class Tally(NamedTuple):
    """How many jobs wait on a platform, and how many have ever ended there, by outcome."""

    waiting: int
    completed: int
    failed: int
    cancelled: int
    lost: int = 0  # attempts whose consumer fell silent


class Tick(NamedTuple):
    """A schedule that moves from one tick to the next; `before` is the mark of the definition that was read."""

    schedule: str
    before: str
    move: Move
    job: Job
    fingerprint: str


class Transitions:
    """The transitions of one store. Platforms are given by their keys."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._at_once = 1 if store.clustered else MOST_PLATFORMS  # a call to a cluster is for one slot

    async def run(
        self, sheets: Sequence[tuple[PlatformKeys, Sequence[Operation]]], *, whole: bool = False
    ) -> list[Any]:
        """Run operations of one script, platform by platform, in several calls when they are many; one answer each.

        `whole`: this call must not overtake others that are under way, whatever the server knows of our scripts.
        """
        if len(sheets) > self._at_once:
            calls = [sheets[first : first + self._at_once] for first in range(0, len(sheets), self._at_once)]
            parts = await asyncio.gather(*(self.run(part, whole=whole) for part in calls))
            return [answer for part in parts for answer in part]
        if not sheets or not sheets[0][1]:
            return []
        script = script_of(sheets[0][1][0].name)
        keys: list[str] = []
        args: list[Any] = []
        for platform, operations in sheets:
            keys += [platform[name] for name in script.keys]
            args.append(len(operations))
            for operation in operations:
                keys += operation.keys
                args.append(operation.name)
                args += operation.args
        first = sheets[0]
        replicated = self.store.replicated(first[0].platform) and any(each.name in PROMISES for each in first[1])
        answers: list[Any] = await self.store.run(script, keys, args, whole=whole, replicated=replicated)
        return answers

    async def run_where(
        self, names: Sequence[str], sheets: Sequence[tuple[PlatformKeys, Sequence[Operation]]]
    ) -> list[Any]:
        """Run operations on the platforms that have any of these keys: EXISTS is cheaper. None: not run."""
        there = await which(self.store, [keys for keys, _ in sheets], names)
        answers = iter(await self.run([sheet for sheet in sheets if sheet[0].platform in there]))
        return [next(answers) if keys.platform in there else None for keys, _ in sheets]

    async def commit(self, platform: PlatformKeys, operations: Sequence[Operation]) -> list[Any]:
        """Settle operations of many attempts and claim the next jobs, in one call."""
        return await self.run([(platform, operations)])

    async def one(self, platform: PlatformKeys, operation: Operation) -> Any:
        """Run one operation; its answer."""
        return checked((await self.run([(platform, [operation])]))[0])

    async def word(self, platform: PlatformKeys, operation: Operation) -> str:
        """Run one operation that answers a word."""
        return word((await self.run([(platform, [operation])]))[0])

    async def submit(self, jobs: Sequence[tuple[Job, str]], *, whole: bool = False) -> list[list[str]]:
        """Accept jobs of one platform, each with its fingerprint: `accepted <state>`, `again <state>` or `conflict`."""
        platform = self.store.keys(jobs[0][0].platform)
        operations = [call.submit(platform, **accepting(job, fingerprint)) for job, fingerprint in jobs]
        answers = await self.run([(platform, operations)], whole=whole)
        return [[word.decode() for word in checked(answer)] for answer in answers]

    async def fail(self, platform: PlatformKeys, key: str, nonce: str, again: Again, more: bytes) -> str:
        operation = call.fail(platform, key=key, nonce=nonce, attempts=again.attempts, more=more, **again.rest)
        return await self.word(platform, operation)

    async def noted(
        self, platform: PlatformKeys, operation: Operation, note: AuditNote | None, key: str = "", done: str = "ok"
    ) -> Any:
        """Run one operation and, in the same call, keep who asked for it, if it did something; its answer."""
        operations = [operation, note.operation(key, done)] if note else [operation]
        return checked((await self.run([(platform, operations)]))[0])

    async def cancel(self, platform: PlatformKeys, key: str, more: bytes = b"", note: AuditNote | None = None) -> str:
        """`more` tells who and why: JSON members with a leading comma."""
        operation = call.cancel(platform, key=key, more=more)
        return word(await self.noted(platform, operation, note, key, "ok cancelling"))

    async def reopen(self, platform: PlatformKeys, key: str, more: bytes = b"", note: AuditNote | None = None) -> str:
        return word(await self.noted(platform, call.reopen(platform, key=key, more=more), note, key))

    async def signal(self, platform: PlatformKeys, key: str, name: str, data: bytes) -> str:
        return await self.word(platform, call.signal(platform, key=key, name=name, data=data, most=MOST_SIGNALS))

    async def drop(self, platform: PlatformKeys, key: str, note: AuditNote | None = None) -> str:
        return word(await self.noted(platform, call.drop(platform, key=key), note, key))

    async def pause(self, platform: PlatformKeys, by: str, note: AuditNote | None = None) -> str:
        return word(await self.noted(platform, call.pause(by=by), note))

    async def resume(self, platform: PlatformKeys, note: AuditNote | None = None) -> str:
        return word(await self.noted(platform, call.resume(), note))

    async def configure(
        self, platform: PlatformKeys, before: int, rules: bytes, declared: str = "", note: AuditNote | None = None
    ) -> str:
        """Write a policy over version `before`, 0: the first one; its version, or `changed`: there is another one."""
        operation = call.configure(before=before, rules=rules, declared=declared)
        return word(await self.noted(platform, operation, note, done=""))

    async def restart(
        self, platform: PlatformKeys, request: str, owners: Iterable[str], note: AuditNote | None = None
    ) -> int | None:
        """Ask these consumers to leave, once for each name of a request. None: there is another, and none was asked."""
        operation = call.restart(request=request, owners=" ".join(owners))
        answer = await self.noted(platform, operation, note, done="")
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
        note: AuditNote = NO_NOTE,
    ) -> str:
        """`before` is the mark of the definition that was read; `changed` says that it is not there any more."""
        times = {"next_ms": shown(next_ms), "keep": int(keep)}
        operation = call.schedule(name=name, before=before, definition=definition, **times, **note._asdict())
        return await self.word(platform, operation)

    async def unschedule(
        self,
        platform: PlatformKeys,
        name: str,
        before: str = "",
        definition: bytes = b"",
        note: AuditNote | None = None,
    ) -> str:
        """Remove a schedule; or, with a definition that stays, pause it."""
        operation = call.unschedule(name=name, before=before, definition=definition)
        return word(await self.noted(platform, operation, note))

    async def agenda(self, platforms: Sequence[tuple[PlatformKeys, int]]) -> list[Agenda | BrokenOperation]:
        """See which schedules are due on platforms, after passing over the given number of each.

        A platform with corrupt keys hides no other.
        """
        looks = [(keys, [call.agenda(passed=passed, most=TICKS, bytes=DEFINITION_BYTES)]) for keys, passed in platforms]
        first = platforms[0][0]
        now_ms, answers = await asyncio.gather(read_clock(self.store, first), self.run_where(("ticks",), looks))
        nothing = Agenda(now_ms, None, [])
        return [nothing if answer is None else broken(answer) or to_agenda(answer) for answer in answers]

    async def tick(self, platform: PlatformKeys, ticks: Sequence[Tick]) -> list[list[str] | BrokenOperation]:
        """Enqueue the jobs of ticks, unless they were missed, and move their schedules to their next ticks."""
        operations = [
            call.tick(
                platform,
                name=tick.schedule,
                before=tick.before,
                tick_ms=tick.move.tick_ms,
                next_ms=shown(tick.move.next_ms),
                missed=int(tick.move.fires_ms is None),
                **accepting(tick.job, tick.fingerprint),
            )
            for tick in ticks
        ]
        answers: list[Any] = []
        for start in range(0, len(operations), TICK_BATCH):
            answers += await self.run([(platform, operations[start : start + TICK_BATCH])])
        return [broken(answer) or [word.decode(errors="replace") for word in answer] for answer in answers]

    async def beat(
        self, held: Sequence[tuple[PlatformKeys, Sequence[str]]], owner: str, about: bytes = b""
    ) -> list[BeatReply]:
        """Beat on platforms, in one call. `about` is what the owner has to tell of itself, if that is new."""
        sheets = [(keys, [call.beat(owner=owner, held=" ".join(nonces), about=about)]) for keys, nonces in held]
        return [to_beat(checked(answer)) for answer in await self.run(sheets)]

    async def wake(self, platforms: Sequence[tuple[PlatformKeys, Policy]]) -> int:
        """Enqueue the jobs that are due, on platforms, in one call; how many there were."""
        answers = await self.run([(keys, [call.wake(**rules_of("wake", policy))]) for keys, policy in platforms])
        return sum(int(checked(answer)) for answer in answers)

    async def forget(
        self, platforms: Sequence[tuple[PlatformKeys, Policy]], most: int = FORGET_BATCH
    ) -> list[Forgotten]:
        """Remove ended jobs that need not be kept any longer, at most `most` of each platform."""
        sheets = [(keys, [call.forget(most=most, **rules_of("forget", policy))]) for keys, policy in platforms]
        answers = await self.run_where(KEPT, sheets)
        return [Forgotten(*([0, 0] if answer is None else checked(answer))) for answer in answers]

    async def mend(
        self, platforms: Sequence[tuple[PlatformKeys, str]], most: int = MEND_BATCH, jobs: Sequence[str] = ()
    ) -> list[Sweep]:
        """Put jobs that no list names back into the queue: the jobs named, or a page of each platform."""
        sheets = [(keys, [call.mend(names=" ".join(jobs), cursor=cursor, most=most)]) for keys, cursor in platforms]
        return [to_sweep(checked(answer)) for answer in await self.run(sheets)]

    async def tidy(self, platform: PlatformKeys, what: str, name: str, *, act: bool) -> str:
        """Put right one thing that is kept about jobs, or only look at it: `fine`, `wrong` or `ok`.

        `moved`: too many jobs of the platform started or ended meanwhile, several times.
        """
        for _ in range(TIDY_TRIES):
            seen = await see_limit(self.store, platform, name) if what == "limit" else ""
            answer = await self.word(platform, call.tidy(what=what, name=name, seen=seen, act=int(act)))
            if answer != "moved":
                break
        return answer

    async def observe(self, platforms: Sequence[PlatformKeys]) -> list[dict[str, str]]:
        """The beat counter of each owner, on platforms, in one trip; a script would cost four times as much."""
        try:
            found = await self.store.commands([("HGETALL", keys["beats"]) for keys in platforms])
        except ServerRefusal as error:
            raise BrokenOperation(str(error)) from None
        return [pairs(flat) for flat in found]

    async def holdings(self, platform: PlatformKeys, owner: str, most: int = RECLAIM_BATCH) -> list[Lease]:
        """Some of the leases that an owner holds."""
        return to_leases(pairs(await self.one(platform, call.holdings(owner=owner, most=most))))

    async def enlist(self, platforms: Sequence[tuple[PlatformKeys, int]], most: int = ENLIST_BATCH) -> list[int]:
        """Put some leases of platforms on their owners' lists, each from a cursor on; the next cursors."""
        sheets = [(keys, [call.enlist(cursor=cursor, most=most)]) for keys, cursor in platforms]
        answers = await self.run_where(("leases",), sheets)
        return [0 if answer is None else int(checked(answer)) for answer in answers]

    async def tally(self, platforms: Sequence[PlatformKeys]) -> list[Tally | BrokenOperation]:
        """How many jobs wait on platforms, and how many have ever ended there, in one call."""
        answers = await self.run([(keys, [call.tally()]) for keys in platforms])
        return [broken(answer) or Tally(*map(int, answer)) for answer in answers]

    async def errors(self, platforms: Sequence[PlatformKeys], most: int) -> list[Errors | BrokenOperation]:
        """How many failed jobs platforms keep, by the type of their error, in one call; up to `most` types of each."""
        answers = await self.run([(keys, [call.errors(most=most)]) for keys in platforms])
        return [broken(answer) or to_errors(answer) for answer in answers]

    async def line(
        self,
        platform: PlatformKeys,
        key: str,
        policy: Policy,
        siblings: tuple[str, ...] = (),
        owners: Sequence[str] = (),
    ) -> Line:
        """The position of a job in its queue, and the gates that hold it up; `owners`: the live consumers."""
        operation = call.line(platform, key=key, owners=" ".join(owners), **rules_of("line", policy, siblings))
        return to_line(await self.one(platform, operation))

    async def tend(self, platforms: Sequence[tuple[PlatformKeys, Policy]]) -> list[dict[str, str]]:
        """`observe` on platforms, and `wake` where something may have come; one that broke disturbs no other."""
        wakes = [(keys, [call.wake(**rules_of("wake", policy))]) for keys, policy in platforms]
        beats, _woken = await asyncio.gather(
            self.observe([keys for keys, _ in platforms]), self.run_where(("due", "alarms", "called"), wakes)
        )
        return beats

    async def reclaim(
        self, platform: PlatformKeys, leases: Sequence[Lease], counter: str, policy: Policy
    ) -> list[str | BrokenOperation]:
        """Take the jobs of some leases of one owner away, in one call."""
        operations = [
            call.reclaim(
                platform,
                key=lease.key,
                nonce=lease.nonce,
                owner=lease.owner,
                counter=counter,
                **rules_of("reclaim", policy),
            )
            for lease in leases
        ]
        return [broken(answer) or word(answer) for answer in await self.run([(platform, operations)])]

    async def bury(self, platform: PlatformKeys, owner: str, counter: str) -> str:
        return await self.word(platform, call.bury(owner=owner, counter=counter))


def accepting(job: Job, fingerprint: str) -> dict[str, Any]:
    """The arguments of `submit` and `tick` about a new job."""
    return {
        "key": job.key,
        "band": job.options.priority,
        "kind": job.kind,
        "payload": job.args,
        "fingerprint": fingerprint,
        "room": ARGS_ROOM,
        "extras": job.extras,
    }


def shown(ms: int | None) -> int | str:
    return "" if ms is None else ms
