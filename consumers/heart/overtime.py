"""Ends a consumer whose handler holds the interpreter past its time: only another process can.

A handler that gives way is cancelled by its runner, in time. One that does not (a computation, a blocking call) keeps
its attempt in the table beyond its deadline, beyond a request to stop, or after it lost its job. Then the attempt is
settled from here, what else the consumer runs is handed back at no cost, and the process is killed; its supervisor
starts another. The time to obey counts from when the consumer told the attempt, which it notes in the table; for one
whose loop is held and hears nothing, from when it was said to it.
"""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence

import anyio

from tailrace.consumers.backoff import again_after, timed_out
from tailrace.consumers.heart.messages import Instructions
from tailrace.consumers.heart.shared_memory import LeaseTable
from tailrace.consumers.outcomes import failure_members
from tailrace.streams.errors import StoreError, TailraceError
from tailrace.streams.keys import PlatformKeys, join_id
from tailrace.streams.leases import read_leases_under
from tailrace.streams.messages import Lease
from tailrace.streams.operations import call
from tailrace.streams.policies import rules_for
from tailrace.streams.process.logs import get_logger
from tailrace.streams.replies import read_record
from tailrace.streams.store.commit import MOST_WORK, WORK
from tailrace.streams.store.connection import ServerRefusal
from tailrace.streams.store.server import read_clock
from tailrace.streams.transitions import Transitions

log = get_logger()

WARN_SECONDS = 1.0  # past the time: an attempt that is being settled right now is not meant
END_SECONDS = 2.0  # after the warning and the time to obey: its runner would have settled it by now, if it could run
MOST_RELEASES = int(MOST_WORK / WORK["release"])  # in one call


class Overtime:
    """Watches the attempts of one consumer."""

    def __init__(self, instructions: Instructions, transitions: Transitions, table: LeaseTable) -> None:
        self._to = instructions
        self._transitions = transitions
        self._keys = transitions.store.keys
        self._table = table
        self._said: dict[str, float] = {}  # nonces of attempts that the consumer should stop, and when we said so
        self._warned: dict[str, float] = {}  # nonces of attempts that were warned of, and since when

    def told_consumer(self, nonces: Sequence[str], now: float) -> None:
        """Note which attempts the consumer must end: lost ones, and those asked to stop. A free loop ends them."""
        self._said |= {nonce: now for nonce in nonces if nonce not in self._said}

    def blind(self, nonces: Iterable[str] | None = None) -> None:
        """The store was away, or one of its nodes: what could not be settled meanwhile gets its time again."""
        for nonce in list(self._warned if nonces is None else nonces):
            self._warned.pop(nonce, None)

    async def run(self) -> None:
        while True:
            try:
                await self.watch(time.monotonic())
            except StoreError:
                self.blind()
            await anyio.sleep(self._to.reap_seconds)

    async def watch(self, now: float) -> None:
        """Warn of attempts that are past their time, and end the process of one that does not stop."""
        held = self._table.held(self._to.policies)
        there, untold = {nonce for nonces in held.values() for nonce in nonces}, self._table.untold()
        self._said = {nonce: since for nonce, since in self._said.items() if nonce in untold}
        late = {n: since for n, since in (self._said | self._table.late(now)).items() if now - since >= WARN_SECONDS}
        self._warned = {nonce: since for nonce, since in self._warned.items() if nonce in late}
        ours = {lease.nonce: (platform, lease) for platform, lease in await self._leases(held, late)}
        for nonce, since in late.items():
            if nonce not in ours and nonce in untold and nonce not in self._said:
                continue  # its job was settled or lost a moment ago, and it will hear of it
            if nonce not in self._warned:
                self._warned[nonce] = now
                log.warning("attempt_overdue", job=job_of(ours.get(nonce)), nonce=nonce, seconds=round(now - since, 1))
            if now - self._warned[nonce] >= self._to.obey_seconds + END_SECONDS:
                await self._end(ours.get(nonce), await self._leases(held, there - {nonce}))
                return

    async def _leases(self, held: Mapping[str, Iterable[str]], wanted: Iterable[str]) -> list[tuple[str, Lease]]:
        """The wanted leases that are still ours, each with its platform."""

        async def ours(platform: str, nonces: Iterable[str]) -> list[tuple[str, Lease]]:
            named = [nonce for nonce in nonces if nonce in wanted]
            try:
                leases = await read_leases_under(self._transitions.store, self._keys(platform), named)
            except ServerRefusal:  # corrupt keys; the beats log them
                return []
            except StoreError:
                if not self._transitions.store.clustered:
                    raise
                self.blind(named)
                return []
            return [(platform, lease) for lease in leases]

        found = await asyncio.gather(*(ours(platform, nonces) for platform, nonces in held.items()))
        return [lease for leases in found for lease in leases]

    async def _end(self, late: tuple[str, Lease] | None, others: Sequence[tuple[str, Lease]]) -> None:
        """End the process. `late` is None for an attempt that lost its job: there is nothing to settle."""
        why = "its handler holds the loop past its time, or after it was asked to stop"
        log.error("consumer_ended", job=job_of(late), owner=self._to.owner, others=len(others), why=why)
        if late:
            platform, lease = late
            await self._settle(job_of(late), self._fail(self._keys(platform), lease))
        for platform, policy in self._to.policies.items():
            keys, starts = self._keys(platform), policy.max_starts
            releases = [
                call.release(keys, key=lease.key, nonce=lease.nonce, max_starts=starts)
                for name, lease in others
                if name == platform
            ]
            for start in range(0, len(releases), MOST_RELEASES):
                piece = releases[start : start + MOST_RELEASES]
                await self._settle(f"{len(piece)} of {platform}", self._transitions.commit(keys, piece))
        os.kill(self._to.consumer_pid, signal.SIGKILL)

    async def _settle(self, job: str | None, settling: Awaitable[object]) -> None:
        try:
            await settling
        except TailraceError as error:  # then it comes back as lost
            log.warning("not_handed_back", job=job, owner=self._to.owner, error=str(error))

    async def _fail(self, keys: PlatformKeys, lease: Lease) -> None:
        """Settle the attempt as its runner would have; a job that was asked to stop ends cancelled by that."""
        record = await read_record(self._transitions.store, keys, lease.key)
        rules = rules_for(self._to.policies[keys.platform], record.options)
        now_ms, started_ms = await read_clock(self._transitions.store, keys), record.started_ms or 0
        first_ms = record.first_ms or started_ms
        outcome = timed_out(rules, (started_ms - first_ms) / 1000)
        again = again_after(outcome, record.failures + 1, (now_ms - first_ms) / 1000, rules)
        await self._transitions.fail(keys, lease.key, lease.nonce, again, failure_members(outcome))


def job_of(late: tuple[str, Lease] | None) -> str | None:
    return join_id(late[0], late[1].key) if late else None
