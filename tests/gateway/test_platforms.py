"""Platforms over HTTP: counts that are true, pages that miss nothing, dead letters, pause and resume."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import httpx2
import pytest

from tailrace.gateway.routes.platforms import STATES as PAGED
from tailrace.streams.keys import BANDS
from tailrace.streams.store.connection import Command, Store
from tailrace.streams.views.census import take_census
from tailrace.streams.views.listing import list_jobs, read_places
from tailrace.streams.views.overview import take_overviews
from tests.gateway.lists import gather, get
from tests.support.builders import Desk, untouched
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.problems import JSON, problem_of


async def one_of_each(desk: Desk) -> None:
    """A job in each state; two wait."""
    await desk.complete(await desk.start("done"))
    await desk.submit("kept", keep_seconds=600)
    await desk.complete((await desk.claim())[0])
    await desk.fail(await desk.start("dead"))
    await desk.submit("off")
    await desk.cancel("off")
    await desk.submit("later", delay_seconds=600)
    await desk.fail(await desk.start("again"), attempts=3, seconds=600)
    await desk.start("busy")
    await desk.submit("w1")
    await desk.submit("w2", band="urgent")


async def test_every_declared_platform_is_listed_with_true_counts(
    http: httpx2.AsyncClient, desk: Desk, desk_on: Callable[[str], Desk]
) -> None:
    await one_of_each(desk)
    await desk_on("hwahae").submit("x")
    listed = {each["platform"]: each for each in (await get(http, "/api/platforms"))["data"]}
    assert {"research", "oliveyoung", "default", "extract"} <= set(listed)
    research = listed["research"]
    age = research.pop("oldestWaitingSeconds")
    assert 0 <= age < 60
    assert research == {
        "platform": "research",
        "waiting": 2,
        "running": 1,
        "delayed": 2,
        "awaiting": 0,
        "completed": 2,
        "failed": 1,
        "cancelled": 1,
        "paused": False,
        "pausedBy": None,
        "pausedSince": None,
        "heldSeconds": None,
        "unavailable": None,
        "consumers": [],
    }
    assert (listed["hwahae"]["waiting"], listed["ably"]["waiting"]) == (1, 0)
    assert listed["ably"]["oldestWaitingSeconds"] is None
    alone = (await get(http, "/api/platforms/research"))["data"]
    policy = alone.pop("policy")
    assert (policy["attempts"], policy["max_running_per_process"]) == (3, 10)
    assert {**alone, "oldestWaitingSeconds": age} == {**research, "oldestWaitingSeconds": age}


async def test_counts_and_lists_are_the_same_on_each_kind_of_server(store_url: str) -> None:
    async with Store(store_url) as store:
        desk = Desk(store, "research")
        await one_of_each(desk)
        (overview,) = await take_overviews(store, ["research"])
        assert (overview.waiting, overview.running, overview.delayed) == (2, 1, 2)
        assert (overview.completed, overview.failed, overview.cancelled) == (2, 1, 1)
        for status, keys in STATES.items():
            found: list[str] = []
            page = await list_jobs(store, desk.keys, PAGED[status], 1)
            found += [job.record.key for job in page.jobs]
            while page.next is not None:
                page = await list_jobs(store, desk.keys, PAGED[status], 1, page.next)
                found += [job.record.key for job in page.jobs]
            assert sorted(found) == sorted(keys)
        census = await take_census(store, ["research"])
        assert (len(census.running), census.waiting) == (1, {"research": 2})


async def test_a_retry_that_came_due_waits_since_then_and_not_since_it_was_accepted(
    http: httpx2.AsyncClient, desk: Desk, store: Store
) -> None:
    await desk.submit("old", delay_seconds=0.05)

    async def woken() -> bool:
        return bool(await desk.transitions.wake([(desk.keys, desk.policy)]))

    await eventually("it is due", woken)
    # As if it had been accepted long ago.
    await store.command("HSET", desk.keys.record("old"), "accepted", "1700000000000-0")
    research = (await get(http, "/api/platforms/research"))["data"]
    assert research["waiting"] == 1
    assert 0 <= research["oldestWaitingSeconds"] < 60


async def test_the_oldest_waiting_job_is_found_behind_many_that_rest_or_run(
    http: httpx2.AsyncClient, desk: Desk, store: Store
) -> None:
    await desk.submit(*(f"r{number}" for number in range(30)))
    await desk.claim("ann", 30)
    await desk.submit(*(f"d{number}" for number in range(30)), delay_seconds=600)
    await desk.submit("w")
    await store.command("HSET", desk.keys.record("w"), "accepted", "1700000000000-0")
    research = (await get(http, "/api/platforms/research"))["data"]
    assert (research["waiting"], research["running"], research["delayed"]) == (1, 30, 30)


STATES = {
    "waiting": ["w2", "w1"],
    "active": ["busy"],
    "delayed": ["again", "later"],
    "completed": ["done", "kept"],
    "failed": ["dead"],
    "cancelled": ["off"],
}


@pytest.mark.parametrize(("state", "keys"), STATES.items(), ids=STATES)
async def test_jobs_are_listed_by_state(
    http: httpx2.AsyncClient, desk: Desk, store: Store, state: str, keys: list[str]
) -> None:
    await one_of_each(desk)
    async with untouched(store):
        page = await get(http, f"/api/platforms/research/jobs?state={state}")
    assert sorted(job["jobId"] for job in page["data"]) == sorted(f"research.{key}" for key in keys)
    assert page["next"] is None
    for job in page["data"]:
        assert (job["status"], job["kind"]) == (state, "drill")
        assert (job["endedAt"] is not None) == (state in {"completed", "failed", "cancelled"})
        assert (job["runAt"] is not None) == (state == "delayed")
        assert (job["error"] is not None) == (state == "failed")


async def test_waiting_jobs_are_listed_as_they_stand_in_line(http: httpx2.AsyncClient, desk: Desk) -> None:
    for number in range(70):
        await desk.submit(f"j{number}", band=BANDS[number % 4])
    await desk.claim("ann", 3)
    await desk.submit(*(f"d{number}" for number in range(60)), delay_seconds=600)
    expected = [f"j{number}" for band in range(4) for number in range(band, 70, 4)]
    running = {(await desk.record(key)).state.value == "running" and key for key in expected} - {False}
    listed = await gather(http, "/api/platforms/research/jobs?state=waiting", 7)
    assert listed == [key for key in expected if key not in running]
    assert sorted(await gather(http, "/api/platforms/research/jobs?state=active", 2)) == sorted(map(str, running))
    assert len(await gather(http, "/api/platforms/research/jobs?state=delayed", 11)) == 60


async def test_pages_of_ended_jobs_are_newest_first_and_whole(http: httpx2.AsyncClient, desk: Desk) -> None:
    keys = [f"j{number:02}" for number in range(25)]
    await desk.submit(*keys)
    for number, held in enumerate(await desk.claim("ann", 25)):
        await (desk.complete(held) if number % 2 else desk.fail(held))
    assert await gather(http, "/api/platforms/research/jobs?state=completed", 3) == keys[1::2][::-1]
    failed = await gather(http, "/api/platforms/research/jobs?state=failed", 4)
    assert sorted(failed) == keys[::2]
    assert failed == await gather(http, "/api/platforms/research/dead?", 4)


async def test_pages_stay_right_when_jobs_of_one_moment_are_taken_away(
    http: httpx2.AsyncClient, desk: Desk, store: Store
) -> None:
    keys = [f"j{number:02}" for number in range(12)]
    await desk.submit(*keys)
    for held in await desk.claim("ann", 12):
        await desk.fail(held)
        await store.command("ZADD", desk.keys["ended_failed"], 1700000000000, held.key)
    page = await get(http, "/api/platforms/research/jobs?state=failed&limit=5")
    first = [job["jobId"].partition(".")[2] for job in page["data"]]
    for key in (first[-1], first[0], keys[0]):
        assert await desk.transitions.reopen(desk.keys, key) == "ok"
    path = f"/api/platforms/research/jobs?state=failed&limit=50&after={page['next']}"
    rest = [job["jobId"].partition(".")[2] for job in (await get(http, path))["data"]]
    assert sorted(first + rest) == keys[1:]


async def test_a_completed_job_that_was_forgotten_ends_the_list_behind_it(
    http: httpx2.AsyncClient, desk: Desk, store: Store
) -> None:
    keys = ["a", "b", "c", "d"]
    await desk.submit(*keys)
    for held in await desk.claim("ann", 4):
        await desk.complete(held)
    page = await get(http, "/api/platforms/research/jobs?state=completed&limit=2")
    assert [job["jobId"] for job in page["data"]] == ["research.d", "research.c"]
    await store.command("LTRIM", desk.keys["ended_completed"], 3, -1)
    rest = await get(http, f"/api/platforms/research/jobs?state=completed&limit=2&after={page['next']}")
    assert rest == {"data": [], "next": None}


async def test_pages_of_completed_jobs_go_on_while_others_complete(http: httpx2.AsyncClient, desk: Desk) -> None:
    keys = ["a", "b", "c", "d", "e", "f"]
    await desk.submit(*keys)
    *first, e, f = await desk.claim("ann", 6)
    for held in first:
        await desk.complete(held)
    page = await get(http, "/api/platforms/research/jobs?state=completed&limit=2")
    for held in (e, f):
        await desk.complete(held)
    rest = await get(http, f"/api/platforms/research/jobs?state=completed&limit=2&after={page['next']}")
    assert [job["jobId"] for job in rest["data"]] == ["research.b", "research.a"]


@pytest.mark.parametrize("newest_first", [False, True])
async def test_a_page_reads_no_more_than_itself_however_many_jobs_have_one_moment(
    store: Store, desk: Desk, monkeypatch: pytest.MonkeyPatch, newest_first: bool
) -> None:
    members = [f"j{number:03}" for number in range(100)]
    due = desk.keys["due"]
    await store.command("ZADD", due, *(word for key in members for word in (1700000000000, key)))
    await store.command("ZADD", due, 1600000000000, "early", 1800000000000, "late")
    lengths: list[int] = []
    ask = store.commands

    async def measured(commands: Sequence[Command]) -> list[Any]:
        replies = await ask(commands)
        lengths.extend(len(reply) for reply in replies if isinstance(reply, list))
        return replies

    monkeypatch.setattr(store, "commands", measured)
    read: list[str] = []
    cursor = ""
    while places := await read_places(store, due, 7, cursor, newest_first=newest_first):
        read += [place.member for place in places]
        cursor = places[-1].cursor
        if len(read) % 2:  # the next page begins behind a place that is gone
            await store.command("ZREM", due, read[-1])
    expected = ["early", *members, "late"]
    assert read == (expected[::-1] if newest_first else expected)
    assert max(lengths) <= 2 * 7


WRONG_QUERIES = {
    "jobs": "state",
    "jobs?state=running": "state",
    "jobs?state=": "state",
    "jobs?state=failed&limit=0": "limit",
    "jobs?state=failed&limit=x": "limit",
    "jobs?state=failed&limit=1001": "limit",
    "jobs?state=failed&limit=-1": "limit",
    "jobs?state=failed&after=x": "after",
    "jobs?state=failed&after=nan.a": "after",
    "jobs?state=waiting&after=1-1": "after",
    "jobs?state=waiting&after=normal.": "after",
    "jobs?state=waiting&after=normal.1-x": "after",
    "jobs?state=active&after=a": "after",
    "jobs?state=delayed&after=inf.a": "after",
    "jobs?state=completed&after=x.y": "after",
    "jobs?state=failed&after=" + "1" * 201: "after",
    "dead?kind=a%20b": "kind",
    "dead?error=": "error",
    "dead?limit=many": "limit",
    "dead?after=one": "after",
}


@pytest.mark.parametrize(("query", "field"), WRONG_QUERIES.items(), ids=WRONG_QUERIES)
async def test_a_wrong_query_is_refused_by_the_name_of_its_field(
    http: httpx2.AsyncClient, query: str, field: str
) -> None:
    problem = problem_of(await http.get(f"/api/platforms/research/{query}"), 422, "WRONG_FIELD")
    assert problem["field"] == field
    assert ("is missing" in problem["detail"]) is (query == "jobs")


ROUTES = [
    ("GET", ""),
    ("GET", "/jobs?state=failed"),
    ("GET", "/dead"),
    ("POST", "/replay"),
    ("POST", "/drop"),
    ("POST", "/pause"),
    ("POST", "/resume"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_an_undeclared_platform_is_not_found_and_the_known_ones_are_named(
    http: httpx2.AsyncClient, store: Store, method: str, path: str
) -> None:
    async with untouched(store):
        for name in ("coupang", "Research", "a}b", "%00"):
            answer = await http.request(method, f"/api/platforms/{name}{path}")
            assert "research" in problem_of(answer, 404, "PLATFORM_NOT_FOUND")["detail"]


BAD = {
    "limit 0": (b'{"limit":0}', "limit"),
    "limit too large": (b'{"limit":10001}', "limit"),
    "limit a word": (b'{"limit":"all"}', "limit"),
    "a mistyped filter": (b'{"errors":"ValueError"}', "errors"),
    "kind a number": (b'{"kind":7}', "kind"),
    "kind with a space": (b'{"kind":"a b"}', "kind"),
    "error empty": (b'{"error":""}', "error"),
    "error too long": (b'{"error":"' + b"x" * 201 + b'"}', "error"),
    "by empty": (b'{"by":""}', "by"),
}


@pytest.mark.parametrize(("body", "field"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("act", ["replay", "drop"])
async def test_a_wrong_filter_touches_nothing(
    http: httpx2.AsyncClient, desk: Desk, store: Store, act: str, body: bytes, field: str
) -> None:
    await desk.fail(await desk.start("a"))
    async with untouched(store):
        answer = await http.post(f"/api/platforms/research/{act}", content=body, headers=JSON)
        assert problem_of(answer, 422, "WRONG_FIELD")["field"] == field


async def test_a_paused_platform_starts_nothing_until_it_is_resumed(http: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a")
    paused = await http.post("/api/platforms/research/pause", json={"by": "ann of ops"})
    assert (paused.status_code, paused.json()["paused"], paused.json()["pausedBy"]) == (200, True, "ann of ops")
    again = await http.post("/api/platforms/research/pause", json={"by": "bob"})
    assert again.json() == paused.json(), "the first caller is named"
    assert await desk.claim() == []
    shown = (await get(http, "/api/platforms/research"))["data"]
    assert (shown["paused"], shown["pausedBy"]) == (True, "ann of ops")
    assert shown["pausedSince"] == paused.json()["pausedSince"]
    for _ in range(2):
        resumed = await http.post("/api/platforms/research/resume")
        assert (resumed.status_code, resumed.json()["paused"]) == (200, False)
    assert [held.key for held in await desk.claim()] == ["a"]
    assert (await get(http, "/api/platforms/research"))["data"]["pausedBy"] is None


async def test_a_platform_may_be_paused_by_nobody_in_particular(
    http: httpx2.AsyncClient, desk: Desk, store: Store
) -> None:
    answer = (await http.post("/api/platforms/research/pause")).json()
    assert (answer["paused"], answer["pausedBy"]) == (True, None)
    await store.command("HSET", desk.keys["control"], "paused", "somebody by hand")
    shown = (await get(http, "/api/platforms/research"))["data"]
    assert (shown["paused"], shown["pausedBy"], shown["pausedSince"]) == (True, "somebody by hand", None)


async def test_a_wrong_pause_changes_nothing(http: httpx2.AsyncClient, store: Store) -> None:
    async with untouched(store):
        for body, field in (({"by": ""}, "by"), ({"by": 1}, "by"), ({"until": "noon"}, "until")):
            answer = await http.post("/api/platforms/research/pause", json=body)
            assert problem_of(answer, 422, "WRONG_FIELD")["field"] == field


async def test_a_platform_names_the_consumers_that_live(deployment: Deployment) -> None:
    gateway, consumer = await asyncio.gather(deployment.gateway(), deployment.consumer("research", "kurly"))
    for platform, alive in (("research", [consumer.owner]), ("kurly", [consumer.owner]), ("ably", [])):
        answer = await deployment.http.get(f"{gateway.url}/api/platforms/{platform}")
        assert answer.json()["data"]["consumers"] == alive
