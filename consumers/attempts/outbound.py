"""Submits the jobs of attempts, and delivers news for other platforms at once."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from tailrace.producers.kinds import NO_BUILT_INS
from tailrace.producers.producer import LOOK_EVERY, Producer, fingerprint
from tailrace.producers.submissions import Submission
from tailrace.streams.errors import AccessDenied, NoStore, StoreError
from tailrace.streams.flows.envelope import FlowNode
from tailrace.streams.flows.relay import Parcel, Relay
from tailrace.streams.flows.spawning import NewJob, flow_keys, pages, sent, spawning, whole_spawn
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Claim, Job
from tailrace.streams.options import Options
from tailrace.streams.policies import Platforms
from tailrace.streams.process.logs import get_logger
from tailrace.streams.process.turns import Turns
from tailrace.streams.store.commit import FIRST_PAUSE, LONGEST_PAUSE
from tailrace.streams.transitions import Transitions

log = get_logger()

FRESH_SECONDS = 10.0
"""A heart may have delivered what was put into an outbox longer ago, and that job may have ended and be forgotten: the
relay looks at that before it submits it again."""

PARENT = b'{"parent":"'  # how the options of a child begin, as its claim brings them


class Outbound:
    """Sends what attempts write about other jobs: submissions, children, news for parents."""

    def __init__(self, transitions: Transitions, platforms: Platforms) -> None:
        self._transitions = transitions
        self._producer = Producer(transitions, platforms, kinds=NO_BUILT_INS)
        self._relay = Relay(transitions)
        self._delivering: dict[str, asyncio.Task[None]] = {}  # by platform
        self._fresh: dict[str, list[tuple[float, Parcel]]] = {}  # what this process has just put into an outbox
        self._unread: set[str] = set()  # platforms whose outbox has got what this process does not know

    async def check(
        self, child: bool, platform: str, kind: str, jobs: Sequence[tuple[str, bytes]], options: dict[str, Any]
    ) -> list[NewJob]:
        """Jobs that may be submitted, of keys and args. Raises `WrongField` if they can never be accepted."""
        told, turns, made = Options(**options), Turns(), []
        for number, (key, args) in enumerate(jobs, start=1):
            job = self._producer.check(Submission(platform, kind, msgspec.json.decode(args), key, told))
            made.append(NewJob(job, fingerprint(job), child))
            if number % LOOK_EVERY == 0:
                await turns.give_way()
        return made

    def nodes(self, parent: str, nodes: Sequence[FlowNode], trace: str | None) -> list[NewJob]:
        """The children that a job carries, as they are submitted. They were checked when it was accepted.

        `trace`: the traceparent of those that have none of their own.
        """
        keys = flow_keys(parent, (node.kind for node in nodes))
        jobs = [traced(node.job(key), trace) for node, key in zip(nodes, keys, strict=True)]
        return [NewJob(job, fingerprint(job)) for job in jobs]

    async def spawn(self, keys: PlatformKeys, claim: Claim, jobs: Sequence[NewJob], place: str) -> list[Any]:
        """Submit jobs of an attempt; yields the answers page by page. Waits for the store. Raises `StoreFull`.

        The last page notes that all jobs of this `place` are enqueued.
        """
        answers: list[Any] = []
        all_pages = list(pages(jobs))
        for number, page in enumerate(all_pages, start=1):
            whole = whole_spawn(place, len(jobs)) if number == len(all_pages) else ""
            operation, pause = spawning(keys, claim.key, claim.nonce, page, whole), FIRST_PAUSE
            while True:
                begun = time.monotonic()
                try:
                    answer = await self._transitions.one(keys, operation)
                    break
                except (NoStore, AccessDenied):
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
            answers.append(answer)
            parcels = sent(keys.id(claim.key), page, answer) if isinstance(answer, list) else []
            self._carry(keys, begun, parcels)
            if sum(new.job.platform != keys.platform for new in page) > len(parcels):
                self.deliver(keys)  # an attempt that died may have put the others there
        return answers

    def ended(self, keys: PlatformKeys, claim: Claim, *, cancelled: bool, entry: str, event: bytes) -> None:
        """An attempt is over: news for its parent, or for the children of a cancelled job, may be in the outbox.

        `entry`: the one that tells the parent of `event`, if it is known.
        """
        if cancelled:
            self.deliver(keys)
        elif claim.options.startswith(PARENT):
            parent = claim.options[len(PARENT) :].partition(b'"')[0].decode()
            if entry:
                news = Parcel(entry, b"arrive", parent, keys.id(claim.key), {b"event": event})
                self._carry(keys, time.monotonic(), [news])
            elif parent.partition(".")[0] != keys.platform:
                self.deliver(keys)

    def deliver(self, keys: PlatformKeys) -> None:
        """Deliver the outbox of a platform in the background; a heart delivers later what fails."""
        self._unread.add(keys.platform)
        self._start(keys)

    def _carry(self, keys: PlatformKeys, since: float, parcels: Sequence[Parcel]) -> None:
        """Deliver entries that this process has written since then, without a look at the outbox."""
        if parcels:
            self._fresh.setdefault(keys.platform, []).extend((since, parcel) for parcel in parcels)
            self._start(keys)

    def _start(self, keys: PlatformKeys) -> None:
        if keys.platform not in self._delivering:
            self._delivering[keys.platform] = asyncio.get_running_loop().create_task(self._deliver(keys))

    async def _deliver(self, keys: PlatformKeys) -> None:
        platform, done = keys.platform, list[str]()
        try:
            while platform in self._fresh or platform in self._unread or done:
                fresh, oldest = self._fresh.pop(platform, []), time.monotonic() - FRESH_SECONDS
                parcels = [parcel for since, parcel in fresh if since > oldest]
                if len(parcels) < len(fresh):
                    self._unread.add(platform)  # this process was stopped: a heart may have delivered the others
                if parcels or done:
                    # While these are delivered, those before them are removed.
                    done, _ = await asyncio.gather(self._relay.carry(parcels), self._relay.remove(keys, done))
                else:
                    self._unread.discard(platform)
                    await self._relay.deliver(keys)
        except StoreError as error:
            self._fresh.pop(platform, None)
            log.info("delivery_put_off", platform=platform, error=str(error))
        finally:
            del self._delivering[platform]


def traced(job: Job, trace: str | None) -> Job:
    """The job with this traceparent, unless it has one."""
    if trace is None or job.options.traceparent:
        return job
    return replace(job, options=replace(job.options, traceparent=trace))
