"""Alerts without Prometheus: the rules on the store, and messages that arrive once and nowhere they must not."""

import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from tailrace.ops.monitoring import messages
from tailrace.ops.monitoring.alerts import Messenger, QuietHours, Receiver
from tailrace.ops.monitoring.incidents import Findings, IncidentWatch
from tailrace.ops.monitoring.rules import RULES, Growth, Sight
from tailrace.ops.monitoring.webhook import NotDelivered, Webhook, is_public
from tailrace.ops.up.own_store import OwnStore
from tailrace.streams import Platforms, Policy
from tailrace.streams.errors import BadConfiguration, NoStore, WrongField
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Tally, Transitions
from tailrace.streams.views.health import Health, PlatformHealth, StoreHealth
from tailrace.streams.views.overview import unused
from tailrace.streams.views.presence import ConsumerPresence
from tests.support.builders import Desk
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.https_stand_in import StandIn
from tests.support.ports import free_port

CHECKOUT = Path(__file__).parents[2]
BY_NAME = {rule.name.removeprefix("Tailrace"): rule for rule in RULES}

KURLY = PlatformHealth(unused("kurly"), Tally(0, 0, 0, 0), None)
SERVER = StoreHealth(1_000_000, 0.001, 10, 0, evicts=False, keeps_file=True, failing=())
DEAD = ConsumerPresence("kurly.vm.x", ("kurly",), 7, 11.0, 30.0, 10.0)


def well(**server: object) -> Sight:
    return Sight(Health(replace(SERVER, **server), [KURLY]))


def with_overview(**values: object) -> Sight:
    return Sight(Health(SERVER, [replace(KURLY, overview=replace(KURLY.overview, **values))]))


WRONG = {
    "QueueLong": with_overview(waiting=1001),
    "OldestOld": with_overview(waiting=1, oldest_waiting_seconds=601.0),
    "WorkerDead": replace(well(), consumers=(DEAD,)),
    "PlatformUnserved": with_overview(delayed=1),
    "FailuresGrow": replace(well(), grown=lambda platform, seconds: Growth(completed=10, failed=5)),
    "WritesRefused": replace(well(), refused=1),
    "CrashLoop": replace(well(), grown=lambda platform, seconds: Growth(lost=3)),
    "StoreDown": Sight(None),
    "StoreEvicts": well(evicts=True),
    "StoreWriteFails": well(failing=("aof_last_write_status",)),
    "StoreFull": well(memory_bytes=81, memory_limit_bytes=100),
    "ScheduleLate": Sight(Health(SERVER, [replace(KURLY, next_tick_ms=1_000_000 - 61_000)])),
}


def test_every_rule_is_asked() -> None:
    assert WRONG.keys() == BY_NAME.keys()
    assert [name for name, rule in BY_NAME.items() if list(rule.find(well()))] == []


@pytest.mark.parametrize("name", WRONG)
def test_a_rule_finds_what_is_wrong(name: str) -> None:
    ((subject, facts),) = BY_NAME[name].find(WRONG[name])
    assert subject == ("store" if name.startswith("Store") or name == "WritesRefused" else "kurly")
    assert facts


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[StandIn]:
    with StandIn(tmp_path).listening() as stand_in:
        yield stand_in


def receiver(stand_in: StandIn, path: str = "/slack") -> Receiver:
    webhook = Webhook("TAILRACE_SLACK_URL", stand_in.url + path, allow_private=True, ca_file=stand_in.ca_file)
    return Receiver("slack-1", webhook, messages.slack)


def finding(*names: str, watched_seconds: float = 3600.0) -> Findings:
    found = {(BY_NAME[name], "kurly"): "1 of its workers beat no more" for name in names}
    return Findings(frozenset(found), found, watched_seconds)


async def test_two_watchers_tell_of_an_incident_once_and_of_its_end_once(stand_in: StandIn, valkey_url: str) -> None:
    async with Store(valkey_url) as one, Store(valkey_url) as other:
        watchers = [Messenger(store, receiver(stand_in), 3600) for store in (one, other)]
        for _ in range(2):
            async with anyio.create_task_group() as tasks:
                for watcher in watchers:
                    tasks.start_soon(watcher.settle, finding("WorkerDead"))
        (text,) = stand_in.texts("/slack")
        assert text == (
            "FIRING (critical) WorkerDead: kurly: 1 of its workers beat no more. "
            "A worker is dead: it did not say goodbye and beats no more. See ops/runbook.md#workerdead"
        )
        for _ in range(2):
            async with anyio.create_task_group() as tasks:
                for watcher in watchers:
                    tasks.start_soon(watcher.settle, finding())
        assert [said.partition(" ")[0] for said in stand_in.texts("/slack")] == ["FIRING", "RESOLVED"]
        assert await one.command("DBSIZE") == 0


async def test_a_message_that_does_not_arrive_is_sent_at_the_next_look(stand_in: StandIn, valkey_url: str) -> None:
    async with Store(valkey_url) as store:
        messenger = Messenger(store, receiver(stand_in), 3600)
        stand_in.refusing["/slack"] = 500
        await messenger.settle(finding("WorkerDead"))
        del stand_in.refusing["/slack"]
        await messenger.settle(finding("WorkerDead"))
        stand_in.refusing["/slack"] = 500
        await messenger.settle(finding())
        del stand_in.refusing["/slack"]
        await messenger.settle(finding())
        assert [said.partition(" ")[0] for said in stand_in.texts("/slack")] == ["FIRING", "RESOLVED"]


async def test_an_incident_is_told_once_while_the_store_can_be_read_and_not_written(
    stand_in: StandIn, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object) -> bool:
        raise NoStore("the store does not serve now: MISCONF Errors writing to the AOF file: No space left on device")

    async with Store(valkey_url) as store:
        messenger = Messenger(store, receiver(stand_in), 3600)
        with monkeypatch.context() as full:
            full.setattr("tailrace.ops.monitoring.alerts.open_incident", refused)
            for _ in range(3):
                await messenger.settle(finding("StoreWriteFails"))
        await messenger.settle(finding("StoreWriteFails"))
        for _ in range(2):
            await messenger.settle(finding())
        assert [said.partition(" ")[0] for said in stand_in.texts("/slack")] == ["FIRING", "RESOLVED"]
        assert await store.command("DBSIZE") == 0


async def test_what_lasts_is_told_again(stand_in: StandIn, valkey_url: str) -> None:
    async with Store(valkey_url) as store:
        messenger = Messenger(store, receiver(stand_in), 0.2)
        await messenger.settle(finding("WorkerDead"))
        for _ in range(3):
            await anyio.sleep(0.2)
            for _ in range(2):
                await messenger.settle(finding("WorkerDead"))
        await messenger.settle(finding())
        said = [text.split(" ")[0] for text in stand_in.texts("/slack")]
        assert (said[0], set(said[1:-1]), said[-1]) == ("FIRING", {"STILL"}, "RESOLVED")
        assert 2 <= len(said[1:-1]) <= 4
        assert await store.command("DBSIZE") == 0


async def test_after_a_restart_an_incident_is_not_over_before_its_rule_could_look_back(
    stand_in: StandIn, valkey_url: str
) -> None:
    async with Store(valkey_url) as store:
        await Messenger(store, receiver(stand_in), 3600).settle(finding("CrashLoop"))
        restarted = Messenger(store, receiver(stand_in), 3600)
        await restarted.settle(finding(watched_seconds=5))
        assert len(stand_in.texts("/slack")) == 1
        await restarted.settle(finding(watched_seconds=15 * 60))
        assert len(stand_in.texts("/slack")) == 2


async def test_warnings_wait_in_quiet_hours_and_critical_alerts_do_not(stand_in: StandIn, valkey_url: str) -> None:
    always = QuietHours.read("00:00-23:59:59", "UTC")
    async with Store(valkey_url) as store:
        messenger = Messenger(store, receiver(stand_in), 3600, always)
        await messenger.settle(finding("QueueLong", "WorkerDead"))
        assert ["WorkerDead" in text for text in stand_in.texts("/slack")] == [True]
        await Messenger(store, receiver(stand_in), 3600).settle(finding("QueueLong", "WorkerDead"))
        assert len(stand_in.texts("/slack")) == 2


def test_quiet_hours_may_go_over_midnight() -> None:
    night = QuietHours.read("22:00-07:00", "Europe/Berlin")
    held = {hour: night.holds(datetime(2026, 1, 1, hour, tzinfo=UTC)) for hour in (20, 21, 5, 6)}
    assert held == {20: False, 21: True, 5: True, 6: False}
    for text, zone, field in (("22-7-1", "UTC", "--quiet"), ("22:00-07:00", "Mars/Base", "--tz")):
        with pytest.raises(WrongField, match=field):
            QuietHours.read(text, zone)


def test_nobody_is_mentioned() -> None:
    text = "@everyone <!channel> <@U123> & @here"
    assert messages.slack(text).decode() == (
        '{"text":"@\u200beveryone &lt;!channel&gt; &lt;@\u200bU123&gt; &amp; @\u200bhere",'
        '"link_names":false,"unfurl_links":false}'
    )
    assert b'"allowed_mentions":{"parse":[]}' in messages.discord(text)
    assert b"@everyone" not in messages.discord(text)


def test_a_redirect_is_refused_and_not_followed(stand_in: StandIn) -> None:
    stand_in.refusing["/slack"] = 307
    with pytest.raises(NotDelivered, match="localhost answers 307: redirects are not followed") as refused:
        receiver(stand_in).webhook.post(b"{}")
    assert stand_in.posted == {}
    assert "/slack" not in str(refused.value)


def test_a_certificate_that_nobody_vouches_for_is_refused(stand_in: StandIn) -> None:
    with pytest.raises(NotDelivered, match="CERTIFICATE_VERIFY_FAILED"):
        Webhook("TAILRACE_SLACK_URL", stand_in.url, allow_private=True).post(b"{}")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://hooks.example.org/secret-path", "https://"),
        ("https:///secret-path", "https://"),
        ("https://user:secret-path@hooks.example.org/", "https://"),
        ("https://127.0.0.1/secret-path", "not a public address"),
        ("https://localhost/secret-path", "not a public address"),
        ("https://169.254.169.254/secret-path", "not a public address"),
        ("https://[::ffff:10.0.0.1]/secret-path", "not a public address"),
        ("https://10.0.0.7/secret-path", "not a public address"),
        ("https://hooks.example.org:x/secret-path", "valid URL"),
    ],
)
def test_an_address_that_must_not_be_asked_is_refused_without_telling_it(url: str, why: str) -> None:
    with pytest.raises(BadConfiguration, match=why) as refused:
        Webhook("TAILRACE_SLACK_URL", url).check()
    assert "TAILRACE_SLACK_URL" in str(refused.value)
    assert "secret-path" not in str(refused.value)


def test_public_addresses_are_told_from_others() -> None:
    assert all(map(is_public, ("1.1.1.1", "2606:4700::1111")))
    assert not any(
        map(is_public, ("0.0.0.0", "192.168.1.1", "100.64.0.1", "224.0.0.1", "fe80::1%eth0", "::1", "fd00::1"))
    )


async def test_failures_are_counted_from_look_to_look(valkey_url: str) -> None:
    now = 0.0
    async with Store(valkey_url) as store:
        desk = Desk(store, "research")
        platforms = Platforms({"research": Policy()})
        watch = IncidentWatch(Transitions(store), platforms, waiting=3, clock=lambda: now)
        await desk.submit(*(f"job-{n}" for n in range(10)))
        await watch.look()
        for held in await desk.claim("ann", 5):
            await desk.fail(held)
        await desk.beat("ann")
        now = 60.0
        seen = await watch.look()
        assert {rule.name for rule, _ in seen.ripe} == {"TailraceFailuresGrow"}
        assert "TailraceQueueLong" in {rule.name for rule, _ in seen.all}
        now = 400.0
        assert "TailraceQueueLong" in {rule.name for rule, _ in (await watch.look()).ripe}
        now = 700.0
        assert "TailraceFailuresGrow" not in {rule.name for rule, _ in (await watch.look()).ripe}


PATHS = ("/slack/secret-path", "/discord/secret-path")


def settings_for(stand_in: StandIn, folder: Path) -> dict[str, str]:
    (folder / "discord").write_text(f"{stand_in.url}{PATHS[1]}\n")
    return {
        "TAILRACE_SLACK_URL": stand_in.url + PATHS[0],
        "TAILRACE_DISCORD_URL_FILE": str(folder / "discord"),
        "TAILRACE_ALERTS_CA_FILE": str(stand_in.ca_file),
        "TAILRACE_ALERTS_ALLOW_PRIVATE": "on",
    }


def start(folder: Path, url: str, *flags: str, **variables: str) -> subprocess.Popen[bytes]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("REDIS_", "TAILRACE_"))}
    with (folder / "alerts.log").open("ab") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "ops", "alerts", *flags],
            cwd=CHECKOUT,
            env={**inherited, "REDIS_URL": url, **variables},
            stdout=said,
            stderr=said,
        )


def test_the_command_refuses_a_private_address_and_needs_a_receiver(tmp_path: Path, valkey_url: str) -> None:
    for variables, said in (
        ({"TAILRACE_SLACK_URL": "https://127.0.0.1:1/T0/secret-path"}, "not a public address"),
        ({}, "set TAILRACE_SLACK_URL or TAILRACE_DISCORD_URL"),
    ):
        assert start(tmp_path, valkey_url, **variables).wait(20) == 78
        assert said in (tmp_path / "alerts.log").read_text()
    assert "secret-path" not in (tmp_path / "alerts.log").read_text()


def test_the_command_sends_a_test_message(stand_in: StandIn, tmp_path: Path) -> None:
    settings = settings_for(stand_in, tmp_path)
    assert start(tmp_path, "redis://127.0.0.1:1", "--test", **settings).wait(20) == 0  # no store is needed
    assert [len(stand_in.texts(path)) for path in PATHS] == [1, 1]
    stand_in.refusing[PATHS[0]] = 404
    assert start(tmp_path, "redis://127.0.0.1:1", "--test", **settings).wait(20) == 1
    assert "secret-path" not in (tmp_path / "alerts.log").read_text()


@pytest.mark.chaos
@pytest.mark.timeout(180)
async def test_a_dead_worker_is_told_of_and_its_successor_resolves_it(
    deployment: Deployment, stand_in: StandIn, tmp_path: Path
) -> None:
    async def said(count: int) -> bool:
        return len(stand_in.texts(PATHS[0])) == count

    worker = await deployment.consumer("research")
    watcher = start(tmp_path, deployment.url, **settings_for(stand_in, tmp_path))
    try:
        await eventually("it watches", watching(tmp_path, 1))
        worker.kill_group()
        await eventually("an alert about the dead worker", lambda: said(1), seconds=40)
        await deployment.consumer("research")
        await eventually("it is over", lambda: said(2), seconds=90)  # a minute after the watcher began
    finally:
        watcher.kill()
        watcher.wait()
    firing, resolved = stand_in.texts(PATHS[0])
    assert firing.startswith("FIRING (critical) WorkerDead: research: 1 of its workers beat no more: ")
    assert resolved.startswith("RESOLVED WorkerDead: research: after ")


async def test_the_command_tells_both_receivers_once_through_a_kill(stand_in: StandIn, tmp_path: Path) -> None:
    settings, paths = settings_for(stand_in, tmp_path), PATHS

    async def told(count: int) -> None:
        async def look() -> bool:
            return all(len(stand_in.texts(path)) == count for path in paths)

        await eventually(f"each receiver got {count} messages", look)

    with OwnStore(tmp_path / "store", port=free_port()) as server:
        async with Store(server.url) as store:
            await store.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
            first = start(tmp_path, server.url, **settings)
            try:
                await told(1)
            finally:
                first.kill()
                first.wait()
            second = start(tmp_path, server.url, **settings)
            try:
                await eventually("the second one watches", watching(tmp_path, 2))
                await store.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
                await told(2)
            finally:
                second.send_signal(signal.SIGTERM)
                assert second.wait(20) == 0
    for path in paths:
        firing, resolved = stand_in.texts(path)
        assert firing.startswith("FIRING (critical) StoreEvicts: its maxmemory-policy is not noeviction.")
        assert resolved.startswith("RESOLVED StoreEvicts: after")
    assert "secret-path" not in (tmp_path / "alerts.log").read_text()


def watching(folder: Path, count: int) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return (folder / "alerts.log").read_text().count("alerts_watch") == count

    return look
