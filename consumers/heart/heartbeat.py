"""Beats for a consumer and observes others, on platforms that fail as one.

That is all of them, or on a cluster those of one slot. Each group has its own beats, its own looks and its own
silences, so that a node that is down costs no worker of another node its job.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import anyio
import msgspec
import psutil
from msgspec.structs import replace

from tailrace.consumers.heart.introduction import Introduction
from tailrace.consumers.heart.messages import Instructions, News
from tailrace.consumers.heart.overtime import Overtime
from tailrace.consumers.heart.recovery import Recovery
from tailrace.consumers.heart.shared_memory import LeaseTable
from tailrace.consumers.heart.silences import Silences
from tailrace.consumers.heart.upkeep.deliveries import Deliverer
from tailrace.consumers.heart.upkeep.mender import Mender
from tailrace.consumers.heart.upkeep.retention import Retention
from tailrace.consumers.heart.upkeep.schedules import Ticker
from tailrace.consumers.metrics.counters import HeartCounters
from tailrace.streams.errors import StoreError
from tailrace.streams.messages import BeatReply
from tailrace.streams.process.logs import get_logger
from tailrace.streams.store.kept_policies import PolicyWatch
from tailrace.streams.transitions import Transitions
from tailrace.streams.views.corrupt import of_each

log = get_logger()

MOST_HELD = 300  # nonces in one beat: about a millisecond of the server's time
RETRY_SECONDS = 0.25  # the longest pause between beats that fail: when the store is back, one arrives at once
NOT_AT_WORK = {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}

Portion = Mapping[str, Sequence[str]]  # platform -> nonces of attempts that its consumer runs


class WatchedConsumer:
    """The consumer that a heart beats for, as far as the heart sees it."""

    def __init__(self, instructions: Instructions, table: LeaseTable) -> None:
        self.process = psutil.Process(instructions.consumer_pid)
        self.table = table
        self.counters = HeartCounters()
        self._numbers = {platform: number for number, platform in enumerate(instructions.policies)}

    def runs(self) -> bool:
        """A consumer that was stopped is not at work; one that is busy or sleeps is."""
        try:
            return self.process.status() not in NOT_AT_WORK
        except psutil.NoSuchProcess:
            return False

    def held(self, platforms: Sequence[str]) -> dict[str, list[str]]:
        """The nonces of the attempts that it runs on these platforms."""
        held = self.table.held(self._numbers)
        return {platform: held[platform] for platform in platforms}

    def note_beat(self, platforms: Sequence[str], sent: float) -> None:
        """A beat on these platforms, sent then, has arrived."""
        self.table.beat(sent, [self._numbers[platform] for platform in platforms])


class Heartbeat:
    """The beats and looks of one heart on one group of its platforms."""

    def __init__(
        self,
        instructions: Instructions,
        platforms: Sequence[str],
        transitions: Transitions,
        consumer: WatchedConsumer,
        overtime: Overtime,
    ) -> None:
        self._to = to = replace(
            instructions, policies={platform: instructions.policies[platform] for platform in platforms}
        )
        self._transitions = transitions
        self._consumer = consumer
        self._counters = consumer.counters
        self._overtime = overtime
        self._keys = {platform: transitions.store.keys(platform) for platform in platforms}
        self._about = Introduction(consumer.process, consumer.table, to.deadline_seconds)
        self._silences = Silences(to.deadline_seconds, 2 * to.reap_seconds)
        self._recovery = Recovery(to, transitions, self._silences, consumer.counters)

        def changed(platform: str) -> None:
            instructions.policies[platform] = to.policies[platform]  # for what looks at all platforms

        self._roles = (
            self._recovery,
            Retention(to, transitions),
            Mender(to, transitions),
            Ticker(transitions, list(self._keys.values()), to.reap_seconds),
            Deliverer(transitions, list(self._keys.values())),
            PolicyWatch(transitions.store, to.policies, changed, only=platforms),
        )
        self._failing_since: float | None = None  # beats
        self._restarts: dict[str, int] = {}  # how often each platform had been asked at the first beat

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._beat)
            tasks.start_soon(self._observe)
            for role in self._roles:
                tasks.start_soon(role.run)

    async def _beat(self) -> None:
        while True:
            pause = self._to.beat_seconds
            if self._consumer.runs():
                try:
                    sent, about = time.monotonic(), self._about.news()
                    pulses = await self._beat_once(about)
                except StoreError as error:
                    pause = min(pause, RETRY_SECONDS)
                    self._counters.beats_failed += 1
                    self._note_outage(error)
                else:
                    self._note_outage(None)
                    if about:
                        self._about.heard()
                    self._consumer.note_beat(list(self._keys), sent)
                    self._counters.beats += 1
                    self._tell(self._news(pulses))
            await anyio.sleep(pause)

    def _note_outage(self, error: Exception | None) -> None:
        """Log once that beats fail, and once that they arrive again."""
        since, owner = self._failing_since, self._to.owner
        if error and since is None:
            self._failing_since = time.monotonic()
            log.warning("beats_fail", owner=owner, error=str(error))
        elif not error and since is not None:
            self._failing_since = None
            log.info("beats_arrive_again", owner=owner, seconds=round(time.monotonic() - since, 1))

    def _tell(self, news: News) -> None:
        """Write all of it, in lines that a pipe takes whole. What does not fit now is still true at the next beat."""
        for line in news.lines():
            if not tell(line):
                return
            self._overtime.told_consumer([nonce for _, nonce in (*line.lost, *line.stop)], time.monotonic())

    async def _beat_once(self, about: bytes) -> dict[str, BeatReply]:
        held = self._consumer.held(list(self._keys))
        pulses: dict[str, list[BeatReply]] = {}
        beat = partial(self._transitions.beat, owner=self._to.owner, about=about)
        for portion in portions(held, MOST_HELD):
            sheets = [(self._keys[platform], nonces) for platform, nonces in portion.items()]
            for platform, pulse in (await of_each(sheets, beat)).items():
                pulses.setdefault(platform, []).append(pulse)
        return {platform: joined(each, held[platform]) for platform, each in pulses.items()}

    def _news(self, pulses: Mapping[str, BeatReply]) -> News:
        heard = pulses.items()
        before = {platform: self._restarts.setdefault(platform, pulse.restarts) for platform, pulse in heard}
        untold = self._consumer.table.untold()
        return News(
            lost=[(platform, nonce) for platform, pulse in heard for nonce in pulse.lost if nonce in untold],
            stray=[(platform, *job) for platform, pulse in heard for job in pulse.stray],
            stop=[(platform, nonce) for platform, pulse in heard for nonce in pulse.stop if nonce in untold],
            restart=any(pulse.restarts > before[platform] for platform, pulse in heard),
        )

    async def _observe(self) -> None:
        """Look which owners beat. Nothing else waits here: a look that comes late starts all silences again."""
        while True:
            rules = [(self._keys[platform], policy) for platform, policy in self._to.policies.items()]
            pause = self._to.reap_seconds
            try:
                asked = time.monotonic()
                looks = await of_each(rules, self._transitions.tend)
                now = time.monotonic()
                self._silences.look(asked, now, looks)
                self._recovery.looked()
                due = self._silences.next_due(now)
                if due is not None:
                    pause = min(pause, due - now)
            except StoreError:
                self._silences.blind()
            await anyio.sleep(pause)


def portions(held: Portion, most: int) -> Iterator[Portion]:
    """The nonces held on each platform, in portions of at most `most`; every platform is in at least one."""
    portion: dict[str, Sequence[str]] = {}
    room = most
    for platform, nonces in held.items():
        rest = nonces
        while len(rest) > room:
            portion[platform], rest = rest[:room], rest[room:]
            yield portion
            portion, room = {}, most
        portion[platform] = rest
        room -= len(rest)
    yield portion


def joined(pulses: Sequence[BeatReply], held: Sequence[str]) -> BeatReply:
    """Join the answers to the portions of a platform: a nonce missing in one may be in another."""
    named = set(held)
    return BeatReply(
        lost=[nonce for pulse in pulses for nonce in pulse.lost],
        stray=sorted({job for pulse in pulses for job in pulse.stray if job[1] not in named}),
        stop=[nonce for pulse in pulses for nonce in pulse.stop],
        restarts=pulses[-1].restarts,
    )


def tell(line: News) -> bool:
    """Write news without ever waiting; whether there was room: a consumer whose loop is blocked does not read."""
    try:
        os.write(1, msgspec.json.encode(line) + b"\n")
    except (BlockingIOError, BrokenPipeError):
        return False
    return True
