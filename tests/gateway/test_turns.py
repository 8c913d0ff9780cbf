"""Large bodies, bulks and lists: whatever is asked, the loop is free again after a moment."""

from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette

from tailrace.gateway.application import create_app
from tailrace.gateway.bodies import BODY_BYTES, BRACKETS
from tailrace.gateway.settings import GatewaySettings
from tailrace.streams.messages import encode
from tailrace.streams.process.settings import Environment
from tests.gateway.holding import MOST_SECONDS, Hold, longest_hold
from tests.support.builders import Desk


@pytest.fixture
def app(valkey_url: str) -> Starlette:
    return create_app(GatewaySettings.read(Environment({"REDIS_URL": valkey_url})))


def filled(part: bytes, between: bytes = b",") -> bytes:
    """As many of these as a body has room for."""
    count = (BODY_BYTES - 200) // (len(part) + len(between))
    return b'{"platform":"research","kind":"mine","args":{"a":[%b]}}' % between.join([part] * count)


BODIES = {
    "numbers": filled(b"1"),
    "fractions": filled(b"0.1"),
    "words": filled(b'"a"'),
    "small objects": filled(b'{"abcd":1234}'),
    "text": filled(b'"' + b"x" * 1000 + b'"'),
    "deep": filled(b"[" * 40 + b"1" * 350 + b"]" * 40),
}
BULKS = {
    "right": [{"platform": "research", "kind": "drill", "id": f"b{n}"} for n in range(10_000)],
    "with options": [{"platform": "research", "kind": "drill", "timeout_seconds": 9, "limit_key": "l"}] * 10_000,
    "wrong fields": [{"platform": "research", "kind": "drill", "attempts": "x"}] * 10_000,
    "unknown platforms": [{"platform": "nowhere", "kind": "drill"}] * 10_000,
    "not jobs": [1] * 10_000,
}


async def held_by(app: Starlette, method: str, path: str, body: bytes = b"") -> tuple[httpx2.Response, Hold]:
    """The answer of an application in this loop, and how long it held the loop at most."""
    transport = httpx2.ASGITransport(app=app.state.front)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=60) as http,
    ):
        answer = await http.get("/readyz")  # so that the store is connected, and the scripts are there

        async def ask() -> None:
            nonlocal answer
            answer = await http.request(method, path, content=body, headers={"Content-Type": "application/json"})

        hold = await longest_hold(ask)
    return answer, hold


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_a_body_of_a_megabyte_holds_up_nobody(app: Starlette, body: bytes) -> None:
    assert len(body) > 0.99 * BODY_BYTES
    answer, hold = await held_by(app, "POST", "/api/jobs", body)
    assert answer.status_code == 202, answer.text
    assert hold.is_short, hold


@pytest.mark.parametrize("part", [b"[]", b"{}", b"[" * 60 + b"]" * 60], ids=["lists", "objects", "deep"])
async def test_a_body_of_nothing_but_brackets_is_refused(app: Starlette, part: bytes) -> None:
    body = filled(part)
    assert body.count(part[:1]) > BRACKETS
    answer, hold = await held_by(app, "POST", "/api/jobs", body)
    assert (answer.status_code, answer.json()["code"]) == (400, "MALFORMED")
    assert hold.is_short, hold


@pytest.mark.parametrize("jobs", BULKS.values(), ids=BULKS)
async def test_a_bulk_of_ten_thousand_holds_up_nobody(app: Starlette, jobs: list[Any]) -> None:
    answer, hold = await held_by(app, "POST", "/api/jobs/bulk", encode({"jobs": jobs}))
    assert answer.status_code == 202, answer.text
    assert len(answer.json()["jobs"]) == 10_000
    assert hold.is_short, hold


async def test_the_longest_lists_hold_up_nobody(app: Starlette, desk: Desk) -> None:
    keys = [f"job-{number}" for number in range(1000)]
    await desk.submit(*keys)
    await desk.claim(slots=500)
    for path in (
        "/api/platforms/research/jobs?state=waiting&limit=1000",
        "/api/platforms/research/jobs?state=active&limit=1000",
        "/api/v2/jobs/running",
    ):
        answer, hold = await held_by(app, "GET", path)
        assert answer.status_code == 200, answer.text
        assert hold.is_short, (path, hold)


@pytest.mark.chaos
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_a_body_of_a_megabyte_holds_the_loop_for_twenty_milliseconds_at_most(app: Starlette, body: bytes) -> None:
    _, hold = await held_by(app, "POST", "/api/jobs", body)
    assert hold.seconds < MOST_SECONDS


@pytest.mark.chaos
@pytest.mark.parametrize("jobs", BULKS.values(), ids=BULKS)
async def test_a_bulk_holds_the_loop_for_twenty_milliseconds_at_most(app: Starlette, jobs: list[Any]) -> None:
    _, hold = await held_by(app, "POST", "/api/jobs/bulk", encode({"jobs": jobs}))
    assert hold.seconds < MOST_SECONDS
