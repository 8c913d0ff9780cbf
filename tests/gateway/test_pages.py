"""The page over HTTP: who gets it, with which headers, and what its folder does not give away."""

import gzip
import re
from posixpath import dirname, normpath
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest

from tailrace.gateway.routes.pages import FOLDER, MEDIA_TYPES, POLICY
from tailrace.streams.views.presence import PATIENCE_SECONDS
from tests.gateway.raw import answer_to
from tests.support.builders import Desk
from tests.support.eventually import eventually
from tests.support.problems import problem_of

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.mark.parametrize("accept", ["*/*", "application/json", "", "text/html;q=0, */*", "text/plain"])
async def test_a_client_that_is_no_browser_gets_a_few_words(http: httpx2.AsyncClient, accept: str) -> None:
    answer = await http.get("/", headers={"Accept": accept})
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.text.startswith("Tailrace serves here")
    assert f"{http.base_url}" in answer.text
    assert "API_KEY" not in answer.text
    assert "Accept" in answer.headers["vary"]


async def test_a_browser_gets_the_page(http: httpx2.AsyncClient) -> None:
    for path in ("/", "/?platform=research&state=failed", "/jobs/research.a", "/jobs/no-such-job"):
        answer = await http.get(path, headers=BROWSER)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.text == (FOLDER / "index.html").read_text()


FILES = {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in FOLDER.rglob("*.*")}


@pytest.mark.parametrize("name", sorted(FILES))
async def test_each_file_has_its_type_and_is_shut(http: httpx2.AsyncClient, name: str) -> None:
    answer = await http.get(f"/page/{name}")
    assert answer.content == FILES[name]
    assert answer.headers["content-type"] == MEDIA_TYPES["." + name.rpartition(".")[2]]
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-cache"
    assert (await http.head(f"/page/{name}")).status_code == 200


def test_the_policy_lets_nothing_in_from_elsewhere() -> None:
    assert "default-src 'none'" in POLICY
    assert "unsafe" not in POLICY
    assert "*" not in POLICY


async def test_what_a_browser_has_is_not_sent_again(http: httpx2.AsyncClient) -> None:
    plain = await http.get("/page/main.js", headers={"Accept-Encoding": "identity"})
    packed = await http.get("/page/main.js", headers={"Accept-Encoding": "gzip, br"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == plain.content
    assert packed.headers["etag"] != plain.headers["etag"]
    for known in (plain.headers["etag"], f'"other", W/{plain.headers["etag"]}'):
        answer = await http.get("/page/main.js", headers={"Accept-Encoding": "identity", "If-None-Match": known})
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["etag"] == plain.headers["etag"]
    assert (await http.get("/page/main.js", headers={"If-None-Match": '"other"'})).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/page/",
        "/page/none.js",
        "/page/../application.py",
        "/page/..%2fapplication.py",
        "/page/%2e%2e%2fapplication.py",
        "/page/a/b",
        "/page/job/../main.js",
    ],
)
async def test_nothing_else_is_served(gateway: str, path: str) -> None:
    """As bytes, because a client would tidy the path up."""
    host = urlsplit(gateway).netloc
    request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    answer = await answer_to(gateway, request.encode())
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b'"NOT_FOUND"' in answer


def needed_by(name: str) -> set[str]:
    """A script and all that it imports at once."""
    found = re.findall(r'^import .* from "(.*)";$', FILES[name].decode(), re.MULTILINE)
    return {name}.union(*(needed_by(normpath(f"{dirname(name)}/{each}".lstrip("/"))) for each in found))


def test_the_page_is_small_and_needs_nothing_from_elsewhere() -> None:
    """No view loads more than 60 KB, unpacked, and what loads on an action is small; packed, it is a third."""
    loaded_at_once = set()
    for view in ("platforms/overview.js", "platforms/list.js", "job/job.js"):
        sheet = "job/job.css" if view == "job/job.js" else "platforms/overview.css"
        loaded = needed_by(view) | needed_by("main.js") | {"index.html", "style.css", sheet, "theme.js", "icon.svg"}
        assert sum(len(FILES[name]) for name in loaded) < 60 * 1024, view
        assert sum(len(gzip.compress(FILES[name])) for name in loaded) < 24 * 1024, view
        loaded_at_once |= loaded
    late = FILES.keys() - loaded_at_once
    assert {"dialogs/dialog.css", "dialogs/submit.js", "job/actions.js", "job/waiting.js", "platforms/bulk.js"} <= late
    assert all(len(FILES[name]) < 5 * 1024 for name in late)
    for name, body in FILES.items():
        text = body.decode().replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in text, name
        assert "https:" not in text, name
        assert "innerHTML" not in text, name


async def test_args_are_told_while_they_are_kept(http: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a", args=b'{"steps":3}')
    answer = await http.get("/api/jobs/research.a/args")
    assert answer.json() == {"data": {"jobId": "research.a", "kept": True, "args": {"steps": 3}}}
    (held,) = await desk.claim()
    await desk.complete(held)
    answer = await http.get("/api/jobs/research.a/args")
    assert answer.json() == {"data": {"jobId": "research.a", "kept": False, "args": None}}
    problem_of(await http.get("/api/jobs/research.none/args"), 404, "JOB_NOT_FOUND")


async def test_what_steps_gave_is_told_by_name_while_it_is_kept(http: httpx2.AsyncClient, desk: Desk) -> None:
    held = await desk.start("a")
    answer = await http.get("/api/jobs/research.a/steps")
    assert answer.json() == {"data": {"jobId": "research.a", "steps": []}}
    await desk.transitions.save(desk.keys, "a", held.nonce, "fetch <b>", b'{"pages":[1,2]}')
    assert (await http.get("/api/jobs/research.a/steps")).json()["data"]["steps"] == ["fetch <b>"]
    answer = await http.get("/api/jobs/research.a/steps", params={"name": "fetch <b>"})
    assert answer.json() == {"data": {"jobId": "research.a", "name": "fetch <b>", "value": {"pages": [1, 2]}}}
    problem_of(await http.get("/api/jobs/research.a/steps", params={"name": "none"}), 404, "STEP_NOT_FOUND")
    problem_of(await http.get("/api/jobs/research.none/steps"), 404, "JOB_NOT_FOUND")


async def test_the_first_look_waits_for_no_beat(http: httpx2.AsyncClient, desk: Desk) -> None:
    """A consumer that beats once is not known to live; with `wait=0` it is shown at once all the same."""
    await desk.transitions.beat([(desk.keys, [])], "once", b"{}")
    status = "/api/v2/workers/status"
    for path in ("/api/platforms", "/api/platforms/research", status):
        began = anyio.current_time()
        answer = await http.get(path, params={"wait": "0"})
        assert anyio.current_time() - began < PATIENCE_SECONDS
        assert answer.status_code == 200
        assert problem_of(await http.get(path, params={"wait": "soon"}), 422, "WRONG_FIELD")["field"] == "wait"

    async def told() -> bool:  # a look for another client may be half a second old
        workers = (await http.get(status, params={"wait": "0"})).json()["data"]["workers"]
        return [worker["worker_id"] for worker in workers] == ["once"]

    await eventually("it is shown", told)
