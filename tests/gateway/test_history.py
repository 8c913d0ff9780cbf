"""History: the visible events of a job, whatever else stands in its log.

A gateway keeps what it told of an ended job for a second. The store is emptied between tests, so a test that reads the
history of an ended job has a key of its own.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest

from tailrace.streams.store.connection import Store
from tests.gateway.test_bodies import problem_of
from tests.support.builders import Desk, forge

RACE = ["queued", "started 1", "progress 1 1", "progress 1 2", "superseded 1", "started 2", "progress 2 1"]
END = [*RACE, "progress 2 2", "completed 2"]


async def race(desk: Desk, key: str = "a") -> Callable[[], Awaitable[None]]:
    """A job whose first worker was lost in the middle; the answer ends it."""
    first = await desk.start(key, "ann")
    await desk.report(first, 1)
    await desk.report(first, 2)
    await desk.reclaim(first)
    (second,) = await desk.claim("bob")
    await desk.report(second, 1)

    async def end() -> None:
        await desk.report(second, 2)
        await desk.complete(second, "done")

    return end


def story(events: list[dict[str, Any]]) -> list[str]:
    return [" ".join(str(e[name]) for name in ("status", "attempt", "step") if e[name] is not None) for e in events]


async def history_of(http: httpx2.AsyncClient, key: str = "a", **params: str) -> list[dict[str, Any]]:
    answer = await http.get(f"/research/history/research.{key}", params=params)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    events: list[dict[str, Any]] = answer.json()
    return events


async def test_a_history_tells_each_thing_once_and_in_order(http: httpx2.AsyncClient, desk: Desk) -> None:
    end = await race(desk, "told")
    await end()
    events = await history_of(http, "told")
    assert story(events) == END
    assert [event["seq"] for event in events] == list(range(1, len(END) + 1))
    assert {event["jobId"] for event in events} == {"research.told"}
    assert [event["workerId"] for event in events] == [None, *["ann"] * 4, *["bob"] * 4]
    assert events[-1]["result"] == "done"
    assert len({event["id"] for event in events}) == len(events)


async def test_only_the_current_attempt_on_request(http: httpx2.AsyncClient, desk: Desk) -> None:
    await race(desk)
    assert story(await history_of(http, attempt="current")) == RACE[-2:]
    problem = problem_of(await http.get("/research/history/research.a?attempt=1"), 422, "WRONG_FIELD")
    assert problem["field"] == "attempt"


async def test_before_the_first_start_the_current_attempt_is_the_queue(http: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a")
    assert story(await history_of(http, attempt="current")) == ["queued"]


async def test_a_history_can_be_read_page_by_page(http: httpx2.AsyncClient, desk: Desk) -> None:
    await race(desk)
    whole, pages, after = await history_of(http), [], ""
    while page := await history_of(http, after=after, limit="3"):
        assert len(page) <= 3
        pages += page
        after = page[-1]["id"]
    assert pages == whole


@pytest.mark.parametrize(
    ("field", "query"),
    [("after", "after=9-9"), ("after", "after=x"), ("after", "after=" + "1" * 5000)]
    + [("limit", f"limit={limit}") for limit in ("0", "-1", "x", "1.5", "9" * 5000, "²", "1e3")],
)
async def test_a_page_that_cannot_be_is_refused(http: httpx2.AsyncClient, desk: Desk, field: str, query: str) -> None:
    await desk.submit("a")
    assert problem_of(await http.get(f"/research/history/research.a?{query}"), 422, "WRONG_FIELD")["field"] == field


def forged(key: str, number: int, attempt: int | None, status: str, step: int | None = None, **more: Any) -> bytes:
    return forge(f"research.{key}", number, attempt, status, step, **more)


def forgeries(key: str) -> list[bytes]:
    return [
        forged(key, 8, 2, "progress", 1),
        forged(key, 8, 1, "progress", 3),
        forged(key, 8, 1, "completed"),
        forged(key, 8, 1, "started"),
        forged(key, 8, 2, "started"),
        forged(key, 1, None, "queued"),
        b"",
        b"rubbish",
        b"\xff\x00",
        b"{}",
        forged("other", 8, 2, "progress", 9),
    ]


async def test_what_somebody_writes_into_the_log_is_not_shown(
    http: httpx2.AsyncClient, desk: Desk, store: Store
) -> None:
    end = await race(desk, "forged")
    log = desk.keys.log("forged")
    await store.command("RPUSH", log, *forgeries("forged"), *await desk.log("forged"))
    assert story(await history_of(http, "forged")) == RACE
    await end()
    assert story(await history_of(http, "forged")) == END
    await store.command("RPUSH", log, *forgeries("forged"), forged("forged", 10, 2, "completed", result="other"))
    await store.command("RPUSH", log, forged("forged", 11, 3, "started"), *await desk.log("forged"))
    events = await history_of(http, "forged", limit="1000")  # a page is always read anew
    assert story(events) == END
    assert [event["seq"] for event in events] == list(range(1, len(END) + 1))
