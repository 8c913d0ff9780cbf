"""Failed jobs over HTTP: grouped and counted by the store, found by kind and error, replayed and dropped."""

import httpx2

from tailrace.streams.store.connection import Store
from tests.gateway.lists import gather, get
from tests.support.builders import Desk
from tests.support.problems import problem_of


async def fail_some(desk: Desk) -> None:
    for number in range(6):
        held = await desk.start(f"v{number}")
        await desk.fail(held, f"bad value {number}")
    for number in range(3):
        await desk.submit(f"e{number}", expires_at="2020-01-01T00:00:00Z")
    await desk.transitions.wake([(desk.keys, desk.policy)])


async def test_dead_letters_are_found_by_kind_and_error(http: httpx2.AsyncClient, desk: Desk) -> None:
    await fail_some(desk)
    (job,) = (await get(http, "/api/platforms/research/dead?error=ValueError&limit=1"))["data"]
    assert job["jobId"] == "research.v5"
    assert job["error"] == {"type": "ValueError", "message": "bad value 5"}
    assert (job["failures"], job["endedAt"] is not None) == (1, True)
    assert len(await gather(http, "/api/platforms/research/dead?error=Expired", 1)) == 3
    assert len(await gather(http, "/api/platforms/research/dead?kind=drill", 2)) == 9
    for nothing in ("kind=scan", "error=Value", "kind=scan&error=Expired"):
        assert await get(http, f"/api/platforms/research/dead?{nothing}") == {"data": [], "next": None}


async def test_failed_jobs_are_grouped_and_counted_by_the_store(
    http: httpx2.AsyncClient, desk: Desk, store: Store
) -> None:
    await fail_some(desk)
    await Desk(store, "kurly").fail(await Desk(store, "kurly").start("k"), "worse")
    data = (await get(http, "/api/dead"))["data"]
    assert [(each["platform"], each["error"], each["count"]) for each in data] == [
        ("kurly", "ValueError", 1),
        ("research", "Expired", 3),
        ("research", "ValueError", 6),
    ]
    assert data[2]["newest"]["jobId"] == "research.v5"
    assert data[2]["newest"]["error"] == {"type": "ValueError", "message": "bad value 5"}
    assert (await get(http, "/api/dead?platform=kurly"))["data"] == data[:1]
    assert (await get(http, "/api/dead?platform=ably"))["data"] == []
    problem_of(await http.get("/api/dead?platform=coupang"), 422, "WRONG_FIELD")
    # One that failed before the store counted types is in no group but the last.
    await store.command("ZADD", desk.keys["ended_failed"], 1, "earlier")
    rest = (await get(http, "/api/dead?platform=research"))["data"][-1]
    assert rest == {"platform": "research", "error": None, "count": 1, "newest": None}


async def test_more_failed_jobs_than_a_page_holds_are_all_in_their_group(http: httpx2.AsyncClient, desk: Desk) -> None:
    """And a list by error reads that error alone, however many others failed after it."""
    await desk.fail(await desk.start("first"))
    await desk.store.command("ZREM", desk.keys["ended_errors"], *await members_of(desk))
    await desk.fail(await desk.start("rare"), "one of a kind")
    await desk.submit(*(f"e{number}" for number in range(2500)), expires_at="2020-01-01T00:00:00Z")
    while await desk.transitions.wake([(desk.keys, desk.policy)]):  # twenty at a time
        pass
    groups = (await get(http, "/api/dead?platform=research"))["data"]
    assert {each["error"]: each["count"] for each in groups} == {"Expired": 2500, "ValueError": 1, None: 1}
    page = await get(http, "/api/platforms/research/dead?error=ValueError&limit=10")
    assert ([job["jobId"] for job in page["data"]], page["next"]) == (["research.rare"], None)


async def members_of(desk: Desk) -> list[bytes]:
    members: list[bytes] = await desk.store.command("ZRANGE", desk.keys["ended_errors"], 0, -1)
    return members


async def test_a_replay_of_all_ends_also_when_every_job_fails_again(http: httpx2.AsyncClient, desk: Desk) -> None:
    """Jobs that ended after `ended_by` are not meant, so repeating the request comes to an end."""
    await fail_some(desk)
    newest = (await get(http, "/api/dead"))["data"][-1]["newest"]
    body = {"error": "ValueError", "ended_by": newest["endedAt"], "limit": 4}
    await http.post("/api/platforms/ably/replay", json=body)
    for replayed, left in ((4, 2), (2, 0), (0, 0)):
        answer = await http.post("/api/platforms/research/replay", json=body)
        assert answer.json() == {"replayed": replayed, "left": left}
        for held in await desk.claim("ann", 9):
            await desk.fail(held, "again")
    wrong = await http.post("/api/platforms/research/replay", json={**body, "ended_by": "now"})
    assert problem_of(wrong, 422, "WRONG_FIELD")["field"] == "ended_by"


async def test_what_matches_is_replayed_in_order_and_the_rest_is_counted(
    http: httpx2.AsyncClient, desk: Desk, store: Store
) -> None:
    await fail_some(desk)
    path = "/api/platforms/research/replay"
    answer = await http.post(path, json={"error": "ValueError", "limit": 4, "by": "ann"})
    assert (answer.status_code, answer.json()) == (200, {"replayed": 4, "left": 2})
    assert [held.key for held in await desk.claim("ann", 9)] == ["v0", "v1", "v2", "v3"]
    assert (await desk.history("v0"))[-2].by == "ann"
    assert (await http.post(path, json={"kind": "scan"})).json() == {"replayed": 0, "left": 0}
    assert (await http.post(path, json={"limit": 2})).json() == {"replayed": 2, "left": 3}
    assert (await http.post(path)).json() == {"replayed": 3, "left": 0}
    assert (await http.post(path)).json() == {"replayed": 0, "left": 0}
    assert await store.command("ZCARD", desk.keys["ended_failed"]) == 0


async def test_what_matches_is_dropped(http: httpx2.AsyncClient, desk: Desk) -> None:
    await fail_some(desk)
    path = "/api/platforms/research/drop"
    assert (await http.post(path, json={"error": "Expired", "limit": 2})).json() == {"dropped": 2, "left": 1}
    assert (await http.post(path, json={"error": "Expired"})).json() == {"dropped": 1, "left": 0}
    problem_of(await http.get("/api/jobs/research.e0"), 404, "JOB_NOT_FOUND")
    assert len(await gather(http, "/api/platforms/research/dead?", 100)) == 6


async def test_a_thousand_dead_letters_are_replayed_in_one_call(http: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit(*(f"j{number}" for number in range(1200)))
    held = await desk.claim("ann", 1200)
    await desk.transitions.commit(desk.keys, [desk.failing(each) for each in held])
    assert (await http.post("/api/platforms/research/replay")).json() == {"replayed": 1000, "left": 200}
    answer = await http.post("/api/platforms/research/replay", json={"kind": "drill"})
    assert answer.json() == {"replayed": 200, "left": 0}
    assert (await get(http, "/api/platforms/research"))["data"]["waiting"] == 1200


async def test_a_corrupt_dead_letter_holds_up_no_other(http: httpx2.AsyncClient, desk: Desk, store: Store) -> None:
    await fail_some(desk)
    await store.command("HSET", desk.keys.record("v1"), "state", "dancing")
    await store.command("DEL", desk.keys.record("v2"))
    await store.command("RPUSH", desk.keys.log("v3"), "rubbish")
    page = await get(http, "/api/platforms/research/dead")
    assert len(page["data"]) == 7
    assert (await http.post("/api/platforms/research/replay")).json()["replayed"] == 7
