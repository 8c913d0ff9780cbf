"""Workers over HTTP: who lives is what this gateway has seen itself, and a restart is asked for, not forced."""

import asyncio
import socket
from datetime import datetime
from typing import Any, NoReturn

import httpx2
import pytest

from tailrace.consumers.heart.introduction import version
from tailrace.gateway.routes.workers import described
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import About, RefusedWrites, encode
from tailrace.streams.store.connection import Store
from tailrace.streams.views.presence import Presence
from tests.support.builders import Desk, untouched
from tests.support.clock import Clock
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.problems import JSON, problem_of


async def workers(http: httpx2.AsyncClient, url: str = "") -> dict[str, dict[str, Any]]:
    answer = await http.get(f"{url}/api/v2/workers/status")
    assert (answer.status_code, answer.json()["success"]) == (200, True)
    return {worker["worker_id"]: worker for worker in answer.json()["data"]["workers"]}


async def test_nobody_serves_an_empty_store(http: httpx2.AsyncClient, store: Store) -> None:
    async with untouched(store):
        answer = (await http.get("/api/v2/workers/status")).json()
    assert answer == {"success": True, "data": {"workers": [], "summary": {"alive_count": 0, "silent_count": 0}}}


async def test_every_consumer_is_named_with_its_platforms_beat_and_jobs(deployment: Deployment) -> None:
    slow = deployment.consumer("research", "kurly", TAILRACE_DEADLINE_SECONDS="12")
    gateway, consumer = await asyncio.gather(deployment.gateway(), slow)
    job = await deployment.submit("kurly", steps=100, seconds=1)
    await deployment.started(job)
    worker = (await workers(deployment.http, gateway.url))[consumer.owner]
    assert (worker["platforms"], worker["jobs"], worker["alive"]) == (["kurly", "research"], [job], True)
    assert 0 <= worker["last_change_seconds"] < 10
    assert worker["deadline_seconds"] == 12
    assert worker["beats"] > 0
    assert (worker["host"], worker["pid"], worker["version"]) == (socket.gethostname(), consumer.pid, version())
    assert worker["memory_bytes"] > 10_000_000
    assert worker["refused"] == []
    assert datetime.fromisoformat(worker["started_at"]).tzinfo


async def test_what_consumers_tell_is_taken_only_as_they_tell_it(store: Store) -> None:
    """Jobs on other platforms are not shown, and entries of other programs are passed over."""
    desk = Desk(store, "research")
    mine = {"host": "vm", "refused": [{"job_id": each, "attempt": 1, "writes": 2} for each in ("research.a", "ably.b")]}
    await desk.transitions.beat([(desk.keys, [])], "ann", encode({**mine, "new": "of a later version"}))
    for owner, raw in (("bob", b"not JSON"), ("cid", b'{"pid":"seven"}'), ("dot", b"[]"), (b"\xff", b"{}")):
        await store.command("HSET", desk.keys["consumers"], owner, raw)
    told = await Presence(desk.transitions, ["research", "kurly"]).told()
    assert told == {"ann": About(host="vm", refused=(RefusedWrites("research.a", 1, 2),))}


async def test_a_frozen_consumer_is_not_alive_once_it_was_seen_silent(store: Store) -> None:
    """Compared are two looks: a counter that stands still says nothing at first, then that its owner is silent."""
    desk = Desk(store, "research")
    await desk.beat("ann")
    clock = Clock()
    presence = Presence(desk.transitions, ["research", "kurly"], patience_seconds=0.2, clock=clock)
    (seen,) = await presence.see()
    assert (seen.alive, seen.changed_seconds, seen.platforms) == (None, None, ("research",))
    await desk.beat("ann")
    (seen,) = await presence.see()
    assert (seen.alive, seen.beats) == (True, 2)
    await desk.beat("bob")
    assert [(each.owner, each.alive) for each in await presence.see()] == [("ann", True), ("bob", True)]
    for _ in range(2):
        clock.ahead += 6
        await desk.beat("bob")
        seen, other = await presence.see()
    assert (seen.alive, other.alive) == (False, True)
    assert (described(seen).last_change_seconds or 0) > 10
    clock.ahead += 60  # no one asked for a minute
    assert [each.alive for each in await presence.see()] == [None, None], "what was seen before says nothing of now"


async def test_an_idle_consumer_is_silent_after_its_own_deadline(store: Store) -> None:
    desk = Desk(store, "research")
    abouts = {
        "ann": {"deadline_seconds": 1.5},
        "bob": {"deadline_seconds": 60},
        "cid": {},
        "dot": {"deadline_seconds": 0},
    }
    clock = Clock()
    presence = Presence(desk.transitions, ["research", "kurly"], patience_seconds=0.1, clock=clock)
    for _ in range(2):
        for owner, about in abouts.items():
            await desk.transitions.beat([(desk.keys, [])], owner, encode(about))
        seen = await presence.see()
    assert {each.owner: each.deadline_seconds for each in seen} == {"ann": 1.5, "bob": 60.0, "cid": 10.0, "dot": 10.0}
    clock.ahead += 2
    assert [each.alive for each in await presence.see()] == [False, True, True, True]


async def test_a_look_that_keeps_us_waiting_makes_no_one_silent(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    desk, clock, asked = Desk(store, "research"), Clock(), asyncio.Event()
    presence = Presence(desk.transitions, ["research"], patience_seconds=0.1, clock=clock)
    for _ in range(2):
        await desk.transitions.beat([(desk.keys, [])], "ann", encode({"deadline_seconds": 1.5}))
        await presence.see()

    async def hang(_: object) -> NoReturn:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(desk.transitions, "observe", hang)
    looking = asyncio.create_task(presence.see())
    await asked.wait()
    clock.ahead += 2
    assert [each.alive for each in await presence.glance() or ()] == [True]
    looking.cancel()


async def test_what_consumers_tell_may_be_corrupt_and_they_live_all_the_same(store: Store) -> None:
    desk = Desk(store, "research")
    await desk.beat("ann")
    await store.command("SET", desk.keys["consumers"], "not a hash")
    presence = Presence(desk.transitions, ["research", "kurly"], patience_seconds=0.1)
    assert [(each.owner, each.deadline_seconds) for each in await presence.see()] == [("ann", 10.0)]
    assert await presence.told() == {}


async def test_an_owner_that_holds_a_job_and_never_beat_is_named(store: Store) -> None:
    desk = Desk(store, "research")
    await desk.start("a", "ghost")
    presence = Presence(desk.transitions, ["research"], patience_seconds=0.1)
    (seen,) = await presence.see()
    assert (seen.owner, seen.alive, seen.beats) == ("ghost", None, 0)
    assert await presence.jobs() == {"ghost": ["research.a"]}


async def test_a_restart_drains_the_consumers_of_a_platform(deployment: Deployment) -> None:
    gateway, consumer, other = await asyncio.gather(
        deployment.gateway(), deployment.consumer("research"), deployment.consumer("kurly")
    )
    job = await deployment.submit("research", steps=2, seconds=0.3)
    await deployment.started(job)
    answer = await deployment.http.post(f"{gateway.url}/api/v2/workers/research/restart")
    assert answer.status_code == 202
    data = {"platform": "research", "status": "restarting", "workers": [consumer.owner]}
    assert answer.json() == {"success": True, "data": data}
    assert answer.headers["location"] == "/api/v2/workers/status"
    assert await consumer.ended() == 75
    assert (await deployment.ended(job))[-1].status == "completed"
    assert other.alive

    async def gone() -> bool:
        return consumer.owner not in await workers(deployment.http, gateway.url)

    await eventually("it has said goodbye", gone)


async def test_a_restart_that_is_asked_for_twice_under_one_key_counts_once(
    http: httpx2.AsyncClient, store: Store
) -> None:
    async def asked(**headers: str) -> int:
        answer = await http.post("/api/v2/workers/research/restart", headers=headers)
        assert answer.status_code == 202
        return int(await store.command("HGET", PlatformKeys("research")["control"], "restarts"))

    assert [await asked(**{"Idempotency-Key": "a"}) for _ in range(2)] == [1, 1]
    assert [await asked(**{"Idempotency-Key": "b"}), await asked(), await asked()] == [2, 3, 4]


async def test_a_wrong_restart_changes_nothing(http: httpx2.AsyncClient, store: Store) -> None:
    async with untouched(store):
        assert (
            "research"
            in problem_of(await http.post("/api/v2/workers/coupang/restart"), 404, "PLATFORM_NOT_FOUND")["detail"]
        )
        answer = await http.post("/api/v2/workers/research/restart", content=b'{"now":true}', headers=JSON)
        assert problem_of(answer, 422, "WRONG_FIELD")["field"] == "now"
        problem_of(await http.get("/api/v2/workers/research/restart"), 405, "METHOD_NOT_ALLOWED")
