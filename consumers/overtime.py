"""Ends a consumer whose handler holds the interpreter past its time: only another process can.

A handler that gives way is cancelled by its runner, in time. One that does not (a computation, a blocking call) keeps
its attempt on the page beyond its deadline, or beyond a request to stop. Then the attempt is settled from here, what
else the consumer runs is handed back at no cost, and the process is killed; its supervisor starts another.
"""

import os
import signal
import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence

import anyio
import structlog

from consumers.backoff import again_after, rules_for, timed_out
from consumers.instructions import Instructions
from consumers.page import Page
from consumers.runner import failure_members
from streams.connection import ServerRefusal
from streams.errors import StoreError, TailraceError
from streams.keys import PlatformKeys
from streams.messages import Lease
from streams.policies import Policy
from streams.reading import read_leases_under, read_record
from streams.transitions import Transitions

log = structlog.get_logger()

WARN_SECONDS = 1.0  # past the time: an attempt that is being settled right now is not meant
END_SECONDS = 2.0  # after the warning and the time to obey: its runner would have settled it by now, if it could run


class Overtime:
    """Watches the attempts of one consumer."""

    def __init__(self, instructions: Instructions, transitions: Transitions, page: Page) -> None:
        self._to = instructions
        self._transitions = transitions
        self._page = page
        self._asked: dict[str, float] = {}  # nonces of attempts that are asked to stop, and since when
        self._warned: dict[str, float] = {}  # nonces of attempts that were warned of, and since when

    def asked_to_stop(self, nonces: Sequence[str]) -> None:
        now = time.monotonic()
        self._asked = {nonce: self._asked.get(nonce, now) for nonce in nonces}

    def blind(self) -> None:
        """The store was away: a consumer that could not settle anything meanwhile gets its time again."""
        self._warned.clear()

    async def run(self) -> None:
        while True:
            try:
                await self.watch(time.monotonic())
            except StoreError:
                self.blind()
            await anyio.sleep(self._to.reap_seconds)

    async def watch(self, now: float) -> None:
        """Warn of attempts that are past their time, and end the process of one that does not stop."""
        held = dict(zip(self._to.platforms, self._page.held(len(self._to.platforms)), strict=True))
        there = {nonce for nonces in held.values() for nonce in nonces}
        late = self._page.overdue(now) | {nonce: since for nonce, since in self._asked.items() if nonce in there}
        late = {nonce: since for nonce, since in late.items() if now - since >= WARN_SECONDS}
        self._warned = {nonce: since for nonce, since in self._warned.items() if nonce in late}
        for platform, lease in await self._leases(held, late):
            if lease.nonce not in self._warned:
                self._warned[lease.nonce] = now
                past = round(now - late[lease.nonce], 1)
                log.warning("attempt_overdue", job=PlatformKeys(platform).id(lease.key), seconds=past)
            if now - self._warned[lease.nonce] >= self._to.obey_seconds + END_SECONDS:
                await self._end((platform, lease), await self._leases(held, there - {lease.nonce}))
                return

    async def _leases(self, held: Mapping[str, Iterable[str]], wanted: Iterable[str]) -> list[tuple[str, Lease]]:
        """Those of our leases, each with its platform, that are wanted and still ours."""
        found: list[tuple[str, Lease]] = []
        for platform, nonces in held.items():
            ours = [nonce for nonce in nonces if nonce in wanted]
            try:
                leases = await read_leases_under(self._transitions.store, PlatformKeys(platform), ours)
            except ServerRefusal:  # keys that were spoilt by hand; they are told of by the beats
                continue
            found += [(platform, lease) for lease in leases]
        return found

    async def _end(self, late: tuple[str, Lease], others: Sequence[tuple[str, Lease]]) -> None:
        platform, lease = late
        why = "its handler holds the loop past its time, or after it was asked to stop"
        log.error(
            "consumer_ended", job=PlatformKeys(platform).id(lease.key), owner=lease.owner, others=len(others), why=why
        )
        await self._settle(lease, self._fail(PlatformKeys(platform), self._policy(platform), lease))
        for name, other in others:
            starts = self._policy(name).max_starts
            await self._settle(other, self._transitions.release(PlatformKeys(name), other.key, other.nonce, starts))
        os.kill(self._to.consumer_pid, signal.SIGKILL)

    async def _settle(self, lease: Lease, settling: Awaitable[object]) -> None:
        try:
            await settling
        except TailraceError as error:  # then it comes back as lost
            log.warning("not_handed_back", job=lease.key, owner=lease.owner, error=str(error))

    async def _fail(self, keys: PlatformKeys, policy: Policy, lease: Lease) -> None:
        """Settle the attempt as its runner would have; a job that was asked to stop ends cancelled by that."""
        record = await read_record(self._transitions.store, keys, lease.key)
        rules = rules_for(policy, record.options or "")
        seconds, micros = await self._transitions.store.command("TIME")
        now_ms, started_ms = int(seconds) * 1000 + int(micros) // 1000, record.started_ms or 0
        first_ms = record.first_ms or started_ms
        outcome = timed_out(rules, (started_ms - first_ms) / 1000)
        again = again_after(outcome, record.failures + 1, (now_ms - first_ms) / 1000, rules)
        await self._transitions.fail(keys, lease.key, lease.nonce, again, failure_members(outcome))

    def _policy(self, platform: str) -> Policy:
        return self._to.policies[self._to.platforms.index(platform)]
