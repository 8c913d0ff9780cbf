"""The document at /openapi.json: whole, valid, served to everybody, and true of every answer."""

import json
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, get_args

import httpx2
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from tailrace.gateway.access.api_keys import Keys, Scope
from tailrace.gateway.application import TABLE, create_app
from tailrace.gateway.openapi import document
from tailrace.gateway.problems import Code
from tailrace.gateway.replies import JobStatus, status_of
from tailrace.gateway.route_table import PUBLIC, STREAM, Served
from tailrace.gateway.settings import GatewaySettings
from tailrace.producers.platforms import BUILT_IN
from tailrace.producers.settings import StreamsSettings
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tests.gateway.documented import Document, Told
from tests.gateway.gateways import CHECKOUT
from tests.gateway.keyrings import OF_SCOPE, SHOPS, WHOLE, shown
from tests.gateway.routes import ROUTES, SETTINGS
from tests.support.builders import Desk

DOCUMENTS = {locked: document(TABLE, locked=locked) for locked in (False, True)}


@pytest.fixture(params=[False, True], ids=["open", "locked"])
def told(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The document of a gateway without keys, and of one with."""
    return DOCUMENTS[request.param]


def test_every_route_is_in_the_document_and_nothing_else(told: dict[str, Any]) -> None:
    described = {(method.upper(), path) for path, item in told["paths"].items() for method in item}
    assert described == set(ROUTES)


def test_the_document_is_openapi_by_the_rules(told: dict[str, Any]) -> None:
    OpenAPIV31SpecValidator(json.loads(json.dumps(told))).validate()


def test_a_validator_would_find_a_mistake() -> None:
    broken = json.loads(json.dumps(DOCUMENTS[False]))
    del broken["paths"]["/healthz"]["get"]["responses"]
    broken["components"]["schemas"]["Alive"]["type"] = "thing"
    assert list(OpenAPIV31SpecValidator(broken).iter_errors())


def test_every_reference_leads_somewhere(told: dict[str, Any]) -> None:
    for reference in set(re.findall(r'"\$ref": "#/components/([^"]+)"', json.dumps(told))):
        kind, name = reference.split("/")
        assert name in told["components"][kind], reference


def test_each_operation_has_a_name_of_its_own() -> None:
    names = [operation.id for operation in TABLE.values()]
    assert len(set(names)) == len(names)


def test_the_words_for_a_state_are_those_that_are_used() -> None:
    assert set(get_args(JobStatus)) == {status_of(state) for state in State}


def test_the_codes_are_those_of_the_readme() -> None:
    rows = re.findall(r"^\| (\d{3}) \| (`[A-Z_`, ]+`) \|", (CHECKOUT / "gateway" / "http.md").read_text(), re.M)
    written = {(int(status), code) for status, codes in rows for code in re.findall(r"`(\w+)`", codes)}
    assert written == {(code.status, code.name) for code in Code}


def test_with_keys_it_says_which_scope_is_needed_and_what_may_be_shown() -> None:
    for path, item in DOCUMENTS[True]["paths"].items():
        for method, operation in item.items():
            need = TABLE[f"{method.upper()} {path}"].scope
            scopes = [str(need)] if isinstance(need, Scope) else []
            ways = ["key", "session"] + ["ticket"] * (path == "/research/stream/{job_id}")
            assert operation["security"] == ([] if need is PUBLIC else [{way: scopes} for way in ways])
    assert "security" not in json.dumps(DOCUMENTS[False])


async def test_it_is_served_with_a_tag_and_not_twice(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/openapi.json")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == json.loads(json.dumps(DOCUMENTS[False]))
    tag = answer.headers["etag"]
    again = await http.get("/openapi.json", headers={"If-None-Match": f'"other", W/{tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert (await http.get("/openapi.json", headers={"If-None-Match": '"other"'})).status_code == 200


@pytest.mark.parametrize("refusing", ["gzip;q=0", "identity", "deflate, gzip; Q=0.0", "*;q=0", ""])
async def test_who_cannot_unpack_gets_it_as_it_is(http: httpx2.AsyncClient, refusing: str) -> None:
    for path in ("/openapi.json", "/page/style.css"):
        answer = await http.get(path, headers={"Accept-Encoding": refusing})
        assert (answer.status_code, answer.headers.get("content-encoding")) == (200, None)
        assert (await http.get(path, headers={"Accept-Encoding": "br, GZIP;q=0.5"})).headers[
            "content-encoding"
        ] == "gzip"


async def test_everybody_may_read_it_and_gets_the_same(locked: httpx2.AsyncClient) -> None:
    answers = [
        await locked.get("/openapi.json", headers=headers)
        for headers in ({}, shown(WHOLE), shown(SHOPS), shown(OF_SCOPE[Scope.SUBMIT]))
    ]
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert answers[0].json() == json.loads(json.dumps(DOCUMENTS[True]))


async def test_it_names_nothing_of_this_deployment() -> None:
    platforms = BUILT_IN.declare(["secretshop"])
    keys = Keys.read("secretkey-0123456789::secretshop", platforms)
    streams = StreamsSettings(url="redis://secrethost:1", platforms=platforms)
    app = create_app(GatewaySettings(streams=streams, keys=keys))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app.state.front)) as http:
        answer = await http.get("http://127.0.0.1/openapi.json")
    assert answer.status_code == 200
    assert "secret" not in answer.text


PLACES = {"{job_id}": "research.tides-1", "{platform}": "default", "{name}": "nightly"}


async def test_every_example_works(http: httpx2.AsyncClient) -> None:
    described = Document(DOCUMENTS[False])
    asked = 0
    for group in ("submit", "session", "jobs", "platforms", "schedules"):
        for route, operation in described.routes.items():
            method, path = route.split()
            taken = described.body(route)
            for example in taken.get("examples", {}).values() if taken and group in operation["tags"] else ():
                for name, value in PLACES.items():
                    path = path.replace(name, value)
                answer = await http.request(method, path, json=example["value"])
                assert answer.is_success, (route, example, answer.text)
                described.judge(method, route, seen(answer))
                asked += 1
    assert asked >= len([operation for operation in TABLE.values() if operation.examples])


def seen(answer: httpx2.Response) -> Told:
    return Told(answer.status_code, {name.lower(): value for name, value in answer.headers.items()}, answer.content)


class Witness:
    """Asks, holds every answer to the document, and remembers what was seen."""

    def __init__(self, http: httpx2.AsyncClient, described: Document) -> None:
        self.http = http
        self.described = described
        self.seen: set[tuple[str, int]] = set()

    async def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        expect: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        request = self.http.build_request(method, path, json=body, headers=headers)
        answer = await self.http.send(request, stream=True)
        try:
            if answer.headers.get("content-type", "").startswith(STREAM):
                first = await anext(answer.aiter_bytes())  # what there is so far; the rest may never come
                told = Told(answer.status_code, dict(answer.headers), first)
            else:
                await answer.aread()
                told = seen(answer)
        finally:
            await answer.aclose()
        assert told.status == expect, (method, path, told)
        route = self.described.route_of(method, path.partition("?")[0])
        self.described.judge(method, route, told)
        assert route
        self.seen.add((route, told.status))
        return answer

    def missing(self) -> set[tuple[str, int]]:
        """The answers in the document, beside refusals, that no test has seen yet."""
        promised = {
            (route, int(status))
            for route, operation in self.described.routes.items()
            for status in operation["responses"]
            if int(status) < 400
        }
        return promised - self.seen


async def test_every_route_answers_as_it_is_described(
    http: httpx2.AsyncClient, desk_on: Callable[[str], Desk], store: Store
) -> None:
    ask = Witness(http, Document(DOCUMENTS[False]))
    await look_at_the_process(ask)
    await bring_work(ask)
    await look_at_jobs(ask, desk_on("research"))
    await act_on_jobs(ask, desk_on("ably"))
    await look_at_platforms(ask, desk_on("kurly"))
    await keep_schedules(ask)
    assert ask.missing() == set()


async def look_at_the_process(ask: Witness) -> None:
    await ask("GET", "/", headers={"Accept": "text/html"})
    page = ("/", "/docs", "/jobs/research.a", "/page/style.css", "/page/icon.svg", "/page/job/job.js")
    for path in (*page, "/openapi.json"):
        answer = await ask("GET", path, headers={"Accept": "text/html"})
        await ask("GET", path, headers={"Accept": "text/html", "If-None-Match": answer.headers["etag"]}, expect=304)
    await ask("GET", "/", headers={"Accept": "*/*"})
    for path in ("/healthz", "/readyz", "/metrics", "/api/session", "/api/store", "/api/trends"):
        await ask("GET", path)
        await ask("HEAD", path)
    await ask("POST", "/api/session", {})
    await ask("DELETE", "/api/session", expect=204)


async def bring_work(ask: Witness) -> None:
    job = {"platform": "default", "kind": "drill"}
    for _ in range(2):
        await ask("POST", "/research/start", {"query": "tides", "jobId": "tides"}, expect=202)
        await ask("POST", "/api/jobs", job, headers={"Idempotency-Key": "one"}, expect=202)
        await ask("POST", "/api/jobs", {**job, "dedupe": {"key": "k"}}, expect=202)
        lines = [{**job, "id": "b"}, {**job, "dedupe": {"key": "k"}}, 7, {**job, "platform": "nowhere"}]
        answer = await ask("POST", "/api/jobs/bulk", {"jobs": lines}, expect=202)
        assert answer.json()["refused"] == 2
    await ask("POST", "/api/plans", {"userId": "u", "goal": "g"}, expect=202)
    await ask("POST", "/api/materials/complete-upload", {"materialId": "m"}, expect=202)
    await ask("POST", "/api/v2/workflows/execute", {"workflow_id": "w"}, expect=202)
    await ask("POST", "/api/tickets", {"jobId": "research.tides"})
    for _ in range(2):
        await ask("POST", "/api/flows", {**job, "id": "flow", "children": [{**job, "children": [job]}]}, expect=202)
    await ask("POST", "/api/jobs/default.flow/signals/go", {"data": [1]}, expect=202)


async def look_at_jobs(ask: Witness, desk: Desk) -> None:
    """One job in each state, as itself, as history and as a stream."""
    await desk.submit("calm")
    await desk.submit("later", delay_seconds=3600.0)
    await desk.cancel("later", b',"by":"me","reason":"why"')
    await desk.submit("resting", delay_seconds=3600.0)
    failed, retried = await desk.claim(slots=2)
    await desk.fail(failed)
    await desk.fail(retried, attempts=3, seconds=3600.0)
    await desk.complete(await desk.start("done"), {"any": ["thing"]})
    stale = await desk.start("at-work", "bob")
    assert await desk.reclaim(stale) == "reclaimed"
    (held,) = await desk.claim("ann")
    await desk.report(held, 1)
    await desk.submit("waits", order_key="o", limit_key="l", expires_at="2099-01-01T00:00:00Z")
    for key in ("tides", "calm", "resting", "later", "done", "at-work", "waits"):
        job = f"research.{key}"
        await ask("GET", f"/api/jobs/{job}")
        await ask("GET", f"/api/jobs/{job}/args")
        await ask("GET", f"/api/jobs/{job}/steps")
        await ask("GET", f"/api/jobs/{job}/flow")
        await ask("GET", f"/research/history/{job}")
        await ask("GET", f"/research/stream/{job}")
        await ask("GET", f"/research/stream/{job}", headers={"Last-Event-ID": "not-this"})
    events = (await ask("GET", "/research/history/research.done?attempt=current&limit=5")).json()
    await ask("GET", f"/research/stream/research.done?lastEventId={events[-1]['id']}", expect=204)
    await ask("GET", f"/research/history/research.done?after={events[0]['id']}")
    for path in ("/api/jobs/research.done", "/research/history/research.done"):
        answer = await ask("GET", path)
        await ask("GET", path, headers={"If-None-Match": answer.headers["etag"]}, expect=304)
    await desk.store.command("HSET", desk.keys.steps("at-work"), "first", '{"any":1}')
    await ask("GET", "/api/jobs/research.at-work/steps?name=first")
    await ask("GET", "/api/jobs/research.at-work/steps?name=other", expect=404)
    await ask("GET", "/api/v2/jobs/running")
    await ask("GET", "/api/events?platform=research&jobs=research.calm")


async def act_on_jobs(ask: Witness, desk: Desk) -> None:
    await desk.submit("a", "b", "c")
    held = await desk.claim()
    await ask("POST", f"/api/jobs/ably.{held[0].key}/cancel", {"by": "me"}, expect=202)
    await ask("GET", f"/api/jobs/ably.{held[0].key}")
    for key in ("b", "c"):
        await ask("POST", f"/api/jobs/ably.{key}/cancel", {"by": "me", "reason": "why"})
        await ask("GET", f"/api/jobs/ably.{key}")
    await ask("POST", "/api/jobs/ably.b/retry", expect=202)
    await ask("POST", "/api/jobs/ably.b/cancel")
    await ask("POST", "/api/jobs/ably.b/drop")
    await ask("DELETE", "/api/jobs/ably.c")
    for method, path in (("POST", "drop"), ("POST", "retry"), ("POST", "cancel"), ("GET", "args")):
        await ask(method, f"/api/jobs/ably.none/{path}", expect=404)
    await ask("POST", f"/api/jobs/ably.{held[0].key}/retry", expect=409)


async def look_at_platforms(ask: Witness, desk: Desk) -> None:
    for key in ("f", "g"):
        await desk.fail(await desk.start(key))
    await desk.start("at-work")
    await desk.beat()
    await desk.submit("waits")
    for status in get_args(JobStatus):
        await ask("GET", f"/api/platforms/kurly/jobs?state={status}&limit=1")
        await ask("GET", f"/api/platforms/research/jobs?state={status}")
    await ask("GET", "/api/platforms/kurly/dead?limit=1")
    await ask("GET", "/api/dead")
    await ask("POST", "/api/platforms/kurly/replay", {"limit": 1})
    await ask("POST", "/api/platforms/kurly/drop", {"kind": "drill"})
    await ask("POST", "/api/platforms/kurly/pause", {"by": "me"})
    await ask("GET", "/api/platforms")
    await ask("GET", "/api/platforms/kurly")
    await ask("POST", "/api/platforms/kurly/resume")
    await ask("PATCH", "/api/platforms/kurly", {"attempts": 3})
    await ask("GET", "/api/audit?limit=1")
    await ask("GET", "/api/v2/workers/status")
    await ask("POST", "/api/v2/workers/kurly/restart", expect=202)
    await ask("GET", "/api/platforms/nowhere", expect=404)


async def keep_schedules(ask: Witness) -> None:
    path = "/api/platforms/default/schedules"
    nightly = {"name": "nightly", "kind": "drill", "cron": "0 3 * * *", "options": {"priority": "low", "attempts": 2}}
    await ask("POST", path, nightly)
    await ask("POST", f"{path}/often", {"kind": "drill", "every_seconds": 60})
    await ask("POST", f"{path}/often/pause")
    await ask("GET", path)
    await ask("GET", f"{path}/often")
    await ask("POST", f"{path}/often/resume")
    await ask("DELETE", f"{path}/often", expect=204)
    await ask("GET", f"{path}/often", expect=404)
    await ask("POST", path, {"name": "bad", "kind": "drill"}, expect=422)


async def test_behind_keys_the_answers_are_as_described_too(locked: httpx2.AsyncClient, desk: Desk) -> None:
    ask = Witness(locked, Document(DOCUMENTS[True]))
    await desk.submit("a")
    for method, path in ROUTES:
        need = TABLE[f"{method} {path}"].scope
        for name, value in PLACES.items():
            path = path.replace(name, value)
        if need is not PUBLIC:
            await ask(method, path, expect=401)
        if isinstance(need, Scope):
            other = Scope.READ if need is Scope.SUBMIT else Scope.SUBMIT
            await ask(method, path, expect=403, headers=shown(OF_SCOPE[other]))
    await ask("POST", "/api/session", {"key": "no-such-key"}, expect=401)
    await ask("POST", "/api/session", {"key": WHOLE})
    for secret in (WHOLE, SHOPS):
        await ask("GET", "/api/session", headers=shown(secret))
    ticket = (await ask("POST", "/api/tickets", {"jobId": "research.a"}, headers=shown(WHOLE))).json()["ticket"]
    await ask("GET", f"/research/stream/research.a?ticket={ticket}")
    await ask("GET", f"/research/stream/research.a?ticket={ticket}", expect=401)
    await ask("POST", "/api/jobs", {"platform": "research", "kind": "drill"}, expect=403, headers=shown(SHOPS))
    await ask("GET", "/api/platforms/research/schedules", expect=403, headers=shown(SHOPS))
    await ask("GET", "/api/events?platform=research", expect=403, headers=shown(SHOPS))


def test_every_status_has_a_name() -> None:
    for code in Code:
        assert HTTPStatus(code.status).phrase


def test_the_readme_has_a_row_for_the_document() -> None:
    assert "`GET /openapi.json`" in (Path(CHECKOUT) / "gateway" / "http.md").read_text()


def test_the_router_looks_at_the_routes_that_bring_work_first() -> None:
    """It looks at one after the other, which costs the last of them as much as all before it."""
    groups = [route.said.group for route in create_app(SETTINGS).routes if isinstance(route, Served)]
    assert len(groups) == len(TABLE)
    assert groups[: groups.count("submit")] == ["submit"] * groups.count("submit")
