"""Acting on a job over HTTP: cancel, retry, drop; the answer always agrees with the history."""

import asyncio
from random import Random
from typing import Any

import httpx2
import pytest

from tailrace.streams.store.connection import Store
from tests.support.builders import Desk, untouched
from tests.support.deployment import Deployment
from tests.support.problems import JSON, problem_of

ACTS = ("cancel", "retry", "drop")


async def status_of(http: httpx2.AsyncClient, job_id: str) -> dict[str, Any]:
    shown: dict[str, Any] = (await http.get(f"/api/jobs/{job_id}")).json()["data"]
    return shown


@pytest.mark.parametrize("delay", [None, 600])
async def test_a_job_that_nobody_runs_is_cancelled_and_says_by_whom(
    http: httpx2.AsyncClient, desk: Desk, store: Store, delay: int | None
) -> None:
    await desk.submit("a", delay_seconds=delay)
    why = {"by": "ann", "reason": 'wrong "shop" ü\n'}
    answer = await http.post("/api/jobs/research.a/cancel", json=why)
    assert answer.status_code == 200
    links = answer.json()["links"]
    assert answer.json() == {"jobId": "research.a", "status": "cancelled", "links": links}
    async with untouched(store):
        again = await http.post("/api/jobs/research.a/cancel", json={"by": "bob"})
    assert (again.status_code, again.json()) == (200, answer.json())
    assert (await status_of(http, "research.a"))["cancel"] == why
    assert (await http.get(links["history"])).json()[-1]["reason"] == why["reason"]


async def test_a_running_job_is_asked_to_stop_and_can_only_end_cancelled(
    http: httpx2.AsyncClient, desk: Desk, store: Store
) -> None:
    held = await desk.start("a")
    answer = await http.post("/api/jobs/research.a/cancel", json={"by": "ann", "reason": "too slow"})
    assert (answer.status_code, answer.json()["status"]) == (202, "cancelling")
    assert answer.headers["location"] == "/api/jobs/research.a"
    assert int(answer.headers["retry-after"]) > 0
    async with untouched(store):
        again = await http.post("/api/jobs/research.a/cancel")
    assert (again.status_code, again.json()) == (202, answer.json())
    shown = await status_of(http, "research.a")
    assert (shown["status"], shown["cancel"]) == ("active", {"by": "ann", "reason": "too slow"})
    assert await desk.complete(held, "in vain") == "cancelled"
    again = await http.post("/api/jobs/research.a/cancel")
    assert (again.status_code, again.json()["status"]) == (200, "cancelled")
    shown = await status_of(http, "research.a")
    assert (shown["status"], shown["result"], shown["cancel"]["by"]) == ("cancelled", None, "ann")
    assert await desk.story("a") == ["queued", "started 1", "cancelling 1", "cancelled 1"]


async def test_a_job_asked_to_stop_by_nobody_in_particular_says_so(http: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.start("a")
    assert (await http.post("/api/jobs/research.a/cancel")).status_code == 202
    assert (await status_of(http, "research.a"))["cancel"] == {"by": None, "reason": None}


@pytest.mark.parametrize(("end", "state"), [("complete", "completed"), ("fail", "failed")])
async def test_an_ended_job_is_not_cancelled(
    http: httpx2.AsyncClient, desk: Desk, store: Store, end: str, state: str
) -> None:
    await getattr(desk, end)(await desk.start("a"))
    async with untouched(store):
        problem = problem_of(await http.post("/api/jobs/research.a/cancel", json={}), 409, "JOB_ENDED")
    assert problem["state"] == state
    assert state in problem["detail"]


async def test_two_hundred_cancels_race_with_completion_and_each_answer_agrees_with_the_history(
    http: httpx2.AsyncClient, desk: Desk, dice: Random
) -> None:
    keys = [f"j{number}" for number in range(200)]
    await desk.submit(*keys)
    held = await desk.claim("ann", len(keys))

    async def race(number: int) -> httpx2.Response:
        """The first few complete before, the last few after the cancel; those between meet it."""

        async def complete() -> None:
            await asyncio.sleep(dice.random() / 2)
            await desk.complete(held[number], number)

        path = f"/api/jobs/research.{keys[number]}/cancel"
        if number < 10:
            await complete()
            return await http.post(path, json={"by": "ann"})
        if number >= 190:
            answer = await http.post(path, json={"by": "ann"})
            await complete()
            return answer
        answer, _ = await asyncio.gather(http.post(path, json={"by": "ann"}), complete())
        return answer

    answers = await asyncio.gather(*map(race, range(len(keys))))
    ends = []
    for key, answer in zip(keys, answers, strict=True):
        *_, end = story = await desk.story(key)
        assert len([word for word in story if word.split()[0] in {"completed", "cancelled", "failed"}]) == 1
        assert end == {202: "cancelled 1", 409: "completed 1"}[answer.status_code]
        ends.append(end)
    assert len(set(ends)) == 2, "both sides won some of the races"


@pytest.mark.parametrize("end", ["fail", "cancel"])
async def test_a_failed_or_cancelled_job_is_retried_with_its_history(
    http: httpx2.AsyncClient, desk: Desk, end: str
) -> None:
    held = await desk.start("a")
    if end == "fail":
        await desk.fail(held)
    else:
        await desk.cancel("a")
        await desk.complete(held)
    answer = await http.post("/api/jobs/research.a/retry", json={"by": "ann"})
    assert (answer.status_code, answer.json()["status"]) == (202, "waiting")
    assert answer.headers["location"] == "/api/jobs/research.a"
    problem = problem_of(await http.post("/api/jobs/research.a/retry"), 409, "JOB_NOT_ENDED")
    assert problem["state"] == "waiting"
    (held,) = await desk.claim()
    assert held.args == b"{}"
    await desk.complete(held)
    history = (
        await http.get("/research/history/research.a?limit=99")
    ).json()  # asked again: an ended one is kept a second
    assert [event["status"] for event in history][-3:] == ["reopened", "started", "completed"]
    assert next(event for event in history if event["status"] == "reopened")["by"] == "ann"
    problem = problem_of(await http.post("/api/jobs/research.a/retry"), 409, "JOB_ENDED")
    assert problem["state"] == "completed"


@pytest.mark.parametrize("way", ["POST", "DELETE"])
async def test_a_dropped_job_leaves_no_key(http: httpx2.AsyncClient, desk: Desk, store: Store, way: str) -> None:
    await desk.fail(await desk.start("a"))
    path = "/api/jobs/research.a" + ("/drop" if way == "POST" else "")
    answer = await http.request(way, path)
    assert (answer.status_code, answer.json()) == (200, {"jobId": "research.a", "status": "dropped"})
    problem_of(await http.request(way, path), 404, "JOB_NOT_FOUND")
    assert not [key for key in await store.command("KEYS", "*") if key.endswith(b":a")]
    assert await store.command("ZCARD", desk.keys["ended_failed"]) == 0


async def test_a_job_that_still_has_work_to_do_is_neither_retried_nor_dropped(
    http: httpx2.AsyncClient, desk: Desk, store: Store
) -> None:
    await desk.submit("later", delay_seconds=600)
    await desk.start("now")
    await desk.submit("next")
    async with untouched(store):
        for key, state in (("later", "delayed"), ("now", "active"), ("next", "waiting")):
            for act in ("retry", "drop"):
                problem = problem_of(await http.post(f"/api/jobs/research.{key}/{act}"), 409, "JOB_NOT_ENDED")
                assert problem["state"] == state


@pytest.mark.parametrize("act", ACTS)
async def test_acting_on_what_is_not_there_is_not_found(http: httpx2.AsyncClient, store: Store, act: str) -> None:
    async with untouched(store):
        for job_id in ("research.none", "coupang.a", "rubbish", "research." + "k" * 65):
            problem_of(await http.post(f"/api/jobs/{job_id}/{act}"), 404, "JOB_NOT_FOUND")


BAD: dict[str, tuple[bytes, int, str, str | None]] = {
    "not JSON": (b"{", 400, "MALFORMED", None),
    "a list": (b"[]", 400, "MALFORMED", None),
    "an unknown field": (b'{"who":"ann"}', 422, "WRONG_FIELD", "who"),
    "by a number": (b'{"by":7}', 422, "WRONG_FIELD", "by"),
    "by empty": (b'{"by":""}', 422, "WRONG_FIELD", "by"),
    "by too long": (b'{"by":"' + b"x" * 101 + b'"}', 422, "WRONG_FIELD", "by"),
    "a reason too long": (b'{"reason":"' + b"x" * 301 + b'"}', 422, "WRONG_FIELD", "reason"),
}


@pytest.mark.parametrize(("body", "status", "code", "field"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("act", ACTS)
async def test_a_bad_body_changes_nothing(
    http: httpx2.AsyncClient, desk: Desk, store: Store, act: str, body: bytes, status: int, code: str, field: str | None
) -> None:
    await desk.submit("a")
    if act != "cancel":
        await desk.fail((await desk.claim())[0])
    async with untouched(store):
        answer = await http.post(f"/api/jobs/research.a/{act}", content=body, headers=JSON)
        assert problem_of(answer, status, code).get("field") == field


async def test_a_real_handler_stops_when_it_is_cancelled(deployment: Deployment) -> None:
    gateway, _ = await asyncio.gather(deployment.gateway(), deployment.consumer("research"))
    job = await deployment.submit("research", steps=600, seconds=0.1)
    await deployment.reached(job, 1)
    answer = await deployment.http.post(f"{gateway.url}/api/jobs/{job}/cancel", json={"by": "ann", "reason": "enough"})
    assert (answer.status_code, answer.json()["status"]) == (202, "cancelling")
    events = await deployment.ended(job)
    assert (events[-1].status, events[-1].by, events[-1].reason) == ("cancelled", "ann", "enough")
