"""The heart: a small process beside the consumer that beats for it, observes others, reclaims what they lost and ticks.

It is a process, not a thread, because a handler may hold the interpreter for minutes (a regular expression, a large
JSON) and must not lose its job for that. It reads its instructions as one JSON line from stdin, writes what it learns
as JSON lines to stdout, and ends when stdin closes: the consumer is gone, and its silence begins.
"""

import os
import signal
from collections.abc import Sequence

import anyio
import msgspec

from tailrace.consumers.heart.heartbeat import Heartbeat, WatchedConsumer, tell
from tailrace.consumers.heart.messages import GOODBYE, LEAVE_SECONDS, Instructions, News
from tailrace.consumers.heart.overtime import Overtime
from tailrace.consumers.heart.shared_memory import LeaseTable
from tailrace.streams.errors import StoreError
from tailrace.streams.operations import BrokenOperation
from tailrace.streams.process.logs import configure_logs
from tailrace.streams.store.connection import ANSWER_SECONDS, Store
from tailrace.streams.transitions import Transitions
from tailrace.streams.views.corrupt import of_each


class Heart:
    """Beats, observes, reclaims."""

    def __init__(self, instructions: Instructions, transitions: Transitions, table: LeaseTable) -> None:
        self._to = instructions
        self._transitions = transitions
        self._table = table
        self._consumer = WatchedConsumer(instructions, table)
        self._overtime = Overtime(instructions, transitions, table)
        self._heartbeats = [
            Heartbeat(instructions, platforms, transitions, self._consumer, self._overtime)
            for platforms in transitions.store.apart(instructions.policies)
        ]

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._show_life)
            tasks.start_soon(self._overtime.run)
            for heartbeat in self._heartbeats:
                tasks.start_soon(heartbeat.run)
            if self._to.lifeline_fd is not None:
                tasks.start_soon(self._end_with, self._to.lifeline_fd)
            if self._to.metrics:
                from tailrace.consumers.metrics.answers import HeartAnswers  # not needed by most, and some MB of memory

                answers = HeartAnswers(
                    self._to, self._table, self._to.metrics, self._consumer.counters, self._consumer.runs
                )
                tasks.start_soon(answers.server.run)
            await self._hear_consumer()
            tasks.cancel_scope.cancel()

    async def _show_life(self) -> None:
        """Keep the consumer from starting another heart: it does when this one is silent, not when beats fail."""
        while True:
            tell(News())
            await anyio.sleep(self._to.beat_seconds)

    async def _hear_consumer(self) -> None:
        """Wait until the consumer says goodbye or is gone."""
        if await read_line(0) == GOODBYE:
            with anyio.move_on_after(LEAVE_SECONDS):
                await self._leave()

    async def _leave(self) -> None:
        async with anyio.create_task_group() as tasks:
            for platforms in self._transitions.store.apart(self._to.policies):
                tasks.start_soon(self._leave_platforms, platforms)

    async def _leave_platforms(self, platforms: Sequence[str]) -> None:
        keys = {platform: self._transitions.store.keys(platform) for platform in platforms}
        try:
            looks = await of_each(list(keys.values()), self._transitions.observe)
            for platform, beats in looks.items():
                await self._transitions.bury(keys[platform], self._to.owner, beats.get(self._to.owner, ""))
        except (StoreError, BrokenOperation):
            return  # observers will see the silence

    async def _end_with(self, lifeline_fd: int) -> None:
        """The parent of the consumer is gone: end the consumer even if a handler holds its interpreter."""
        while await read_line(lifeline_fd):
            pass
        os.kill(self._to.consumer_pid, signal.SIGKILL)


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
    to = instructions
    async with Store(to.url, to.keyspace, answer_seconds=patience, policies=to.policies, terms=to.terms) as store:
        await Heart(instructions, Transitions(store), LeaseTable(instructions.table_fd)).run()
