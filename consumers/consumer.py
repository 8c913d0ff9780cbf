"""A consumer process: one reader, committer and runner for each platform, one heart for all, in one task group."""

import asyncio
import os
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio
from msgspec import Struct
from msgspec.structs import replace

from tailrace.consumers.attempts.outbound import Outbound
from tailrace.consumers.bells import Bells
from tailrace.consumers.heart.messages import Instructions, MetricsAddress, News
from tailrace.consumers.heart.shared_memory import SLOTS, LeaseTable
from tailrace.consumers.heart.supervisor import HeartSupervisor
from tailrace.consumers.heart.vitals import Vitals
from tailrace.consumers.metrics.counters import ConsumerCounters
from tailrace.consumers.metrics.page import CounterPage
from tailrace.consumers.offload.dispatch import Offload
from tailrace.consumers.program.lifespans import Lifespans
from tailrace.consumers.reader import Reader
from tailrace.consumers.registry import Handler
from tailrace.consumers.runner import ProcessContext, Runner
from tailrace.consumers.settings import ConsumerSettings
from tailrace.consumers.slots import Room, Rooms
from tailrace.consumers.watchdog import Suspect, Watchdog
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.operations import call
from tailrace.streams.policies import Platforms, rules_of
from tailrace.streams.process import lifeline
from tailrace.streams.process.logs import get_logger
from tailrace.streams.process.shutdown import Shutdown
from tailrace.streams.store.commit import Committer
from tailrace.streams.store.connection import Store
from tailrace.streams.store.kept_policies import PolicyWatch
from tailrace.streams.transitions import Transitions

log = get_logger()

MOST_AT_ONCE = 64  # jobs in one claim: small enough that two calls under way keep both sides busy
MOST_IN_ALL = SLOTS - 1024  # jobs in one process; a settled one keeps its slot in the table until it is answered
MOST_NAMED = 100  # jobs in one line of the log
LEAVE_SECONDS = 1.0  # how long handlers whose jobs were handed back may take to stop
SETTLE_SECONDS = 5.0  # how long a draining consumer waits for the store to take what it hands back


def longest_sleep(platforms: int) -> float:
    """After how many seconds an idle reader claims without a call, in case one was lost."""
    return max(5.0, platforms / 30)


def replicated(platforms: Platforms) -> frozenset[str]:
    """The platforms whose answers wait for replicas. A heart also delivers to those that it does not serve."""
    return frozenset(name for name, policy in platforms.items() if policy.durability == "replicated")


class ServedPlatform(Struct, frozen=True):
    """One platform as this consumer serves it."""

    keys: PlatformKeys
    reader: Reader
    runner: Runner
    committer: Committer


class Consumer:
    """Serves its platforms until a shutdown is requested."""

    def __init__(
        self, settings: ConsumerSettings, platforms: Platforms, handlers: Mapping[str, Handler], store: Store
    ) -> None:
        self._settings = settings
        self._platforms = platforms
        self._handlers = handlers
        self._store = store
        self._table = LeaseTable()
        self._vitals = Vitals(self._table)
        self._counters = ConsumerCounters()
        self._page = CounterPage() if settings.metrics_port else None
        self._shutdown: Shutdown | None = None
        self.left_behind = 0  # jobs that it could not hand back when it left
        self.restarting = False  # it ends because a restart was requested: its supervisor starts the next one
        self._offload = Offload(settings.obey_seconds)
        self._lifespans = Lifespans(handler.lifespan for handler in handlers.values())
        self._lines = self._make_lines()
        self._supervisor = HeartSupervisor(self._instructions(), self._hear)

    def _make_lines(self) -> dict[str, ServedPlatform]:
        settings, transitions = self._settings, Transitions(self._store)
        context = ProcessContext(
            settings.owner,
            self._handlers,
            self._offload,
            self._table,
            self._lifespans,
            settings.obey_seconds,
            self._vitals.refuse,
            self._counters,
            Outbound(transitions, self._platforms),
        )
        self._lanes: dict[str, Room] = {}
        self._rooms: dict[str, Rooms] = {}
        process = Room(min(settings.concurrency or MOST_IN_ALL, MOST_IN_ALL))
        lines = {}
        for number, platform in enumerate(settings.platforms):
            keys, policy = self._store.keys(platform), self._platforms[platform]
            rooms = self._rooms[platform] = Rooms(process, self._lane_of(platform), MOST_AT_ONCE)
            committer = Committer(transitions, keys)
            runner = Runner(keys, number, policy, context, committer, partial(rooms.give, 1))
            sleep = longest_sleep(len(settings.platforms))
            reader = Reader(self._terms(platform), rooms, runner, committer, partial(self._may_claim, number), sleep)
            lines[platform] = ServedPlatform(keys, reader, runner, committer)
        return lines

    def _lane_of(self, platform: str) -> Room:
        """The slots of a platform in this process, which those of its lane share."""
        policy = self._platforms[platform]
        return self._lanes.setdefault(policy.lane or platform, Room(policy.max_running_per_process))

    def _terms(self, platform: str) -> dict[str, Any]:
        """The arguments of every claim about its owner and its platform."""
        return {
            "owner": self._settings.owner,
            "deadline_ms": int(self._settings.deadline_seconds * 1000),
            **rules_of("claim", self._platforms[platform], self._platforms.siblings(platform)),
        }

    def _policy_changed(self, platform: str) -> None:
        """Follow a changed policy, from the next claim and the next attempts on."""
        policy = self._platforms[platform]
        self._lines[platform].runner.policy = policy
        lane = self._lane_of(platform)
        lane.resize(policy.max_running_per_process)
        self._rooms[platform].move(lane)
        for each, line in self._lines.items():  # the lane of one platform is in the terms of others
            line.reader.terms = self._terms(each)
            line.reader.ring()

    def _instructions(self) -> Instructions:
        settings, metrics = self._settings, None
        if settings.metrics_port and self._page:
            metrics = MetricsAddress(settings.metrics_host, settings.metrics_port, self._page.fd)
        return Instructions(
            url=self._store.url,
            keyspace=self._store.keyspace,
            owner=settings.owner,
            consumer_pid=os.getpid(),
            table_fd=self._table.fd,
            policies={platform: self._platforms[platform] for platform in settings.platforms},
            beat_seconds=settings.beat_seconds,
            deadline_seconds=settings.deadline_seconds,
            reap_seconds=settings.reap_seconds,
            obey_seconds=settings.obey_seconds,
            lifeline_fd=lifeline.descriptor(),
            metrics=metrics,
            terms=replace(self._store.terms, also=replicated(self._platforms)),
        )

    async def run(self, shutdown: Shutdown) -> None:
        """Serve until shutdown is asked for, then drain: finish within the grace, hand back the rest, say goodbye.

        Raises `BadConfiguration` when a lifespan of the handlers fails.
        """
        self._shutdown = shutdown
        try:
            if await self._lifespans.open_all(unless=shutdown.drain):
                await self._work(shutdown)
        finally:
            await self._lifespans.close()
            self._table.close()
            if self._page:
                self._page.close()
        log.info("consumer_stopped", owner=self._settings.owner)

    async def _work(self, shutdown: Shutdown) -> None:
        log.info("consumer_started", owner=self._settings.owner, platforms=",".join(self._settings.platforms))
        async with self._offload:
            with Watchdog(self._suspects, ticked=self._tick):
                await self._serve(shutdown)
            await self._handlers_stop()

    async def _serve(self, shutdown: Shutdown) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._supervisor.keep)
            for line in self._lines.values():
                tasks.start_soon(line.committer.run, line.reader.claim)
            bells = {line.keys.bell(self._settings.owner): line.reader.ring for line in self._lines.values()}
            tasks.start_soon(Bells(self._store, bells).run)
            served = self._settings.platforms
            tasks.start_soon(PolicyWatch(self._store, self._platforms, self._policy_changed, only=served).run)
            await shutdown.drain.wait()
            await self._drain(shutdown)
            tasks.cancel_scope.cancel()

    def _tick(self, held_seconds: float) -> None:
        """A few times a second: write the loop lag and the counters into the memory that the heart reads."""
        self._vitals.tick(held_seconds)
        for counters in self._counters.values():
            counters.waits.fold()
            counters.runs.fold()
        if self._page:
            for platform, line in self._lines.items():
                counters = self._counters[platform]
                counters.slots = self._slots(platform)
                counters.slots_used = line.runner.busy
            self._page.write(list(self._counters.values()))

    def _slots(self, platform: str) -> int:
        """Jobs of a platform that may run here at a time."""
        limits = (self._platforms[platform].max_running_per_process, self._settings.concurrency, MOST_IN_ALL)
        return min(limit for limit in limits if limit)

    def _may_claim(self, platform: int) -> bool:
        """Whether beats arrive: without them a lease would soon count as lost, and its job run twice."""
        good_seconds = self._settings.deadline_seconds - self._settings.beat_seconds
        return time.monotonic() < self._table.last_beat(platform) + good_seconds

    async def _drain(self, shutdown: Shutdown) -> None:
        running = self._running()
        grace_seconds = self._settings.grace_seconds
        log.info("draining", owner=self._settings.owner, running=running, grace_seconds=grace_seconds)
        if running and not all(map(self._may_claim, range(len(self._lines)))):
            note = "beats fail: jobs end or are handed back only if the store answers within the grace"
            log.warning("draining_without_store", owner=self._settings.owner, running=running, note=note)
        for line in self._lines.values():
            line.reader.stop()
        with anyio.move_on_after(grace_seconds):
            await self._quiet(shutdown)
        if left := self._running():
            log.info("handing_back", owner=self._settings.owner, running=left)
            for line in self._lines.values():
                line.reader.refuse()
                line.runner.release_all()
        with anyio.move_on_after(SETTLE_SECONDS):
            await self._quiet()
        self._tell_left_behind()
        await self._supervisor.goodbye()

    async def _handlers_stop(self) -> None:
        """Let handlers that were handed back tidy up, while what their lifespan opened is still there."""
        released = [task for line in self._lines.values() for task in line.runner.released]
        if released:
            await asyncio.wait(released, timeout=LEAVE_SECONDS)

    def _tell_left_behind(self) -> None:
        """Log the jobs that could not be handed back: they are taken over as lost, which counts a crash."""
        jobs = [line.keys.id(key) for line in self._lines.values() for key in line.runner.unsettled()]
        self.left_behind = len(jobs)
        if jobs:
            log.error(
                "not_handed_back",
                owner=self._settings.owner,
                count=len(jobs),
                jobs=", ".join(jobs[:MOST_NAMED]),
                note="the store did not answer; others take them over after the deadline, each as lost",
            )

    async def _quiet(self, shutdown: Shutdown | None = None) -> None:
        """Wait until nothing runs here any more, or until the end is asked for now."""
        while self._running() and not (shutdown and shutdown.now.is_set()):  # noqa: ASYNC110 - a drain may look twice
            await anyio.sleep(0.01)

    def _running(self) -> int:
        return sum(line.runner.busy + len(line.reader.wanted) for line in self._lines.values())

    def _suspects(self) -> list[Suspect]:
        """The jobs that may have held the loop; also called from the watchdog's thread."""
        harmless = {kind for kind, handler in self._handlers.items() if handler.run_in == "process"}
        return [
            Suspect(line.keys.id(running.claim.key), running.claim.kind, running.task)
            for line in self._lines.values()
            for running in list(line.runner.running.values())
            if running.claim.kind not in harmless
        ]

    def _hear(self, news: News) -> None:
        """Act on news of the heart: end attempts that lost their job, hand back jobs that do not run here."""
        for number, line in enumerate(self._lines.values()):
            if self._may_claim(number):
                line.reader.go_on()
        if news.restart and self._shutdown and not self._shutdown.drain.is_set():
            log.info("restart_asked", owner=self._settings.owner)
            self.restarting = True
            self._shutdown.request()
        for platform, nonce in news.lost:
            self._lines[platform].runner.lose(nonce)
        for platform, nonce in news.stop:
            self._lines[platform].runner.stop(nonce)
        for platform, key, nonce in news.stray:
            line = self._lines[platform]
            if nonce not in line.runner.running and nonce not in line.reader.wanted:
                starts = self._platforms[platform].max_starts
                operation = call.release(line.keys, key=key, nonce=nonce, max_starts=starts)
                line.committer.say(operation, lambda _: None)
