"""`alerts`: watches the store by the rules of Prometheus, and tells Slack and Discord what is wrong."""

import argparse
import hashlib
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from datetime import time as day_time
from pathlib import Path
from typing import NamedTuple, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import anyio
import anyio.to_thread
from msgspec import Struct

from tailrace.ops.connect import reach
from tailrace.ops.monitoring import messages
from tailrace.ops.monitoring.incidents import Findings, Incident, IncidentWatch
from tailrace.ops.monitoring.rules import RULES
from tailrace.ops.monitoring.webhook import NotDelivered, Webhook
from tailrace.ops.terminal import say
from tailrace.streams.errors import BadConfiguration, StoreError, WrongField
from tailrace.streams.process.logs import configure_logs, get_logger
from tailrace.streams.process.settings import Environment
from tailrace.streams.process.shutdown import Shutdown
from tailrace.streams.store.connection import Store
from tailrace.streams.store.shared_keys import close_incident, open_incident, read_incidents
from tailrace.streams.transitions import Transitions

EVERY_SECONDS = 5.0  # a consumer must be watched without a break to be called dead
BY_NAME = {rule.name: rule for rule in RULES}
REMINDED = "reminded"

log = get_logger()


class QuietHours(Struct, frozen=True):
    """The hours in which warnings wait; critical alerts do not."""

    begin: day_time
    end: day_time
    zone: ZoneInfo

    @classmethod
    def read(cls, text: str, zone: str) -> Self:
        begin, _, end = text.partition("-")
        try:
            return cls(day_time.fromisoformat(begin.strip()), day_time.fromisoformat(end.strip()), ZoneInfo(zone))
        except ZoneInfoNotFoundError:
            raise WrongField(
                "--tz", f"{zone} is not a known time zone; expected a name such as Europe/Berlin"
            ) from None
        except ValueError:
            raise WrongField(
                "--quiet", f"{text} is not a span of time; expected two times such as 22:00-07:00"
            ) from None

    def holds(self, now: datetime) -> bool:
        at = now.astimezone(self.zone).time()
        if self.begin <= self.end:
            return self.begin <= at < self.end
        return at >= self.begin or at < self.end


class Receiver(NamedTuple):
    """One channel. Its incidents are kept in the store under `name`, which says nothing of its address."""

    name: str
    webhook: Webhook
    written: Callable[[str], bytes]


def receivers(env: Environment) -> list[Receiver]:
    """Raises `BadConfiguration` when none is set, or an address must not be asked."""
    ca_file = env.text("TAILRACE_ALERTS_CA_FILE")
    allow_private = env.choice("TAILRACE_ALERTS_ALLOW_PRIVATE", "off", ("on", "off")) == "on"
    found = []
    for setting, kind, written in (
        ("TAILRACE_SLACK_URL", "slack", messages.slack),
        ("TAILRACE_DISCORD_URL", "discord", messages.discord),
    ):
        if url := env.secret(setting):
            webhook = Webhook(setting, url, allow_private=allow_private, ca_file=Path(ca_file) if ca_file else None)
            digest = hashlib.sha256(url.encode()).hexdigest()[:12]
            found.append(Receiver(f"{kind}-{digest}", webhook, written))
    if not found:
        raise BadConfiguration(
            "no receiver is set; set TAILRACE_SLACK_URL or TAILRACE_DISCORD_URL, or TAILRACE_SLACK_URL_FILE with the "
            "path of a file that holds the address"
        )
    return found


class Messenger:
    """Sends incidents to one receiver, and keeps in the store which it was sent.

    Who changes the store first sends the message: several of these do not repeat each other. A message that does not
    arrive is taken back, and tried again at the next look. While the store is away, or cannot write, there is nowhere
    to keep anything: what was sent then is kept in memory.
    """

    def __init__(
        self, store: Store, receiver: Receiver, remind_seconds: float, quiet: QuietHours | None = None
    ) -> None:
        self._store = store
        self._receiver = receiver
        self._remind_seconds = remind_seconds
        self._quiet = quiet
        self._down: dict[Incident, float] = {}  # told while the store could keep nothing, and when

    async def settle(self, seen: Findings) -> None:
        """Send messages about incidents that are new, that last and that are over."""
        found = seen.ripe
        try:
            known = await read_incidents(self._store, self._receiver.name)
        except StoreError:
            for (rule, subject), facts in found.items():
                if (rule, subject) not in self._down and await self._send(messages.firing(rule, subject, facts)):
                    self._down[rule, subject] = time.time()
            return
        for (rule, subject), since in list(self._down.items()):
            if (rule, subject) in found:
                continue
            if await self._send(messages.resolved(rule.name, subject, time.time() - since)):
                del self._down[rule, subject]
        now_ms = int(time.time() * 1000)
        names = {f"{rule.name} {subject}" for rule, subject in seen.all}
        for (rule, subject), facts in found.items():
            name = f"{rule.name} {subject}"
            if self._waits(rule.severity) or (rule, subject) in self._down:
                continue
            if name not in known:
                try:
                    await self._open(name, now_ms, messages.firing(rule, subject, facts))
                except StoreError:  # it can be read and not written: its disk is full
                    if await self._send(messages.firing(rule, subject, facts)):
                        self._down[rule, subject] = time.time()
            else:
                seconds = (now_ms - known[name]) / 1000
                await self._remind(name, known, now_ms, messages.still(rule, subject, facts, seconds))
        for name, since_ms in known.items():
            rule_name, _, subject = name.partition(" ")
            if rule_name == REMINDED or name in names:
                continue
            rule = BY_NAME.get(rule_name, RULES[0])
            if seen.watched_seconds >= rule.window_seconds and not self._waits(rule.severity):
                await self._close(name, since_ms, messages.resolved(rule_name, subject, (now_ms - since_ms) / 1000))

    def _waits(self, severity: str) -> bool:
        return severity != "critical" and self._quiet is not None and self._quiet.holds(datetime.now(UTC))

    async def _open(self, name: str, now_ms: int, text: str) -> None:
        if await open_incident(self._store, self._receiver.name, name, now_ms) and not await self._send(text):
            await close_incident(self._store, self._receiver.name, name)

    async def _remind(self, name: str, known: Mapping[str, int], now_ms: int, text: str) -> None:
        """The number of the reminder is part of its name: only one of several tells it."""
        number = int((now_ms - known[name]) / 1000 / self._remind_seconds) if self._remind_seconds else 0
        reminder = f"{REMINDED} {number} {name}"
        if number < 1 or reminder in known:
            return
        if await open_incident(self._store, self._receiver.name, reminder, now_ms):
            if not await self._send(text):
                await close_incident(self._store, self._receiver.name, reminder)
            await close_incident(self._store, self._receiver.name, f"{REMINDED} {number - 1} {name}")

    async def _close(self, name: str, since_ms: int, text: str) -> None:
        if await close_incident(self._store, self._receiver.name, name):
            if not await self._send(text):
                await open_incident(self._store, self._receiver.name, name, since_ms)
                return
            for other in await read_incidents(self._store, self._receiver.name):
                if other.startswith(f"{REMINDED} ") and other.endswith(f" {name}"):
                    await close_incident(self._store, self._receiver.name, other)

    async def _send(self, text: str) -> bool:
        try:
            await anyio.to_thread.run_sync(self._receiver.webhook.post, self._receiver.written(text))
        except (NotDelivered, BadConfiguration) as error:
            log.error("alert_not_sent", receiver=self._receiver.name, error=str(error))
            return False
        log.info("alert_sent", receiver=self._receiver.name, text=text)
        return True


def run(options: argparse.Namespace) -> int:
    configure_logs()
    told = receivers(Environment())
    quiet = QuietHours.read(options.quiet, options.tz) if options.quiet else None
    for receiver in told:
        receiver.webhook.check()
    if options.test:
        return send_test(told)
    anyio.run(watch, options, told, quiet)
    return 0


def send_test(told: list[Receiver]) -> int:
    """One message to each receiver."""
    failed = 0
    for receiver in told:
        kind = receiver.name.partition("-")[0]
        try:
            receiver.webhook.post(receiver.written("This is a test of `tailrace alerts`. All is well."))
        except NotDelivered as error:
            failed += 1
            say(f"{kind}: {error}")
        else:
            say(f"{kind}: the message was taken")
    return min(1, failed)


async def watch(options: argparse.Namespace, told: list[Receiver], quiet: QuietHours | None) -> None:
    shutdown = Shutdown()
    with shutdown.listening():
        async with reach(options) as reached:
            watch = IncidentWatch(Transitions(reached.store), reached.platforms, options.waiting, options.oldest)
            messengers = [Messenger(reached.store, receiver, options.remind, quiet) for receiver in told]
            log.info("alerts_watch", receivers=", ".join(receiver.name for receiver in told), rules=len(RULES))
            while not shutdown.drain.is_set():
                found = await watch.look()
                for messenger in messengers:
                    try:
                        await messenger.settle(found)
                    except StoreError as error:  # it went away in between: the next look says so
                        log.warning("store_away", error=str(error))
                with anyio.move_on_after(EVERY_SECONDS):
                    await shutdown.drain.wait()
