"""Schedules over HTTP: kept, shown, paused, resumed, removed, and refused by the name of the field."""

from typing import Any

import httpx2
import pytest

from tailrace.streams.store.connection import Store
from tests.support.builders import untouched
from tests.support.problems import problem_of

HOURLY = {"name": "hourly", "kind": "drill", "args": {"steps": 1}, "every_seconds": 3600}
PATH = "/api/platforms/research/schedules"


async def test_a_schedule_is_kept_and_shown(http: httpx2.AsyncClient) -> None:
    answer = await http.post(PATH, json={**HOURLY, "options": {"priority": "high"}, "missed": "once"})
    assert answer.status_code == 200
    assert answer.headers["location"] == f"{PATH}/hourly"
    shown = answer.json()["data"]
    assert shown == {
        "name": "hourly",
        "platform": "research",
        "kind": "drill",
        "args": {"steps": 1},
        "options": {"priority": "high"},
        "cron": None,
        "every_seconds": 3600,
        "tz": "UTC",
        "missed": "once",
        "paused": False,
        "nextTick": shown["nextTick"],
    }
    assert shown["nextTick"].endswith(":00:00.000Z")
    assert (await http.get(f"{PATH}/hourly")).json() == {"data": shown}
    assert (await http.get(PATH)).json() == {"data": [shown]}
    assert (await http.get("/api/platforms/kurly/schedules")).json() == {"data": []}


async def test_the_name_may_stand_in_the_path(http: httpx2.AsyncClient, store: Store) -> None:
    body = {"kind": "drill", "cron": "0 9 * * MON-FRI", "tz": "Asia/Seoul"}
    answer = await http.post(f"{PATH}/workdays", json=body)
    assert answer.json()["data"]["name"] == "workdays"
    assert answer.json()["data"]["nextTick"].endswith("T00:00:00.000Z")
    async with untouched(store):
        assert (await http.post(f"{PATH}/workdays", json={**body, "name": "workdays"})).json() == answer.json()
        problem = problem_of(await http.post(f"{PATH}/workdays", json={**body, "name": "other"}), 422, "WRONG_FIELD")
    assert problem["field"] == "name"


async def test_a_schedule_is_paused_resumed_and_removed(http: httpx2.AsyncClient, store: Store) -> None:
    await http.post(PATH, json=HOURLY)
    paused = (await http.post(f"{PATH}/hourly/pause")).json()["data"]
    assert (paused["paused"], paused["nextTick"]) == (True, None)
    resumed = (await http.post(f"{PATH}/hourly/resume")).json()["data"]
    assert (resumed["paused"], resumed["nextTick"] is None) == (False, False)
    answer = await http.delete(f"{PATH}/hourly")
    assert (answer.status_code, answer.content) == (204, b"")
    assert await store.command("KEYS", "*") == [b"tr:{research}:audit"]


async def test_an_unknown_schedule_is_not_found(http: httpx2.AsyncClient) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/resume")):
        answer = await http.request(method, f"{PATH}/nothing{path}")
        problem_of(answer, 404, "SCHEDULE_NOT_FOUND")


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"every_seconds": None}, "cron"),
        ({"cron": "* * * * *"}, "cron"),
        ({"every_seconds": None, "cron": "every day"}, "cron"),
        ({"every_seconds": None, "cron": "0 0 30 2 *"}, "cron"),
        ({"every_seconds": None, "cron": "* * * * *", "tz": "Mars"}, "tz"),
        ({"every_seconds": 0}, "every_seconds"),
        ({"every_seconds": -5}, "every_seconds"),
        ({"every_seconds": "often"}, "every_seconds"),
        ({"name": None}, "name"),
        ({"name": "a b"}, "name"),
        ({"name": "x" * 49}, "name"),
        ({"kind": None}, "kind"),
        ({"kind": "no spaces"}, "kind"),
        ({"args": {"steps": -1}}, "args.steps"),
        ({"kind": "own", "args": [1]}, "args"),
        ({"options": {"attempts": 0}}, "options.attempts"),
        ({"options": {"prio": 1}}, "options.prio"),
        ({"options": {"run_at": "2030-01-01T00:00:00Z"}}, "options.run_at"),
        ({"missed": "some"}, "missed"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
async def test_a_wrong_schedule_names_its_field_and_makes_no_key(
    http: httpx2.AsyncClient, store: Store, said: dict[str, Any], field: str
) -> None:
    answer = await http.post(PATH, json={**HOURLY, **said})
    assert problem_of(answer, 422, "WRONG_FIELD")["field"] == field
    assert await store.command("DBSIZE") == 0


async def test_an_unknown_platform_is_refused_by_name(http: httpx2.AsyncClient) -> None:
    for answer in (
        await http.post("/api/platforms/amazon/schedules", json=HOURLY),
        await http.get("/api/platforms/amazon/schedules"),
        await http.delete("/api/platforms/amazon/schedules/hourly"),
    ):
        assert problem_of(answer, 422, "WRONG_FIELD")["field"] == "platform"


async def test_acting_takes_no_body(http: httpx2.AsyncClient) -> None:
    await http.post(PATH, json=HOURLY)
    problem_of(await http.post(f"{PATH}/hourly/pause", json={"why": "x"}), 422, "WRONG_FIELD")
