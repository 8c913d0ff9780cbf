"""Closed doors: whatever a stranger sends, and in whatever way it is written, leads nowhere."""

import hashlib
import re
from collections.abc import Callable

import httpx2
import pytest

from tailrace.gateway.application import TABLE
from tailrace.gateway.route_table import PUBLIC
from tailrace.streams.store.connection import Store
from tests.gateway.costs import TRIES, commands
from tests.gateway.keyrings import SHOPS, UNKNOWN, WHOLE, shown
from tests.gateway.raw import Answer, RawClient
from tests.gateway.routes import CLOSED, JOB_ROUTES, filled
from tests.support.builders import Desk

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")


def ways(path: str) -> list[str]:
    """The path of a route, written in ways that something behind us might read as the same."""
    first, rest = path[1:].partition("/")[0], path[1 + len(path[1:].partition("/")[0]) :]
    return [
        path,
        f"{path}/",
        f"{path}//",
        f"/{path}",
        path.replace("/", "//"),
        f"/.{path}",
        f"/x/..{path}",
        f"/healthz/..{path}",
        f"/page/..{path}",
        f"/page/style.css/../..{path}",
        f"/%{ord(first[0]):02x}{first[1:]}{rest}",
        f"/{first}%2f{rest.lstrip('/')}",
        path.upper(),
        f"{path};x=1",
        f"{path}%00",
        f"{path}%20",
        f"{path}?ticket",
        f"{path}#/healthz",
        f"http://other.example{path}",
    ]


@pytest.mark.parametrize(("method", "path"), CLOSED)
async def test_no_way_to_write_a_request_opens_a_route(locked: httpx2.AsyncClient, method: str, path: str) -> None:
    async with RawClient(str(locked.base_url)) as raw:
        for target in ways(filled(path)):
            answer = await raw.ask(method, target)
            assert answer.status == 401 or not answers_the_route(answer), (target, answer)
        for other in METHODS:
            answer = await raw.ask(other, filled(path))
            said = TABLE.get(f"{'GET' if other == 'HEAD' else other} {path}")
            public = said is not None and said.scope is PUBLIC
            assert answer.status == 401 or public, other
            for override in ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"):
                answer = await raw.ask(other, f"{filled(path)}?_method={method}", f"{override}: {method}")
                assert answer.status == 401 or public, override
        for line in ("X-Original-URL: /healthz", "X-Rewrite-URL: /healthz", "X-Forwarded-For: 127.0.0.1"):
            assert (await raw.ask(method, filled(path), line)).status == 401, line


def answers_the_route(answer: Answer) -> bool:
    """Whether anything but a refusal came: what the server calls malformed, or knows nothing of, is one."""
    return answer.status not in {400, 401, 404}


async def test_credentials_are_looked_for_in_one_place_each(locked: httpx2.AsyncClient) -> None:
    async with RawClient(str(locked.base_url)) as raw:
        for lines in (
            (f"Proxy-Authorization: Bearer {WHOLE}",),
            (f"Authorization: Bearer {UNKNOWN}", f"Authorization: Bearer {WHOLE}"),
            (f"Authorization:\tBearer\t{WHOLE}",),
            (f"Authorization: Bearer {WHOLE},{UNKNOWN}",),
            (f"Authorization: Bearer {WHOLE[:-1]}",),
            (f"Authorization: Bearer {WHOLE}x",),
            (f"Authorization: Bearer {WHOLE.upper()}",),
            (f"Cookie: {WHOLE}",),
            (f"Cookie: tailrace_session={hashlib.sha256(WHOLE.encode()).hexdigest()}",),
        ):
            assert (await raw.ask("GET", "/api/platforms", *lines)).status == 401, lines
        assert (await raw.ask("GET", "/api/platforms", f"Authorization: Bearer {WHOLE}")).status == 200


# Keys that are limited to platforms


@pytest.mark.parametrize(("method", "path"), JOB_ROUTES)
async def test_a_foreign_job_is_refused_like_an_unknown_one_to_the_byte_and_in_the_same_time(
    locked: httpx2.AsyncClient, desk: Desk, store: Store, method: str, path: str
) -> None:
    await desk.complete(await desk.start("done"))
    await desk.fail(await desk.start("dead"))
    await desk.start("runs")
    await desk.submit("wait")
    key = f"Authorization: Bearer {SHOPS}"
    async with RawClient(str(locked.base_url)) as raw:

        async def asked(name: str, query: str) -> tuple[Answer, int]:
            costs = []
            for _ in range(TRIES):
                before = await commands(store)
                answer = await raw.ask(method, path.replace("{job_id}", f"research.{name}") + query, key)
                costs.append(await commands(store) - before)
            headers = [(called, value) for called, value in answer.headers if called != "date"]
            return Answer(answer.status, headers, answer.body.replace(name.encode(), b"NAME")), min(costs)

        for query in ("", "?after=1-1", "?limit=0", "?attempt=none", "?lastEventId=1-1"):
            unknown = await asked("none", query)
            assert unknown[0].status == 404
            for name in ("done", "dead", "runs", "wait"):
                assert await asked(name, query) == unknown, name


async def test_the_stream_of_many_jobs_does_not_tell_which_foreign_ones_there_are(
    locked: httpx2.AsyncClient, desk: Desk
) -> None:
    await desk.submit("wait")
    key = f"Authorization: Bearer {SHOPS}"
    async with RawClient(str(locked.base_url)) as raw:
        for query in ("jobs=research.{}", "jobs=ably.x,research.{}", "platform=research&jobs=research.{}"):
            here = await raw.ask("GET", f"/api/events?{query.format('wait')}", key)
            none = await raw.ask("GET", f"/api/events?{query.format('none')}", key)
            assert (here.status, here.body) == (none.status, none.body)
            assert here.status == 403


async def test_no_list_and_no_figure_tells_a_limited_key_of_other_platforms(
    locked: httpx2.AsyncClient, desk: Desk, desk_on: Callable[[str], Desk]
) -> None:
    """With and without jobs elsewhere every answer is the same."""
    await desk_on("ably").submit("open")
    paths = [path for method, path in CLOSED if method == "GET" and "{" not in path and path != "/api/events"]

    async def answers() -> dict[str, str]:
        told = {path: await locked.get(path, headers=shown(SHOPS)) for path in paths}
        assert {answer.status_code for answer in told.values()} == {200}
        return {path: without_times(answer.text) for path, answer in told.items()}

    before = await answers()
    await desk.complete(await desk.start("secret-1", "worker-of-others"))
    await desk.start("secret-2", "worker-of-others")
    await desk.submit("secret-3")
    async with locked.stream("GET", "/research/stream/research.secret-3", headers=shown(WHOLE)) as watching:
        assert watching.status_code == 200
        after = await answers()
    assert not re.search("secret|worker-of-others", str(after))
    for path in paths:
        if path != "/api/trends":  # a new sample may have been taken
            assert after[path] == before[path], path


def without_times(text: str) -> str:
    return re.sub(r'("oldestWaitingSeconds":|oldest_waiting_seconds\{[^}]*\} )[0-9.e+-]+', r"\1T", text)


# What every answer says


async def test_every_kind_of_answer_has_the_headers_that_browsers_heed(
    gateway: str, locked: httpx2.AsyncClient, desk: Desk
) -> None:
    await desk.complete(await desk.start("a"))
    key = f"Authorization: Bearer {WHOLE}"
    seen: dict[int, Answer] = {}
    async with RawClient(gateway) as open_one, RawClient(str(locked.base_url)) as closed:
        asked = [
            await open_one.ask("GET", "/healthz"),
            await open_one.ask("POST", "/research/start", "Content-Type: application/json", body=b'{"query": "x"}'),
            await open_one.ask("GET", "/research/stream/research.a", "Last-Event-ID: none"),
            await open_one.ask("POST", "/api/jobs", body=b"x"),
            await open_one.ask("POST", "/api/jobs", "Content-Type: application/json", body=b"x"),
            await open_one.ask("POST", "/api/jobs", "Content-Type: application/json", body=b"{}"),
            await open_one.ask("PUT", "/healthz"),
            await open_one.ask("GET", "/nothing"),
            await open_one.ask("POST", "/api/jobs/research.a/retry"),
            await open_one.ask("GET", "/healthz", "Host: evil.example"),
            await open_one.ask("POST", "/api/jobs", "Origin: https://evil.example"),
            await open_one.ask("GET", "/healthz", f"X: {'x' * 20_000}"),
            await closed.ask("GET", "/api/platforms"),
            await closed.ask("GET", "/api/events", key),
            await closed.ask(
                "OPTIONS", "/api/jobs", "Origin: https://app.example.org", "Access-Control-Request-Method: POST"
            ),
            await closed.ask("POST", "/api/session", key),
            await closed.ask("GET", "/", "Accept: text/html"),
        ]
        page = await closed.ask("GET", "/jobs/x")
        asked.append(await closed.ask("GET", "/jobs/x", f"If-None-Match: {page.get('etag')}"))
        asked.append(await open_one.ask("POST", "/api/jobs", f"Content-Length: {2**21}"))
    for answer in asked:
        seen[answer.status] = answer
        assert answer.all("x-content-type-options") == ["nosniff"], answer
        assert answer.all("referrer-policy") == ["no-referrer"], answer
        assert answer.all("x-frame-options") == ["DENY"], answer
        assert answer.all("cross-origin-resource-policy") == ["same-origin"], answer
        assert not answer.get("server")
    assert {200, 202, 204, 304, 400, 401, 403, 404, 405, 409, 413, 415, 421, 422} <= seen.keys()


async def test_the_page_allows_nothing_inline(locked: httpx2.AsyncClient) -> None:
    for path in ("/", "/jobs/research.a"):
        answer = await locked.get(path, headers={"Accept": "text/html"})
        rules = dict(rule.strip().partition(" ")[::2] for rule in answer.headers["content-security-policy"].split(";"))
        assert rules["default-src"] == "'none'"
        assert rules["frame-ancestors"] == rules["base-uri"] == "'none'"
        assert not [rule for rule, said in rules.items() if "unsafe" in said or "*" in said]
        text = answer.text
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:", text)
        assert not re.search(r"(src|href)=\"(https?:)?//", text)
