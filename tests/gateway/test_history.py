"""History: the visible events of a job, whatever else stands in its log.

A gateway keeps what it told of an ended job for a second. The store is emptied between tests, so a test that reads the
history of an ended job has a key of its own.
"""

import httpx2
import pytest

from tailrace.streams.store.connection import Store
from tests.gateway.histories import END, RACE, forged, forgeries, history_of, race, story
from tests.support.builders import Desk
from tests.support.problems import problem_of


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
    events = await history_of(http, "forged", limit="1000")  # a page is always read from the store
    assert story(events) == END
    assert [event["seq"] for event in events] == list(range(1, len(END) + 1))
