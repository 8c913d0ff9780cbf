"""The heart: a small process beside the consumer that beats for it, observes others, reclaims what they lost and ticks.

It is a process, not a thread, because a handler may hold the interpreter for minutes (a regular expression, a large
JSON) and must not lose its job for that. It reads its instructions as one JSON line from stdin, writes what it learns
as JSON lines to stdout, and ends when stdin closes: the consumer is gone, and its silence begins.
"""

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import anyio
import msgspec
import psutil

from tailrace.consumers.heart.deliveries import Deliverer
from tailrace.consumers.heart.introduction import Introduction
from tailrace.consumers.heart.mender import Mender
from tailrace.consumers.heart.messages import GOODBYE, LEAVE_SECONDS, Instructions, News
from tailrace.consumers.heart.overtime import Overtime
from tailrace.consumers.heart.recovery import Recovery
from tailrace.consumers.heart.retention import Retention
from tailrace.consumers.heart.schedules import Ticker
from tailrace.consumers.heart.shared_memory import LeaseTable
from tailrace.consumers.heart.silences import Silences
from tailrace.consumers.metrics.counters import HeartCounters
from tailrace.streams.errors import StoreError
from tailrace.streams.messages import BeatReply
from tailrace.streams.operations import BrokenOperation
from tailrace.streams.process.logs import configure_logs, get_logger
from tailrace.streams.store.connection import ANSWER_SECONDS, Store
from tailrace.streams.store.kept_policies import PolicyWatch
from tailrace.streams.transitions import Transitions
from tailrace.streams.views.corrupt import of_each

log = get_logger()

MOST_HELD = 300  # nonces in one beat: about a millisecond of the server's time
RETRY_SECONDS = 0.25  # the longest pause between beats that fail: when the store is back, one arrives at once
NOT_AT_WORK = {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}

Portion = Mapping[str, Sequence[str]]  # platform -> nonces of attempts that its consumer runs


class Heart:
    """Beats, observes, reclaims."""

    def __init__(self, instructions: Instructions, transitions: Transitions, table: LeaseTable) -> None:
        self._to = instructions
        self._transitions = transitions
        self._table = table
        self._keys = {platform: transitions.store.keys(platform) for platform in instructions.policies}
        self._consumer = psutil.Process(instructions.consumer_pid)
        self._about = Introduction(self._consumer, table, instructions.deadline_seconds)
        self._silences = Silences(instructions.deadline_seconds, 2 * instructions.reap_seconds)
        self._counters = HeartCounters()
        self._recovery = Recovery(instructions, transitions, self._silences, self._counters)
        self._retention = Retention(instructions, transitions)
        self._mender = Mender(instructions, transitions)
        self._overtime = Overtime(instructions, transitions, table)
        self._deliveries = Deliverer(transitions, list(self._keys.values()))
        self._ticker = Ticker(transitions, list(self._keys.values()), instructions.reap_seconds)
        self._policies = PolicyWatch(transitions.store, instructions.policies, only=list(instructions.policies))
        self._failing_since: float | None = None  # beats
        self._restarts: dict[str, int] = {}  # how often each platform had been asked at the first beat

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            for duty in (self._show_life, self._beat, self._observe):
                tasks.start_soon(duty)
            roles = (self._recovery, self._overtime, self._retention, self._mender, self._ticker, self._deliveries)
            for role in (*roles, self._policies):
                tasks.start_soon(role.run)
            if self._to.lifeline_fd is not None:
                tasks.start_soon(self._end_with, self._to.lifeline_fd)
            if self._to.metrics:
                from tailrace.consumers.metrics.answers import HeartAnswers  # not needed by most, and some MB of memory

                answers = HeartAnswers(self._to, self._table, self._to.metrics, self._counters, self._consumer_runs)
                tasks.start_soon(answers.server.run)
            await self._hear_consumer()
            tasks.cancel_scope.cancel()

    async def _beat(self) -> None:
        while True:
            pause = self._to.beat_seconds
            if self._consumer_runs():
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
                    self._table.beat(sent)
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

    async def _show_life(self) -> None:
        """Keep the consumer from starting another heart: it does when this one is silent, not when beats fail."""
        while True:
            tell(News())
            await anyio.sleep(self._to.beat_seconds)

    def _tell(self, news: News) -> None:
        """Write all of it, in lines that a pipe takes whole. What does not fit now is still true at the next beat."""
        for line in news.lines():
            if not tell(line):
                return
            self._overtime.told_consumer([nonce for _, nonce in (*line.lost, *line.stop)], time.monotonic())

    async def _beat_once(self, about: bytes) -> dict[str, BeatReply]:
        held = self._table.held(self._to.policies)
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
        untold = self._table.untold()
        return News(
            lost=[(platform, nonce) for platform, pulse in heard for nonce in pulse.lost if nonce in untold],
            stray=[(platform, *job) for platform, pulse in heard for job in pulse.stray],
            stop=[(platform, nonce) for platform, pulse in heard for nonce in pulse.stop if nonce in untold],
            restart=any(pulse.restarts > before[platform] for platform, pulse in heard),
        )

    def _consumer_runs(self) -> bool:
        """A consumer that was stopped is not at work; one that is busy or sleeps is."""
        try:
            return self._consumer.status() not in NOT_AT_WORK
        except psutil.NoSuchProcess:
            return False

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

    async def _hear_consumer(self) -> None:
        """Wait until the consumer says goodbye or is gone."""
        if await read_line(0) == GOODBYE:
            with anyio.move_on_after(LEAVE_SECONDS):
                await self._leave()

    async def _leave(self) -> None:
        try:
            looks = await of_each(list(self._keys.values()), self._transitions.observe)
            for platform, beats in looks.items():
                await self._transitions.bury(self._keys[platform], self._to.owner, beats.get(self._to.owner, ""))
        except (StoreError, BrokenOperation):
            return  # observers will see the silence

    async def _end_with(self, lifeline_fd: int) -> None:
        """The parent of the consumer is gone: end the consumer even if a handler holds its interpreter."""
        while await read_line(lifeline_fd):
            pass
        os.kill(self._to.consumer_pid, signal.SIGKILL)


def portions(held: Portion, most: int) -> Iterator[Portion]:
    """What is held on each platform, in portions of at most `most` nonces; every platform is in one at least."""
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
    """What the portions of a platform brought: what one of them did not name another may have."""
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


async def read_line(fd: int) -> bytes:
    await anyio.wait_readable(fd)
    return os.read(fd, 4096)


def listen() -> Instructions:
    """Read the instructions. Signals go to the whole process group, but only the consumer ends its heart."""
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    with open(0, "rb", buffering=0, closefd=False) as stdin:
        return msgspec.json.decode(stdin.readline(), type=Instructions)


async def main(instructions: Instructions) -> None:
    os.set_blocking(1, False)
    configure_logs()
    patience = min(ANSWER_SECONDS, instructions.deadline_seconds / 3)
    async with Store(instructions.url, instructions.keyspace, answer_seconds=patience) as store:
        await Heart(instructions, Transitions(store), LeaseTable(instructions.table_fd)).run()
