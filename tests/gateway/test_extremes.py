"""Values at the edge of what can be said: each is refused or kept, and what is kept can be read again."""

from itertools import product
from typing import Any

import httpx2
import pytest

from tailrace.streams.errors import WrongField
from tailrace.streams.history.events import iso
from tailrace.streams.options import LAST_MS, Options, at_ms
from tests.support.builders import Desk
from tests.support.problems import problem_of

TIMES = [
    "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59.9999Z",
    "9999-12-31T23:59:59.999Z",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-23:59",
    "9999-12-31T00:00:00-14:00",
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+23:59",
    "1969-12-31T23:59:59.999999Z",
    "1970-01-01T00:00:00Z",
    "1900-01-01T00:00:00+00:00:30.5",
    "2027-W01-1T00:00:00Z",
    "20270131T090000Z",
    "2027-01-31 09:00:00+00:00",
    "2027-01-31T24:00:00Z",
    "2027-01-31T09:00:60Z",
]

NUMBERS = [
    "0",
    "1",
    "9" * 15,
    "9" * 19,
    "18446744073709551615",
    "18446744073709551616",
    "9" * 23,
    "9" * 39,
    "-1",
    "1e3",
]
BANDS = ["urgent", "normal", "low", "nowhere", ""]
CURSORS = [
    *(f"{band}.{ms}-{number}" for band, ms, number in product(BANDS, NUMBERS, ["0", "18446744073709551615", "9" * 23])),
    *(f"{number}.a" for number in (*NUMBERS, "1e308", "-1e308", "1e309", "nan", "inf", "-inf", "1_0", "0x1", " 1", "")),
    *(f"{ms}-{number}.a" for ms, number in product(NUMBERS, ["0", "9" * 23])),
    "a",
    ".",
    "..",
    "\ud7ff.\U0010ffff",
    "a" * 200,
    "\x00",
]
STATES = ["waiting", "active", "delayed", "waiting-children", "completed", "failed", "cancelled"]


def test_a_time_is_told_to_the_millisecond_and_never_beyond_the_calendar() -> None:
    assert iso(0) == "1970-01-01T00:00:00.000Z"
    assert iso(1_700_000_000_999) == "2023-11-14T22:13:20.999Z"
    assert iso(LAST_MS) == "9999-12-31T23:59:59.999Z"
    assert iso(LAST_MS + 1) == iso(10**30) == iso(float("inf")) == iso(LAST_MS)
    assert iso(-1) == iso(0)
    for ms in (1, 999, 1_234_567_890_001, LAST_MS - 1, LAST_MS):
        assert at_ms(iso(ms), "run_at") == ms


@pytest.mark.parametrize("text", TIMES)
def test_a_time_that_is_taken_can_be_told(text: str) -> None:
    try:
        Options(run_at=text)
    except WrongField:
        return
    ms = at_ms(text, "run_at")
    assert ms is not None
    assert 0 <= ms <= LAST_MS


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-23:59", "9999-12-31T23:59:59.999999-00:01"])
async def test_a_time_after_the_year_9999_is_refused(http: httpx2.AsyncClient, text: str) -> None:
    for field in ("run_at", "expires_at"):
        asked = {"platform": "research", "kind": "drill", field: text}
        assert problem_of(await http.post("/api/jobs", json=asked), 422, "WRONG_FIELD")["field"] == field


async def test_whatever_time_a_job_was_given_everything_about_it_can_be_read(http: httpx2.AsyncClient) -> None:
    accepted = 0
    for number, text in enumerate(TIMES):
        for field in ("run_at", "expires_at"):
            asked = {"platform": "research", "kind": "drill", "id": f"{field}-{number}", field: text}
            answer = await http.post("/api/jobs", json=asked)
            assert answer.status_code in {202, 422}, answer.text
            if answer.status_code == 202:
                accepted += 1
                await readable(http, answer.json()["jobId"])
    assert accepted > len(TIMES)
    assert (await pages(http, {}))["delayed"]


async def test_a_time_that_an_older_version_took_does_not_hide_the_others(http: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("beyond", "near", delay_seconds=60)
    for score in (LAST_MS + 1, "1e300", "inf"):
        await desk.store.command("ZADD", desk.keys["due"], score, "beyond")
        await desk.store.command("ZADD", desk.keys["alarms"], score, "!beyond")
        await readable(http, "research.beyond")
        listed = (await pages(http, {}))["delayed"]
        assert [job["jobId"] for job in listed] == ["research.near", "research.beyond"]
        assert listed[1]["runAt"] == iso(LAST_MS)


async def readable(http: httpx2.AsyncClient, job_id: str) -> None:
    for path in (f"/api/jobs/{job_id}", f"/research/history/{job_id}", f"/research/history/{job_id}?limit=5"):
        answer = await http.get(path)
        assert answer.status_code == 200, (path, answer.text)


async def pages(http: httpx2.AsyncClient, query: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
    """The jobs of each state, of those whose page can be read."""
    found = {}
    for state in STATES:
        answer = await http.get("/api/platforms/research/jobs", params={"state": state, **query})
        assert answer.status_code in {200, 422}, (state, query, answer.text)
        if answer.status_code == 200:
            found[state] = answer.json()["data"]
    return found


async def test_whatever_a_page_is_to_begin_after_is_a_page_or_a_refusal(http: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("waits")
    for cursor in CURSORS:
        await pages(http, {"after": cursor})
        for path in ("/api/platforms/research/dead", "/research/history/research.waits"):
            answer = await http.get(path, params={"after": cursor})
            assert answer.status_code in {200, 422}, (path, cursor, answer.text)


LARGE = [10**308, -(10**308), 10**400, 2**64, 2**63, 2**53 + 1, -1, 0, 1e308, 1e-308, 5e-324, 0.1 + 0.2]


async def test_numbers_of_any_size_are_kept_or_refused(http: httpx2.AsyncClient) -> None:
    fields = ("delay_seconds", "keep_seconds", "timeout_seconds", "lifetime_seconds", "backoff_seconds")
    counts = {"attempts": [*LARGE, 1000], "jitter": LARGE}
    tried = [*product(fields, LARGE), *((name, value) for name, values in counts.items() for value in values)]
    for number, (field, value) in enumerate(tried):
        asked = {"platform": "research", "kind": "drill", "id": f"n{number}", field: value}
        answer = await http.post("/api/jobs", json=asked)
        assert answer.status_code in {202, 422}, (field, value, answer.text)
        if answer.status_code == 202:
            await readable(http, answer.json()["jobId"])
    for number, value in enumerate(LARGE):
        answer = await http.post("/api/jobs", json={"platform": "research", "kind": "mine", "args": {"n": value}})
        assert answer.status_code in {202, 400, 422}, (value, answer.text)
        schedule = {"kind": "drill", "every_seconds": value}
        answer = await http.post(f"/api/platforms/research/schedules/s{number}", json=schedule)
        assert answer.status_code in {200, 400, 422}, (value, answer.text)
    assert (await http.get("/api/platforms/research/schedules")).status_code == 200
    await pages(http, {})
