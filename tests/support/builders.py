"""Short ways to set a scene on one platform: jobs in line, owners at work, and the store as it stands."""

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, NamedTuple

from msgspec.structs import replace

from tailrace.streams.history.events import Event, decode_event, event_body
from tailrace.streams.keys import BANDS, GROUP, Keyspace
from tailrace.streams.leases import read_leases
from tailrace.streams.messages import BeatReply, Claim, Job, Lease, Record, Step, encode
from tailrace.streams.operations import Again, BrokenOperation, Operation, call, checked
from tailrace.streams.options import Options
from tailrace.streams.policies import MAX_EVENTS, Policy, rules_of
from tailrace.streams.replies import read_job, read_record, to_claims
from tailrace.streams.states import Status
from tailrace.streams.store.connection import Store
from tests.support.attempts import AttemptTransitions

DUMP = """
local all = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local value = redis.call('DUMP', key)
  local kind = redis.call('TYPE', key).ok
  if kind == 'set' then
    local members = redis.call('SMEMBERS', key)
    table.sort(members)
    value = table.concat(members, '\\n')
  elseif kind == 'hash' then -- whose order, like that of a set, may change when it is only read
    local fields = redis.call('HGETALL', key)
    local pairs = {}
    for i = 1, #fields, 2 do
      local value = fields[i] == 'latest_ms' and '' or fields[i + 1] -- the clock runs on, whatever is asked
      pairs[#pairs + 1] = #fields[i] .. ' ' .. fields[i] .. value
    end
    table.sort(pairs)
    value = table.concat(pairs, '\\n')
  end
  all[#all + 1] = key
  all[#all + 1] = value
end
return all"""

LEFTOVER = re.compile(r"(order|parked|starts|dedupe):|(orders|limits|front:\w+|unfinished|suspects|due|alarms|starts)$")
NOBODY = "nobody-gave-this"  # a nonce that no claim ever carried


async def dump(store: Store) -> dict[bytes, bytes]:
    """Every key of the store with all it holds."""
    flat = [word for node in await store.nodes() for word in await node.command("EVAL", DUMP, 0)]
    return dict(zip(flat[::2], flat[1::2], strict=True))


def differences(before: dict[bytes, bytes], after: dict[bytes, bytes]) -> list[str]:
    """The keys that are not what they were."""
    return sorted(key.decode() for key in before.keys() | after.keys() if before.get(key) != after.get(key))


@asynccontextmanager
async def untouched(store: Store) -> AsyncIterator[None]:
    """What happens inside leaves no trace in the store."""
    before = await dump(store)
    yield
    changed = differences(before, await dump(store))
    assert not changed, f"these keys changed: {', '.join(changed)}"


async def forget_scripts(store: Store) -> None:
    for node in await store.nodes():
        await node.command("SCRIPT", "FLUSH")


def in_lane(store: Store, *names: str) -> Store:
    """The same store with the platforms of a lane in one slot, as a cluster has them."""
    store.keyspace = Keyspace(tags=dict.fromkeys(names, "lane") if store.clustered else {})
    return store


class Look(NamedTuple):
    """Who beats and who runs what."""

    beats: dict[str, str]
    leases: tuple[Lease, ...]


class Desk:
    """One platform, driven by hand: every transition with its arguments filled in.

    Nonces count up (n1, n2 …), owners are named by the test, and the desk remembers who claimed what.
    """

    def __init__(
        self, store: Store, platform: str = "shop", *, max_running: int = 0, max_crashes: int = 3, **rules: Any
    ) -> None:
        self.store = store
        self.transitions = AttemptTransitions(store)
        self.keys = store.keys(platform)
        self.max_running = max_running
        self.policy = Policy(max_running=max_running, max_crashes=max_crashes, **rules)
        self.max_crashes = max_crashes
        self.company = "locked"  # what else the process of a claimer runs
        self.siblings: tuple[str, ...] = ()  # the other platforms of its lane
        self.owners: dict[str, str] = {}
        self.fresh = (f"n{number}" for number in count(1))

    def job(self, key: str, *, args: bytes = b"{}", kind: str = "drill", **options: Any) -> Job:
        return Job(self.keys.platform, key, kind, args, Options(**options))

    def nonces(self, owner: str, slots: int) -> list[str]:
        nonces = [next(self.fresh) for _ in range(slots)]
        self.owners.update(dict.fromkeys(nonces, owner))
        return nonces

    # The transitions

    async def submit(self, *keys: str, band: str = "normal", args: bytes = b"{}", **options: Any) -> list[list[str]]:
        """Submit jobs in one call; what was asked for is its own fingerprint, as far as it fits."""
        jobs = [self.job(key, args=args, priority=band, **options) for key in keys]
        return await self.transitions.submit([(job, f"{band}{job.args[:32].decode()}") for job in jobs])

    async def claim(self, owner: str = "ann", slots: int = 1) -> list[Claim]:
        return await self.claim_as(owner, self.nonces(owner, slots))

    async def claim_as(self, owner: str, nonces: Sequence[str]) -> list[Claim]:
        """Claim under given nonces, as a repeated call does."""
        return to_claims(checked((await self.transitions.commit(self.keys, [self.claiming(owner, nonces)]))[0]))

    async def start(self, key: str = "a", owner: str = "ann") -> Claim:
        """A job of its own that runs."""
        await self.submit(key)
        (held,) = await self.claim(owner)
        assert held.key == key
        return held

    async def report(self, held: Claim, number: int, step: Step | None = None) -> str:
        event = self.progress_event(held, number if step is None else step)
        return await self.transitions.report(self.keys, held.key, held.nonce, number, event, self.policy.max_events)

    async def report_together(self, held: Claim, last: int, steps: Iterable[Step]) -> str:
        """Some reports in one operation; `last` is the running number of the last of them."""
        events = b"\n".join(self.progress_event(held, step) for step in steps)
        return await self.transitions.report(self.keys, held.key, held.nonce, last, events, self.policy.max_events)

    async def complete(self, held: Claim, result: Any = None) -> str:
        """`ok` also where it answers which entry of the outbox tells the parent."""
        answer = await self.transitions.complete(self.keys, held.key, held.nonce, self.end_event(held, result=result))
        return "ok" if answer.startswith("sent ") else answer

    async def fail(
        self, held: Claim, message: str = "it broke", *, attempts: int = 0, seconds: float = 0.0, order: str = "block"
    ) -> str:
        """The last failure, unless `attempts` allows more."""
        again = Again(seconds, attempts, self.policy.max_starts, order)
        return await self.transitions.fail(self.keys, held.key, held.nonce, again, error_of(message))

    async def delay(self, held: Claim, seconds: float, *, hold: bool = False) -> str:
        again = Again(seconds, 0, self.policy.max_starts)
        return await self.transitions.delay(self.keys, held.key, held.nonce, again, hold=hold)

    async def release(self, held: Claim) -> str:
        return await self.transitions.release(self.keys, held.key, held.nonce, self.policy.max_starts)

    async def reclaim(self, held: Claim, counter: str | None = None) -> str:
        """Take a job from its silent owner; with `counter`, as an observer who saw that one last."""
        owner = self.owners[held.nonce]
        if counter is None:
            counter = (await self.look()).beats.get(owner, "")
        lease = Lease(held.nonce, held.key, "normal", "0-0", owner, 10.0)
        return await self.reclaim_lease(lease, counter)

    async def reclaim_lease(self, lease: Lease, counter: str) -> str:
        (answer,) = await self.transitions.reclaim(self.keys, [lease], counter, self.policy)
        if isinstance(answer, BrokenOperation):
            raise answer
        return answer

    async def cancel(self, key: str, more: bytes = b"") -> str:
        return await self.transitions.cancel(self.keys, key, more)

    async def beat(self, owner: str = "ann", held: Iterable[Claim] = ()) -> tuple[list[str], list[tuple[str, str]]]:
        pulse = await self.pulse(owner, held)
        return pulse.lost, pulse.stray

    async def pulse(self, owner: str = "ann", held: Iterable[Claim] = ()) -> BeatReply:
        (pulse,) = await self.transitions.beat([(self.keys, [claim.nonce for claim in held])], owner)
        return pulse

    async def look(self) -> Look:
        (beats,) = await self.transitions.observe([self.keys])
        return Look(beats, tuple(await read_leases(self.store, self.keys)))

    # The same, as parts of a batch

    def reporting(self, held: Claim, number: int) -> Operation:
        event = self.progress_event(held, number)
        return call.report(self.keys, key=held.key, nonce=held.nonce, number=number, most=MAX_EVENTS, events=event)

    def completing(self, held: Claim, result: Any = None) -> Operation:
        event = self.end_event(held, result=result)
        return call.complete(self.keys, key=held.key, nonce=held.nonce, event=event)

    def failing(self, held: Claim) -> Operation:
        again = Again(0, 0, self.policy.max_starts)
        return call.fail(self.keys, key=held.key, nonce=held.nonce, attempts=0, more=error_of("m"), **again.rest)

    def releasing(self, held: Claim) -> Operation:
        return call.release(self.keys, key=held.key, nonce=held.nonce, max_starts=self.policy.max_starts)

    def claiming(self, owner: str, nonces: Sequence[str]) -> Operation:
        rules = rules_of("claim", self.policy, self.siblings)
        return call.claim(owner=owner, deadline_ms=10_000, company=self.company, nonces=" ".join(nonces), **rules)

    def progress_event(self, held: Claim, step: Step) -> bytes:
        return event_body(held.number, Status.PROGRESS, self.owners.get(held.nonce, "~"), step)

    def end_event(self, held: Claim, **outcome: Any) -> bytes:
        return event_body(held.number, Status.COMPLETED, self.owners.get(held.nonce, "~"), **outcome)

    async def keep_start(self, held: Claim) -> None:
        """Write the event `started` into the history, as an attempt's next event does."""
        started, owner = (await self.record(held.key)).started, self.owners[held.nonce]
        kept = f"{started} ".encode() + event_body(held.number, Status.STARTED, owner)
        await self.store.command("RPUSH", self.keys.log(held.key), kept)

    async def set_back(self, held: Claim, reported: int, seq: int) -> None:
        """As if the store had forgotten, or already heard, some reports of a running attempt."""
        lease = await self.store.command("HGET", self.keys["leases"], held.nonce)
        _, _, key, _, rest = lease.split(b" ", 4)
        written = b"%d %d %b - %b" % (reported, seq, key, rest)
        await self.store.command("HSET", self.keys["leases"], held.nonce, written)

    # What is there

    async def record(self, key: str) -> Record:
        return await read_record(self.store, self.keys, key)

    async def log(self, key: str) -> list[bytes]:
        """A job's events as a client gets them, `queued` included."""
        return (await read_job(self.store, self.keys, key))[1]

    async def history(self, key: str) -> list[Event]:
        return [decode_event(event) for event in await self.log(key)]

    async def story(self, key: str) -> list[str]:
        """A job's history in words: `started 1`, `progress 1 step 2` …"""
        return [tell(event) for event in await self.history(key)]

    async def line(self, band: str = "normal") -> list[str]:
        """The entries of a band that are still there, first to last."""
        entries = await self.store.command("XRANGE", self.keys.jobs(band), "-", "+")
        return [entry[0].decode() for entry in entries]

    async def pending(self, band: str = "normal") -> list[tuple[str, str]]:
        """Delivered entries of a band with the consumer that has them."""
        found = await self.store.command("XPENDING", self.keys.jobs(band), GROUP, "-", "+", 1000)
        return [(entry[0].decode(), entry[1].decode()) for entry in found]

    async def front(self) -> list[str]:
        """Those that go before the lines, band by band."""
        fronts = [await self.store.command("ZRANGE", self.keys.front(band), 0, -1) for band in BANDS]
        return [key.decode() for front in fronts for key in front]

    async def asleep(self, *owners: str) -> None:
        """As if these had claimed before and found nothing, the first of them first."""
        for number, owner in enumerate(owners, 1):
            await self.store.command("ZADD", self.keys["idle"], number, owner)

    async def idle(self) -> list[str]:
        """The consumers that wait for work, the one that is called next first."""
        return [owner.decode() for owner in await self.store.command("ZRANGE", self.keys["idle"], 0, -1)]

    async def called(self) -> list[str]:
        """The consumers that were called and have not claimed since."""
        return sorted(owner.decode() for owner in await self.store.command("ZRANGE", self.keys["called"], 0, -1))

    async def rings(self, owner: str) -> int:
        """How often a consumer was called and has not heard it."""
        rings: int = await self.store.command("LLEN", self.keys.bell(owner))
        return rings

    async def leftovers(self) -> list[str]:
        """Every key that tells of an order, a limit, a rate, a time to come or a de-duplication."""
        found = [word.decode() for word in await self.store.command("KEYS", "*")]
        return sorted(name for name in found if LEFTOVER.match(name.removeprefix(self.keys.prefix)))

    async def past_due(self, *keys: str) -> None:
        """As if the time of these delayed jobs had come."""
        for key in keys:
            await self.store.command("ZADD", self.keys["due"], "XX", 1, key)

    async def destroy_groups(self) -> None:
        for band in BANDS:
            if await self.store.command("EXISTS", self.keys.jobs(band)):
                await self.store.command("XGROUP", "DESTROY", self.keys.jobs(band), GROUP)


async def take_away(desk: Desk) -> None:
    """Reclaim the one job that runs there, although its owner beats: its counter may move before the call arrives."""
    word = "alive"
    while word == "alive":
        beats, (lease,) = await desk.look()
        word = await desk.reclaim_lease(lease, beats.get(lease.owner, ""))


def ageless(claims: Sequence[Claim]) -> list[Claim]:
    """Claims but for what changes with time: a repeated claim is the same, only later."""
    return [replace(claim, age_seconds=0.0, waited_seconds=None) for claim in claims]


def error_of(message: str) -> bytes:
    """What `fail` takes: members of the event, with a leading comma."""
    return b"," + encode({"error": {"type": "ValueError", "message": message}})[1:-1]


def forge(job_id: str, number: int, attempt: int | None, status: str, step: Step | None = None, **more: Any) -> bytes:
    """An event as it would be written by hand."""
    event = {"id": f"{number}-1700000000000000", "seq": number, "time": "2026-01-01T00:00:00.000Z", "jobId": job_id}
    return encode({**event, "attempt": attempt, "status": status, "step": step, "workerId": "mallory", **more})


def tell(event: Event) -> str:
    words = [event.status.value]
    if event.attempt is not None:
        words.append(str(event.attempt))
    if event.step is not None:
        words.append(f"step {event.step}")
    return " ".join(words)
