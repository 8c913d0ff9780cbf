"""The heart: a small process beside the consumer that beats for it, observes others, reclaims what they lost and ticks.

It is a process, not a thread, because a handler may hold the interpreter for minutes (a regular expression, a large
JSON) and must not lose its job for that. It gets its instructions as one JSON line on stdin, tells what it learns as
JSON lines on stdout, and ends when stdin closes: the consumer is gone, and its silence begins.
"""

import os
import signal
import time
from collections.abc import Mapping, Sequence

import anyio
import msgspec
import psutil
import structlog
from msgspec import Struct

from consumers.about import Introduction
from consumers.instructions import Instructions
from consumers.overtime import Overtime
from consumers.page import Page
from consumers.silences import Silence, Silences
from consumers.ticker import Ticker
from streams.connection import ANSWER_SECONDS, Store
from streams.errors import StoreError
from streams.keys import PlatformKeys
from streams.logs import configure_logs
from streams.messages import Look, Pulse
from streams.spoilt import of_each
from streams.transitions import FORGET_BATCH, BrokenOperation, Transitions

log = structlog.get_logger()

GOODBYE = b"goodbye\n"
MOST_NEWS = 15
NOTHING = Look({}, ())
FORGET_SECONDS = 5.0  # between looks for jobs that need not be kept any longer
LEAVE_SECONDS = 2.0  # to tell the store that a consumer leaves; if that fails, others see its silence
RETRY_SECONDS = 0.25  # the longest pause between beats that fail: when the store is back, we are heard at once


class News(Struct, frozen=True, omit_defaults=True):
    """What a beat brought: also a sign of life when it is empty."""

    lost: list[tuple[str, str]] = []  # platform, nonce: attempts that are no longer the consumer's
    stray: list[tuple[str, str, str]] = []  # platform, key, nonce: jobs the consumer owns and does not seem to run
    stop: list[tuple[str, str]] = []  # platform, nonce: attempts that somebody asked to stop
    restart: bool = False  # somebody asked the platforms' consumers to drain and leave


class Heart:
    """Beats, observes, reclaims."""

    def __init__(self, instructions: Instructions, transitions: Transitions, page: Page) -> None:
        self._to = instructions
        self._transitions = transitions
        self._page = page
        self._keys = [PlatformKeys(platform) for platform in instructions.platforms]
        self._consumer = psutil.Process(instructions.consumer_pid)
        self._about = Introduction(self._consumer, page, instructions.deadline_seconds)
        self._silences = Silences(instructions.deadline_seconds, 2 * instructions.reap_seconds)
        self._overtime = Overtime(instructions, transitions, page)
        self._ticker = Ticker(transitions, self._keys, instructions.reap_seconds)
        self._restarts: dict[str, int] = {}  # how often each platform had been asked when we first heard of it
        self._forget_at = 0.0

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._beat)
            tasks.start_soon(self._observe)
            tasks.start_soon(self._ticker.run)
            if self._to.lifeline_fd is not None:
                tasks.start_soon(self._end_with, self._to.lifeline_fd)
            await self._hear_consumer()
            tasks.cancel_scope.cancel()

    async def _beat(self) -> None:
        while True:
            pause = self._to.beat_seconds
            if self._consumer_runs():
                try:
                    about = self._about.news()
                    pulses = await self._beat_once(about)
                except StoreError:
                    pause = min(pause, RETRY_SECONDS)
                    tell(News())
                else:
                    if about:
                        self._about.heard()
                    tell(self._news(pulses))
            await anyio.sleep(pause)

    async def _beat_once(self, about: bytes) -> dict[str, Pulse]:
        held = dict(zip(self._to.platforms, self._page.held(len(self._keys)), strict=True))

        async def beat(platforms: Sequence[PlatformKeys]) -> list[Pulse]:
            sheets = [(keys, held[keys.platform]) for keys in platforms]
            return await self._transitions.beat(sheets, self._to.owner, about)

        return await of_each(self._keys, beat)

    def _news(self, pulses: Mapping[str, Pulse]) -> News:
        heard = pulses.items()
        before = {platform: self._restarts.setdefault(platform, pulse.restarts) for platform, pulse in heard}
        stop = [(platform, nonce) for platform, pulse in heard for nonce in pulse.stop]
        self._overtime.asked_to_stop([nonce for _, nonce in stop])
        return News(
            lost=[(platform, nonce) for platform, pulse in heard for nonce in pulse.lost],
            stray=[(platform, *job) for platform, pulse in heard for job in pulse.stray],
            stop=stop,
            restart=any(pulse.restarts > before[platform] for platform, pulse in heard),
        )

    def _consumer_runs(self) -> bool:
        """A consumer that was stopped is not at work; one that is busy or sleeps is."""
        try:
            return self._consumer.status() not in (
                psutil.STATUS_STOPPED,
                psutil.STATUS_ZOMBIE,
                psutil.STATUS_DEAD,
            )
        except psutil.NoSuchProcess:
            return False

    async def _observe(self) -> None:
        while True:
            pause = self._to.reap_seconds
            try:
                asked = time.monotonic()
                looks = await of_each(self._keys, self._transitions.tend)
                now = time.monotonic()
                await self._overtime.watch(now, [looks.get(name, NOTHING) for name in self._to.platforms])
                await self._forget(now)
                self._silences.look(asked, now, looks)
                for silence in self._silences.lost(now):
                    await self._reclaim(silence)
                for platform, owner, counter in list(self._silences.departed(now)):
                    await self._bury(PlatformKeys(platform), owner, counter)
                due = self._silences.next_due()
                if due is not None and due > now:
                    pause = min(pause, due - now)
            except StoreError:
                self._silences.blind()
                self._overtime.blind()
            await anyio.sleep(pause)

    async def _forget(self, now: float) -> None:
        """Remove what need not be kept, now and then, in bounded batches."""
        if now < self._forget_at:
            return
        lines = list(zip(self._keys, self._to.policies, strict=True))
        while lines and time.monotonic() < now + self._to.reap_seconds:  # others may fall silent meanwhile
            most = max(1, FORGET_BATCH // len(lines))
            try:
                removed = await self._transitions.forget_all(lines, most)
            except BrokenOperation as error:  # keys that were spoilt by hand must not end a heart
                log.error("forget_broken", owner=self._to.owner, error=str(error))
                break
            lines = [line for line, count in zip(lines, removed, strict=True) if count >= most]
        else:
            if lines:
                return  # the rest comes with the next look
        self._forget_at = now + FORGET_SECONDS

    async def _reclaim(self, silence: Silence) -> None:
        index = self._to.platforms.index(silence.platform)
        keys, lease = self._keys[index], silence.lease
        try:
            word = await self._transitions.reclaim(keys, lease, silence.counter, self._to.policies[index])
        except BrokenOperation as error:  # a job whose keys were spoilt by hand must not hold up the others
            log.error("reclaim_broken", job=keys.id(lease.key), owner=lease.owner, error=str(error))
            return
        if word in {"reclaimed", "failed"}:
            log.warning("lease_lost", job=keys.id(lease.key), owner=lease.owner, outcome=word)

    async def _bury(self, keys: PlatformKeys, owner: str, counter: str) -> None:
        try:
            await self._transitions.bury(keys, owner, counter)
        except BrokenOperation as error:
            log.error("bury_broken", platform=keys.platform, owner=owner, error=str(error))

    async def _hear_consumer(self) -> None:
        """Wait until the consumer says goodbye or is gone."""
        if await read_line(0) == GOODBYE:
            with anyio.move_on_after(LEAVE_SECONDS):
                await self._leave()

    async def _leave(self) -> None:
        try:
            for platform, look in (await of_each(self._keys, self._transitions.observe)).items():
                await self._bury(PlatformKeys(platform), self._to.owner, look.beats.get(self._to.owner, ""))
        except StoreError:
            return  # observers will see the silence

    async def _end_with(self, lifeline_fd: int) -> None:
        """Whoever started the consumer is gone: end it even if a handler holds its interpreter."""
        while await read_line(lifeline_fd):
            pass
        os.kill(self._to.consumer_pid, signal.SIGKILL)


async def read_line(fd: int) -> bytes:
    await anyio.wait_readable(fd)
    return os.read(fd, 4096)


def tell(news: News) -> None:
    """Say it without ever waiting: a consumer whose loop is blocked reads later, or hears it with the next beat.

    A line stays below what a pipe takes whole; what does not fit is still true at the next beat.
    """
    short = News(news.lost[:MOST_NEWS], news.stray[:MOST_NEWS], news.stop[:MOST_NEWS], news.restart)
    try:
        os.write(1, msgspec.json.encode(short) + b"\n")
    except (BlockingIOError, BrokenPipeError):
        return


def listen() -> Instructions:
    """Get the instructions. Signals go to the whole group: when we are done is for the consumer to say."""
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    with open(0, "rb", buffering=0, closefd=False) as stdin:
        return msgspec.json.decode(stdin.readline(), type=Instructions)


async def main(instructions: Instructions) -> None:
    os.set_blocking(1, False)
    configure_logs()
    patience = min(ANSWER_SECONDS, instructions.deadline_seconds / 3)
    async with Store(instructions.url, answer_seconds=patience) as store:
        await Heart(instructions, Transitions(store), Page(instructions.page_fd)).run()


if __name__ == "__main__":
    anyio.run(main, listen())
    os._exit(0)  # nothing is left to tidy up, and the consumer waits for us
