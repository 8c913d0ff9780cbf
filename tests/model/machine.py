"""Drives the real scripts and the model side by side, through whatever order of events hypothesis thinks of."""

import time
from collections.abc import Coroutine, Iterable
from typing import Any, ClassVar, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from msgspec.structs import replace

from tailrace.streams.keys import GROUP
from tailrace.streams.messages import Claim
from tailrace.streams.replies import to_claims
from tailrace.streams.states import State
from tests.model.agreement import USED_BANDS, Side, check_calls, check_jobs, check_leases, check_lines
from tests.model.model import ModelJob, ModelPlatform, Opened
from tests.model.play import Answer, Play
from tests.support.builders import Desk, differences, dump, forget_scripts

OWNERS = ("ann", "bob", "cid")
CHANGES = frozenset({"accepted", "shown", "ok", "retrying", "cancelled", "reclaimed", "failed", "buried"})
"""The words of calls that changed something; every other word refuses."""
REFUSED = "refused"  # said of a call whose word would say otherwise

HOUR = 3600.0

WEIGHTS = {
    "look": 2,  # the first is what a shortened play is filled with: it matters least
    "submit": 4,
    "submit_again": 1,
    "submit_another_body": 1,
    "submit_for_later": 1,
    "cancel": 3,
    "reopen": 3,
    "claim": 6,
    "claim_and_miss_the_answer": 2,
    "claim_again": 2,
    "report": 4,
    "report_again": 2,
    "complete": 2,
    "complete_and_claim_the_next": 2,
    "fail": 3,
    "delay": 2,
    "release": 2,
    "wake": 2,
    "beat": 3,
    "beat_without_memory": 1,
    "reclaim": 4,
    "reclaim_after_an_old_look": 1,
    "reclaim_just_too_late": 2,
    "bury": 1,
    "destroy_the_groups": 1,
    "acknowledge_by_hand": 1,
    "forget_the_scripts": 1,
    "write_a_duplicate": 2,
}
DEEDS = tuple(deed for deed, weight in WEIGHTS.items() for _ in range(weight))


class Held(NamedTuple):
    """An attempt that somebody believes to be running, rightly or not."""

    side: Side
    claim: Claim
    owner: str


class Chance(NamedTuple):
    """What is open when something happens: where, by whom, and a number to pick anything else with."""

    side: Side
    owner: str
    number: int


class Machine(RuleBasedStateMachine):
    """Owners come, work, fall silent and come back as zombies; groups and scripts vanish; and the promises hold.

    There is one rule for all deeds: hypothesis leaves out some of the rules in each play, and a takeover needs many.
    """

    play: ClassVar[Play]

    def __init__(self) -> None:
        super().__init__()
        self.wait = self.play.wait
        for node in self.wait(self.play.nodes()):
            self.wait(node.command("FLUSHALL"))
        self.sides = [self._side("kurly", max_running=1), self._side("research", max_running=0)]
        self.attempts: list[Held] = []  # all that anybody ever heard of, rightful or not
        self.reports: dict[str, range] = {}  # the numbers of what each attempt has reported last
        self.seen: dict[tuple[str, str], str] = {}  # an observer's memory: platform, owner -> counter
        self.unheard: list[tuple[Side, str, list[str]]] = []  # claims whose answers were lost on the way
        self.ends: dict[tuple[str, int], bytes] = {}  # the last event of each life of a job that ended

    def _side(self, platform: str, max_running: int) -> Side:
        desk = Desk(self.play, platform, max_running=max_running, max_crashes=2, max_starts=3, share=0)
        return Side(desk, ModelPlatform(max_running, desk.max_crashes, desk.policy.max_starts))

    @initialize(strict=st.booleans())
    def some_jobs_run_and_some_wait(self, strict: bool) -> None:
        if strict:
            shop = self.sides[0]
            shop.desk.policy, shop.model.strict = replace(shop.desk.policy, order="strict"), True
        for side in self.sides:
            for number in (2, 3):  # two jobs in each line
                self.submit(Chance(side, "", number))
            self.claim(Chance(side, "ann", 0))
            self.claim(Chance(side, "bob", 0))

    @rule(deed=st.sampled_from(DEEDS), side=st.integers(0, 1), owner=st.sampled_from(OWNERS), number=st.integers(0, 63))
    def happens(self, deed: str, side: int, owner: str, number: int) -> None:
        getattr(self, deed)(Chance(self.sides[side], owner, number))

    def ask(self, call: Coroutine[Any, Any, Answer], expected: Answer, word: str) -> None:
        """The answer is the right one, and a call that is refused leaves no trace (I1)."""
        if word in CHANGES:
            assert self.wait(call) == expected
            return
        before = self.wait(dump(self.play))
        assert self.wait(call) == expected
        assert differences(before, self.wait(dump(self.play))) == []

    # Producers

    def submit(self, chance: Chance) -> None:
        """One to three new jobs, in one call."""
        (desk, model), _, number = chance
        band, count = USED_BANDS[number % 2], 1 + number // 2 % 3
        time.sleep(0.001)  # the order of two lines is told by the store's clock: another call, another millisecond
        keys = [f"job-{len(model.jobs) + more:03}" for more in range(count)]
        expected = [model.submit(key, "body", band) for key in keys]
        self.ask(desk.submit(*keys, band=band, args=b"body"), expected, "accepted")

    def submit_for_later(self, chance: Chance) -> None:
        (desk, model), _, number = chance
        band, key = USED_BANDS[number % 2], f"job-{len(model.jobs):03}"
        time.sleep(0.001)
        expected = model.submit(key, "body", band, delayed=True)
        self.ask(desk.submit(key, band=band, args=b"body", delay_seconds=HOUR), [expected], "accepted")

    def submit_again(self, chance: Chance) -> None:
        self._submit_known(chance, "body")

    def submit_another_body(self, chance: Chance) -> None:
        self._submit_known(chance, "other")

    def _submit_known(self, chance: Chance, body: str) -> None:
        (desk, model), job = chance.side, self._recent_job(chance)
        if job:
            expected = model.submit(job.key, body, job.band)
            self.ask(desk.submit(job.key, band=job.band, args=body.encode()), [expected], expected[0])

    def cancel(self, chance: Chance) -> None:
        (desk, model), job = chance.side, self._recent_job(chance)
        if job:
            told = len(job.told)
            word = model.cancel(job.key)
            self.ask(desk.cancel(job.key), word, "ok" if len(job.told) > told else REFUSED)

    def reopen(self, chance: Chance) -> None:
        (desk, model), job = chance.side, self._recent_job(chance)
        if job:
            time.sleep(0.001)  # as in submit
            word = model.reopen(job.key)
            self.ask(desk.transitions.reopen(desk.keys, job.key), word, word)

    def _recent_job(self, chance: Chance) -> ModelJob | None:
        jobs = list(chance.side.model.jobs.values())[-6:]
        return jobs[chance.number % len(jobs)] if jobs else None

    # Consumers

    def claim(self, chance: Chance) -> None:
        side, owner, number = chance
        nonces = side.desk.nonces(owner, 1 + number % 3)
        self._hear(side, owner, self._send_claim(side, owner, nonces))

    def claim_and_miss_the_answer(self, chance: Chance) -> None:
        side, owner, number = chance
        nonces = side.desk.nonces(owner, 1 + number % 3)
        self._send_claim(side, owner, nonces)
        self.unheard.append((side, owner, nonces))

    def claim_again(self, _: Chance) -> None:
        if self.unheard:
            side, owner, nonces = self.unheard.pop(0)
            self._hear(side, owner, self._send_claim(side, owner, nonces))

    def _send_claim(self, side: Side, owner: str, nonces: list[str]) -> list[Claim]:
        expected = side.model.claim(owner, nonces)
        claims = self.wait(side.desk.claim_as(owner, nonces))
        assert summary(claims) == expected
        return claims

    def _hear(self, side: Side, owner: str, claims: list[Claim]) -> None:
        self.attempts += [Held(side, claim, owner) for claim in claims]

    def _recent_attempt(self, chance: Chance) -> Held | None:
        """One of the latest attempts, whether it still owns its job or not."""
        recent = self.attempts[-6:]
        return recent[chance.number % len(recent)] if recent else None

    def report(self, chance: Chance) -> None:
        """One report, or three together."""
        if held := self._recent_attempt(chance):
            first = self.reports.get(held.claim.nonce, range(1)).stop
            self._report(held, range(first, first + (1, 3)[chance.number // 2 % 2]))

    def report_again(self, chance: Chance) -> None:
        if held := self._recent_attempt(chance):
            self._report(held, self.reports.get(held.claim.nonce, range(1, 2)))

    def _report(self, held: Held, numbers: range) -> None:
        (desk, model), claim, _ = held
        self.reports[claim.nonce] = numbers
        word = model.report(claim.key, claim.nonce, numbers)
        self.ask(desk.report_together(claim, numbers[-1], numbers), word, REFUSED if word == "cancelled" else word)

    def complete(self, chance: Chance) -> None:
        if held := self._recent_attempt(chance):
            self._complete(held)

    def _complete(self, held: Held) -> None:
        (desk, model), claim, _ = held
        word = model.complete(claim.key, claim.nonce)
        self.ask(desk.complete(claim, claim.number), word, word)

    def fail(self, chance: Chance) -> None:
        if held := self._recent_attempt(chance):
            (desk, model), claim, _ = held
            attempts, seconds = (0, 2, 2, 3)[chance.number // 6 % 4], (0.0, HOUR)[chance.number % 2]
            word = model.fail(claim.key, claim.nonce, attempts, due=not seconds)
            self.ask(desk.fail(claim, attempts=attempts, seconds=seconds), word, word)

    def delay(self, chance: Chance) -> None:
        if held := self._recent_attempt(chance):
            (desk, model), claim, _ = held
            seconds = (0.0, HOUR)[chance.number % 2]
            word = model.delay(claim.key, claim.nonce, due=not seconds)
            self.ask(desk.delay(claim, seconds), word, word)

    def release(self, chance: Chance) -> None:
        if held := self._recent_attempt(chance):
            (desk, model), claim, _ = held
            word = model.release(claim.key, claim.nonce)
            self.ask(desk.release(claim), word, word)

    def complete_and_claim_the_next(self, chance: Chance) -> None:
        """A batch: one attempt ends, and its owner takes up to two more jobs."""
        if held := self._recent_attempt(chance):
            side, claim, owner = held
            nonces = side.desk.nonces(owner, chance.number % 3)
            word = side.model.complete(claim.key, claim.nonce)
            expected = side.model.claim(owner, nonces)
            batch = [side.desk.completing(claim, claim.number), side.desk.claiming(owner, nonces)]
            answers = self.wait(side.desk.transitions.commit(side.desk.keys, batch))
            assert answers[0].decode() == word
            assert summary(to_claims(answers[1])) == expected
            self._hear(side, owner, to_claims(answers[1]))

    # Hearts

    def beat(self, chance: Chance) -> None:
        """A heart names every attempt of its owner; what its owner never heard of is not among them."""
        side, owner, _ = chance
        self._beat(
            side, owner, [held.claim.nonce for held in self.attempts if (held.side, held.owner) == (side, owner)]
        )

    def beat_without_memory(self, chance: Chance) -> None:
        self._beat(chance.side, chance.owner, [])

    def _beat(self, side: Side, owner: str, nonces: list[str]) -> None:
        lost, stray, stop = side.model.beat(owner, nonces)
        (pulse,) = self.wait(side.desk.transitions.beat([(side.desk.keys, nonces)], owner))
        assert (sorted(pulse.lost), sorted(pulse.stray)) == (sorted(lost), sorted(stray))
        assert sorted(pulse.stop) == sorted(stop)

    def wake(self, chance: Chance) -> None:
        desk, model = chance.side
        woken, called = model.wake(), self.wait(desk.called())
        for owner in called[: chance.number % 4]:  # some were called a while ago and do not come
            self.wait(self.play.command("ZINCRBY", desk.keys["called"], -1e6, owner))
        self.ask(desk.transitions.wake([(desk.keys, desk.policy)]), woken, "ok" if woken or called else REFUSED)

    def look(self, chance: Chance) -> None:
        desk, _ = chance.side
        for owner, counter in self.wait(desk.look()).beats.items():
            self.seen[desk.keys.platform, owner] = counter

    def reclaim(self, chance: Chance) -> None:
        """By an observer who looked just now."""
        if held := self._recent_attempt(chance):
            self._reclaim(held, held.side.model.counter(held.owner))

    def reclaim_after_an_old_look(self, chance: Chance) -> None:
        """By an observer whose last look is a while ago."""
        if held := self._recent_attempt(chance):
            self._reclaim(held, self.seen.get((held.side.desk.keys.platform, held.owner), ""))

    def reclaim_just_too_late(self, chance: Chance) -> None:
        """By an observer who looked just before the owner's beat."""
        if held := self._recent_attempt(chance):
            counter = held.side.model.counter(held.owner)
            self._beat(held.side, held.owner, [held.claim.nonce])
            self._reclaim(held, counter)

    def _reclaim(self, held: Held, counter: str) -> None:
        (desk, model), claim, owner = held
        word = model.reclaim(claim.key, claim.nonce, owner, counter)
        self.ask(desk.reclaim(claim, counter), word, word)

    def bury(self, chance: Chance) -> None:
        (desk, model), owner, number = chance
        counter = self.seen.get((desk.keys.platform, owner), "") if number % 2 else model.counter(owner)
        word = model.bury(owner, counter)
        self.ask(desk.transitions.bury(desk.keys, owner, counter), word, word)

    # Mishaps

    def destroy_the_groups(self, chance: Chance) -> None:
        desk, model = chance.side
        self.wait(desk.destroy_groups())
        model.destroy_groups()

    def acknowledge_by_hand(self, chance: Chance) -> None:
        """As XACK does, and XGROUP DELCONSUMER for all that a consumer has."""
        (desk, model), job = chance.side, self._recent_job(chance)
        if job:
            model.acknowledge(job.key)
            entry = self.wait(desk.record(job.key)).entry
            self.wait(self.play.command("XACK", desk.keys.jobs(job.band), GROUP, entry))

    def forget_the_scripts(self, _: Chance) -> None:
        self.wait(forget_scripts(self.play))

    def write_a_duplicate(self, chance: Chance) -> None:
        """By hand: an event that was there before, as it was or under an id of its own."""
        desk, job = chance.side.desk, self._recent_job(chance)
        if job:
            log = self.wait(desk.log(job.key))
            event = log[chance.number // 6 % len(log)]
            if chance.number % 2:
                event = event.replace(b'{"id":"', b'{"id":"9', 1)
            self.wait(self.play.command("RPUSH", desk.keys.log(job.key), event))

    # What always holds

    @invariant()
    def store_and_model_agree(self) -> None:
        self.wait(self._check())

    async def _check(self) -> None:
        for side in self.sides:
            await check_leases(side)
            await check_calls(side)
            await check_lines(side)
            await check_jobs(side, self.play.show, self.ends)

    def teardown(self) -> None:
        """Whatever happened, everything can be brought to its end."""
        for side in self.sides:
            while unfinished := [job for job in side.model.jobs.values() if not job.state.ended]:
                for job in unfinished:
                    if job.state is State.DELAYED:  # its time comes
                        self.wait(self.play.command("ZADD", side.desk.keys["due"], "XX", 1, job.key))
                        job.due = True
                    if job.running and job.nonce:
                        self._complete(Held(side, Claim(job.nonce, job.key, job.attempt, "", b""), job.owner or ""))
                self._send_claim(side, "dan", side.desk.nonces("dan", len(unfinished)))
            self._send_claim(side, "dan", side.desk.nonces("dan", 1))
            assert self.wait(side.desk.front()) == []
        self.store_and_model_agree()


def summary(claims: Iterable[Claim]) -> list[Opened]:
    return [(claim.nonce, claim.key, claim.number) for claim in claims]


def perform(play: Play, how: settings) -> None:
    """Let plays take place until one breaks a promise, or there have been enough."""
    try:
        run_state_machine_as_test(type("Machine", (Machine,), {"play": play}), settings=how)
    finally:
        play.close()
