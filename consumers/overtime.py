"""Ends a consumer whose handler holds the interpreter past its time: only another process can.

A handler that gives way is cancelled by its runner, in time. One that does not (a computation, a blocking call) keeps
its attempt on the page beyond its deadline, or beyond a request to stop. Then the attempt is settled from here, what
else the consumer runs is handed back at no cost, and the process is killed; its supervisor starts another.
"""

import os
import signal
import time
from collections.abc import Awaitable, Sequence

import structlog

from consumers.backoff import again_after, rules_for, timed_out
from consumers.instructions import Instructions
from consumers.page import Page
from consumers.runner import failure_members
from streams.errors import TailraceError
from streams.keys import PlatformKeys
from streams.messages import Lease, Look
from streams.policies import Policy
from streams.reading import read_record
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

    async def watch(self, now: float, looks: Sequence[Look]) -> None:
        """Warn of attempts that are past their time, and end the process of one that does not stop."""
        held = {nonce for nonces in self._page.held(len(self._to.platforms)) for nonce in nonces}
        late = self._page.overdue(now) | {nonce: since for nonce, since in self._asked.items() if nonce in held}
        self._warned = {nonce: since for nonce, since in self._warned.items() if nonce in late}
        mine = [
            (platform, lease)
            for platform, look in zip(self._to.platforms, looks, strict=True)
            for lease in look.leases
            if lease.owner == self._to.owner
        ]
        for platform, lease in mine:
            past = now - late.get(lease.nonce, now)
            if past < WARN_SECONDS:
                continue
            if lease.nonce not in self._warned:
                self._warned[lease.nonce] = now
                log.warning("attempt_overdue", job=PlatformKeys(platform).id(lease.key), seconds=round(past, 1))
            if now - self._warned[lease.nonce] >= self._to.obey_seconds + END_SECONDS:
                await self._end((platform, lease), [other for other in mine if other[1].nonce != lease.nonce])
                return

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
