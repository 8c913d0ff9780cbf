"""Drives the scripts of flows, the relay and their model side by side, in whatever order hypothesis thinks of."""

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tailrace.streams.flows.relay import Relay
from tailrace.streams.keys import split_id
from tailrace.streams.messages import Claim
from tailrace.streams.operations import Again
from tailrace.streams.replies import read_jobs
from tailrace.streams.states import State
from tests.model.flow_model import FlowModel, FlowModelJob
from tests.model.play import Answer, Play
from tests.support.builders import Desk, differences, dump
from tests.support.flowing import checkpoint, children, join, outbox, said, signal, spawn, wait

PLATFORMS = ("shop", "kurly")
CHANGES = frozenset({"ok", "spawned", "saved", "delivered", "kept", "reclaimed", "failed", "cancelled", "cancelling"})
HOUR = 3600.0
WEIGHTS = {
    "claim": 8,
    "spawn": 6,
    "spawn_again": 2,
    "wait_for_children": 8,
    "sleep": 2,
    "wait_for_signal": 3,
    "signal": 2,
    "time_comes": 2,
    "complete": 6,
    "fail": 3,
    "take_over": 5,
    "cancel": 2,
    "reopen": 3,
    "retry_child": 2,
    "retry_parent": 2,
    "save": 2,
    "checkpoint": 4,
    "deliver": 6,
    "deliver_and_die": 5,
}
DEEDS = tuple(deed for deed, weight in WEIGHTS.items() for _ in range(weight))


class FlowHeld(NamedTuple):
    """An attempt that somebody believes to be running, rightly or not."""

    desk: Desk
    job: FlowModelJob
    claim: Claim


class FlowMachine(RuleBasedStateMachine):
    """Parents and children on two platforms; attempts are lost, relays die, and each end reaches each parent once."""

    play: ClassVar[Play]

    def __init__(self) -> None:
        super().__init__()
        self.run = self.play.wait
        for node in self.run(self.play.nodes()):
            self.run(node.command("FLUSHALL"))
        self.desks = {name: Desk(self.play, name, max_crashes=100) for name in PLATFORMS}
        self.model = FlowModel(PLATFORMS)
        self.relay = Relay(next(iter(self.desks.values())).transitions)
        self.attempts: list[FlowHeld] = []
        self.fresh = 0

    @initialize()
    def two_parents_run(self) -> None:
        for name, desk in self.desks.items():
            self.run(desk.submit("root"))
            job = self.model.jobs[f"{name}.root"] = FlowModelJob(f"{name}.root")
            self.claim(name, 0)
            self.spawn(name, 2)
            assert job.children

    @rule(deed=st.sampled_from(DEEDS), platform=st.sampled_from(PLATFORMS), number=st.integers(0, 63))
    def happens(self, deed: str, platform: str, number: int) -> None:
        getattr(self, deed)(platform, number)

    def ask(self, call: Coroutine[Any, Any, Answer], expected: Any) -> None:
        """The answer is the right one, and a call that is refused leaves no trace."""
        words = expected if isinstance(expected, list) else [expected]
        if CHANGES & {*words}:
            assert self.run(call) == expected
            return
        before = self.run(dump(self.play))
        assert self.run(call) == expected
        assert differences(before, self.run(dump(self.play))) == []

    def held(self, number: int) -> FlowHeld:
        """One of the latest attempts, whether or not it still owns its job."""
        return self.attempts[-1 - number % min(6, len(self.attempts))]

    def some_job(self, number: int) -> FlowModelJob:
        jobs = list(self.model.jobs.values())[-8:]
        return jobs[number % len(jobs)]

    def desk_of(self, job: FlowModelJob) -> tuple[Desk, str]:
        platform, key = split_id(job.id)
        return self.desks[platform], key

    def claim(self, platform: str, number: int) -> None:
        desk = self.desks[platform]
        for claim in self.run(desk.claim("ann", 1 + number % 2)):
            job = self.model.jobs.get(desk.keys.id(claim.key))
            assert job, f"{claim.key} was never spawned"
            assert job.state is State.WAITING
            assert claim.number == job.attempt + 1
            job.state, job.attempt, job.nonce = State.RUNNING, claim.number, claim.nonce
            job.told.append("started")  # type: ignore[arg-type]
            self.attempts.append(FlowHeld(desk, job, claim))

    def spawn(self, _: str, number: int) -> None:
        desk, job, claim = self.held(number)
        ids = [f"{PLATFORMS[number >> bit & 1]}.c{self.fresh + bit}" for bit in range(1 + number % 3)]
        self.fresh += 3
        self.ask(spawn(desk, claim, *ids), self.model.spawn(job, claim.nonce, ids))

    def spawn_again(self, _: str, number: int) -> None:
        desk, job, claim = self.held(number)
        if job.children:
            ids = list(job.children)[-2:]
            self.ask(spawn(desk, claim, *ids), self.model.spawn(job, claim.nonce, ids))

    def wait_for_children(self, _: str, number: int) -> None:
        desk, job, claim = self.held(number)
        ids, place, fails = list(job.children), f"{claim.number}-{number % 2}", bool(number & 4)
        expected = self.model.join_page(job, claim.nonce, place, ids)
        told = self.run(join(desk, claim, *ids, number=place))
        if number & 8:  # the first answer was lost
            assert self.run(join(desk, claim, *ids, number=place)) == told
        assert told == expected if isinstance(expected, str) else [status(news) for news in told] == expected
        word = self.model.wait(job, claim.nonce, ("join", place), fails=fails)
        self.ask(self.waiting(desk, claim, "join", place, fails=int(fails)), word)

    async def waiting(self, desk: Desk, claim: Claim, *what: str, **other: Any) -> str:
        answer = await wait(desk, claim, *what, **other)
        return str(answer[0] if isinstance(answer, list) else answer)

    def sleep(self, _: str, number: int) -> None:
        desk, job, claim = self.held(number)
        place = f"~sleep {number % 2}"
        word = self.model.wait(job, claim.nonce, ("sleep", place))
        self.ask(self.waiting(desk, claim, "sleep", place, seconds=HOUR), word)

    def wait_for_signal(self, _: str, number: int) -> None:
        desk, job, claim = self.held(number)
        name, place = f"s{number % 2}", f"~wait {number // 2 % 2}"
        word = self.model.wait(job, claim.nonce, ("signal", name, place))
        self.ask(self.waiting(desk, claim, "signal", place, name=name, seconds=HOUR), word)

    def signal(self, _: str, number: int) -> None:
        waiting = [job for job in self.model.jobs.values() if job.awaits and job.awaits[0] == "signal"]
        job = waiting[0] if waiting and number & 4 else self.some_job(number)
        desk, key = self.desk_of(job)
        self.ask(signal(desk, key, f"s{number % 2}"), self.model.signal(job, f"s{number % 2}"))

    def time_comes(self, _: str, number: int) -> None:
        """Of a job that sleeps, or awaits a signal."""
        resting = [job for job in self.model.jobs.values() if job.awaits and job.awaits[0] != "join"]
        if resting:
            self._time_comes(resting[number % len(resting)])

    def _time_comes(self, job: FlowModelJob) -> None:
        desk, key = self.desk_of(job)
        name, member = ("due", key) if job.awaits[0] == "sleep" else ("alarms", f"^{key}")
        assert self.run(self.play.command("ZADD", desk.keys[name], "XX", "CH", 1, member)) == 1
        assert self.run(desk.transitions.wake([(desk.keys, desk.policy)])) == 1
        self.model.time_is_over(job)

    def complete(self, _: str, number: int) -> None:
        desk, job, claim = self.held(number)
        self.ask(desk.complete(claim), self.model.complete(job, claim.nonce))

    def fail(self, _: str, number: int) -> None:
        self._fail(self.held(number), ("ValueError", "ChildFailed")[number // 6 % 2])

    def _fail(self, held: FlowHeld, error: str) -> None:
        desk, job, claim = held
        more = b',"error":{"type":"%b","message":"m"}' % error.encode()
        word = self.model.fail(job, claim.nonce, error)
        self.ask(desk.transitions.fail(desk.keys, claim.key, claim.nonce, Again(0, 0, 100), more), word)

    def take_over(self, _: str, number: int) -> None:
        desk, job, claim = self.held(number)
        self.ask(desk.reclaim(claim), self.model.reclaim(job, claim.nonce))
        self.claim(job.platform, number)

    def cancel(self, _: str, number: int) -> None:
        job = self.some_job(number)
        desk, key = self.desk_of(job)
        expected = self.model.cancel(job)
        assert self.run(desk.cancel(key)) == expected

    def reopen(self, _: str, number: int) -> None:
        job = self.some_job(number)
        desk, key = self.desk_of(job)
        self.ask(desk.transitions.reopen(desk.keys, key), self.model.reopen(job))

    def current(self, among: Callable[[FlowModelJob], object]) -> list[FlowHeld]:
        """Attempts that run, or failed last, of such jobs."""
        return [
            held
            for held in self.attempts
            if held.claim.nonce == held.job.nonce
            and held.job.state in (State.RUNNING, State.FAILED)
            and among(held.job)
        ]

    def fail_and_retry(self, held: FlowHeld) -> FlowHeld | None:
        """The job fails, unless it has, and its end arrives; then it runs again, unless many stand before it."""
        job = held.job
        if job.state is State.RUNNING:
            self._fail(held, "ValueError")
        self.deliver(job.platform, 0)
        desk, key = self.desk_of(job)
        self.ask(desk.transitions.reopen(desk.keys, key), self.model.reopen(job))
        for _ in range(6):
            if job.state is State.WAITING:
                self.claim(job.platform, 1)
        return next((held for held in self.attempts if held.claim.nonce == job.nonce), None)

    def retry_child(self, _: str, number: int) -> None:
        """A parent that does not await its child keeps the end that it saw first."""
        children = self.current(lambda job: job.parent)
        again = self.fail_and_retry(children[number % len(children)]) if children else None
        if again:
            self.ask(again.desk.complete(again.claim), self.model.complete(again.job, again.claim.nonce))
            self.deliver(again.job.platform, 0)

    def retry_parent(self, _: str, number: int) -> None:
        """Its first attempt asks each failed child how it is now."""
        parents = self.current(lambda job: "failed" in job.children.values())
        again = self.fail_and_retry(parents[number % len(parents)]) if parents else None
        if again:
            ids = [child for child, news in again.job.children.items() if news == "failed"][-2:]
            self.ask(spawn(again.desk, again.claim, *ids), self.model.spawn(again.job, again.claim.nonce, ids))

    def save(self, _: str, number: int) -> None:
        desk, job, claim = self.held(number)
        name, value = f"step {number % 3}", str(claim.number)
        known = job.steps.get(name)
        word = self.model.save(job, claim.nonce, name, value)
        word = "again" if word == "saved" and known == value else word
        self.ask(desk.transitions.save(desk.keys, claim.key, claim.nonce, name, value.encode()), word)

    def checkpoint(self, _: str, number: int) -> None:
        desk, job, claim = self.held(number)
        word = self.model.checkpoint(job, claim.nonce, "~cursor", str(number))
        self.ask(checkpoint(desk, claim, "~cursor", str(number).encode()), word)

    def deliver(self, platform: str, _: int) -> None:
        expected = self.model.deliver(platform)
        assert self.run(self.relay.deliver(self.desks[platform].keys)) == expected

    def deliver_and_die(self, platform: str, _: int) -> None:
        """A relay that ends before it removes what it delivered."""
        keys = self.desks[platform].keys

        async def carry() -> None:
            await self.relay._deliver(keys, await self.relay.read(keys), {}, cancel=True)

        self.run(carry())
        self.model.deliver(platform, removed=False)

    @invariant()
    def store_and_model_agree(self) -> None:
        self.run(self._check())

    async def _check(self) -> None:
        for name, desk in self.desks.items():
            mine = {split_id(job.id)[1]: job for job in self.model.jobs.values() if job.platform == name}
            found = await read_jobs(self.play, [(desk.keys, key, 1) for key in mine])
            for (key, job), kept in zip(mine.items(), found, strict=True):
                assert kept, f"{job.id} was spawned and has vanished"
                record, log = kept
                assert (record.state, record.attempt) == (job.state, job.attempt), job.id
                shown = [head.status.value for head, _ in self.play.show(record.id, log)]
                assert shown == [str(getattr(status, "value", status)) for status in job.told], job.id
                known = await children(desk, key)
                assert {child: status(news) or "pending" for child, news in known.items()} == job.children
                if job.state is State.AWAITING and job.awaits[0] == "join":
                    assert record.wanted == job.wanted
                flat = said(await self.play.command("HGETALL", desk.keys.steps(key)))
                assert dict(zip(flat[::2], flat[1::2], strict=True)) == job.steps
            awaiting = said(await self.play.command("ZRANGE", desk.keys["awaiting"], 0, -1))
            assert sorted(awaiting) == sorted(key for key, job in mine.items() if job.state is State.AWAITING)
            expected = [f"{kind} {child or parent}" for kind, parent, child, _ in self.model.outboxes[name]]
            assert sorted(await outbox(desk)) == sorted(expected)

    def teardown(self) -> None:
        """Whatever happened, everything can be brought to its end, and no parent is left waiting."""
        for _ in range(100):
            for name in PLATFORMS:
                self.deliver(name, 0)
                self.claim(name, 1)
            live = [job for job in self.model.jobs.values() if not job.state.ended]
            if not live:
                break
            for job in live:
                desk, key = self.desk_of(job)
                if job.state is State.RUNNING and job.nonce:
                    claim = Claim(job.nonce, key, job.attempt, "", b"")
                    self.ask(desk.complete(claim), self.model.complete(job, job.nonce))
                elif job.awaits and job.awaits[0] != "join":
                    self._time_comes(job)
        assert all(job.state.ended for job in self.model.jobs.values())
        self.store_and_model_agree()


def status(news: str) -> str:
    """How a child ended, as its parent keeps it; nothing while it has not."""
    return "" if news == "" or news.startswith("!") else news.split(" ")[1]


def perform_flows(play: Play, how: settings) -> None:
    try:
        run_state_machine_as_test(type("FlowMachine", (FlowMachine,), {"play": play}), settings=how)
    finally:
        play.close()
