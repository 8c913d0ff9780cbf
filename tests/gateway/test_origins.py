"""Pages of other sites: what their visitors' browsers may do here, with keys and without."""

from urllib.parse import urlsplit

import httpx2
import pytest

from tailrace.gateway.access.origins import is_local_name, read_origins
from tailrace.gateway.settings import GatewaySettings
from tailrace.streams.errors import BadConfiguration
from tailrace.streams.process.settings import Environment
from tests.gateway.gateways import gateway_thread
from tests.gateway.keyrings import WHOLE, shown
from tests.gateway.raw import RawClient
from tests.support.builders import Desk

FRIEND = "https://app.example.org"
STRANGER = "https://evil.example"


@pytest.mark.parametrize(
    "host", ["127.0.0.1:3989", "localhost", "LOCALHOST:1", "[::1]:3989", "a.localhost", "gateway:80", "10.1.2.3", "x"]
)
def test_a_stranger_cannot_own_such_a_name(host: str) -> None:
    assert is_local_name(host.encode())


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:3989", "localhost.evil.example", "a.b.", "::"]
)
def test_a_stranger_may_own_such_a_name(host: str) -> None:
    assert is_local_name(host.encode()) is (host == "::")


async def test_without_keys_a_name_of_a_stranger_is_not_ours(http: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a")
    for path in ("/healthz", "/research/history/research.a", "/research/stream/research.a", "/"):
        answer = await http.get(path, headers={"Host": "rebound.evil.example:3989"})
        assert (answer.status_code, answer.json()["code"]) == (421, "OTHER_HOST"), path
    assert (await http.get("/research/history/research.a", headers={"Host": "localhost"})).status_code == 200


async def test_without_keys_a_page_of_a_stranger_cannot_act(http: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a")
    for headers in ({"Origin": STRANGER}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        answer = await http.post("/api/jobs/research.a/cancel", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "FOREIGN_ORIGIN"), headers
    host = http.base_url.netloc.decode()
    for headers in ({}, {"Origin": f"http://{host}"}, {"Sec-Fetch-Site": "same-origin"}):
        assert (await http.post("/api/jobs/research.a/cancel", headers=headers)).status_code == 200, headers


async def test_without_a_list_nobody_may_read_our_answers(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/api/platforms", headers={"Origin": STRANGER})
    assert not [name for name in answer.headers if name.startswith("access-control")]
    asked = {"Origin": STRANGER, "Access-Control-Request-Method": "POST"}
    answer = await http.options("/api/jobs", headers=asked)
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_a_page_of_an_allowed_origin_may_read_our_answers(locked: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a")
    for path in ("/research/history/research.a", "/api/platforms", "/nothing"):
        answer = await locked.get(path, headers={**shown(WHOLE), "Origin": FRIEND})
        assert answer.headers["access-control-allow-origin"] == FRIEND
        assert "Origin" in answer.headers["vary"]
        assert "access-control-allow-credentials" not in answer.headers
    async with locked.stream(
        "GET", "/research/stream/research.a", headers={**shown(WHOLE), "Origin": FRIEND}
    ) as response:
        assert response.headers["access-control-allow-origin"] == FRIEND
    answer = await locked.get("/api/platforms", headers={**shown(WHOLE), "Origin": STRANGER})
    assert "access-control-allow-origin" not in answer.headers
    assert "Origin" in answer.headers["vary"], "no cache may mix them up"


async def test_a_browser_may_ask_before_it_sends_a_key(locked: httpx2.AsyncClient) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    answer = await locked.options("/api/jobs", headers={**asked, "Origin": FRIEND})
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == FRIEND
    assert "Authorization" in answer.headers["access-control-allow-headers"]
    answer = await locked.options("/api/jobs", headers={**asked, "Origin": STRANGER})
    assert answer.status_code == 401
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.usefixtures("untroubled")
async def test_the_host_of_an_allowed_origin_is_one_of_our_names(valkey_url: str) -> None:
    with gateway_thread(valkey_url, {"TAILRACE_CORS_ORIGINS": FRIEND}) as gateway:
        async with httpx2.AsyncClient(base_url=gateway.url, verify=False) as http:
            assert (await http.get("/healthz", headers={"Host": "app.example.org"})).status_code == 200
            assert (await http.get("/healthz", headers={"Host": "evil.example"})).status_code == 421


@pytest.mark.parametrize(
    "word", ["*", "example.org", "https://", "https://a.b/path", "ftp://a.b", "null", "https://a.b/", "http://["]
)
def test_an_origin_is_written_as_browsers_write_it(word: str) -> None:
    with pytest.raises(BadConfiguration, match="TAILRACE_CORS_ORIGINS"):
        GatewaySettings.read(Environment({"TAILRACE_CORS_ORIGINS": word}))


def test_several_origins_may_be_allowed() -> None:
    assert read_origins(["https://A.b:8443", "http://c"]) == {"https://a.b:8443", "http://c"}


FOREIGN = (
    "null",
    "https://evil.example",
    f"{FRIEND}.evil.example",
    "https://evilapp.example.org",
    "https://sub.app.example.org",
    "https://example.org",
    f"{FRIEND}:8443",
    f"{FRIEND}/",
    "http://app.example.org",
    f"{FRIEND}@evil.example",
    f"https://evil.example/{FRIEND}",
    f"{FRIEND}, https://evil.example",
    "*",
    "http://[",
    "http://[::1",
    "://",
    "file://",
    "\xff",
)


@pytest.mark.parametrize("origin", FOREIGN)
async def test_no_other_origin_is_reflected_or_may_act(locked: httpx2.AsyncClient, desk: Desk, origin: str) -> None:
    await desk.submit("a")
    session = (await locked.post("/api/session", json={"key": WHOLE})).headers["set-cookie"].partition(";")[0]
    locked.cookies.clear()
    key = f"Authorization: Bearer {WHOLE}"
    async with RawClient(str(locked.base_url)) as raw:
        said = f"Origin: {origin}"
        for method, target, lines in (
            ("GET", "/api/platforms", (key,)),
            ("GET", "/research/history/research.a", (key,)),
            ("GET", "/nothing", (key,)),
            ("GET", "/api/platforms", ()),
            ("OPTIONS", "/api/jobs", (key, "Access-Control-Request-Method: POST")),
            ("GET", "/research/stream/research.a", (key,)),
        ):
            answer = await raw.ask(method, target, said, *lines)
            assert answer.status < 500
            assert not [name for name, _ in answer.headers if name.startswith("access-control-")], (method, target)
            assert "Origin" in answer.get("vary")
        answer = await raw.ask("POST", "/api/jobs/research.a/cancel", said, f"Cookie: {session}")
        assert (answer.status, b"FOREIGN_ORIGIN" in answer.body) == (403, True)
        answer = await raw.ask("POST", "/api/session", said, key)
        assert answer.status == 403
        assert not answer.get("set-cookie")
        assert (await raw.ask("GET", "/api/jobs/research.a", key)).body.count(b'"waiting"')


@pytest.mark.parametrize("host", ["[", "[::1", "a b", "a/b", "a@b", "x:y", "\xff", "a\\b", "%00", "<b>", ""])
async def test_a_host_that_is_none_breaks_nothing(gateway: str, locked: httpx2.AsyncClient, host: str) -> None:
    for url in (gateway, str(locked.base_url)):
        async with RawClient(url) as raw:
            for target in ("/", "/healthz", "/jobs/x", "/api/platforms"):
                answer = await raw.ask("GET", target, f"Host: {host}")
                assert answer.status < 500, target
                assert host == "" or host.encode("latin-1") not in answer.body or host in {"x:y", "%00"}


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "evil.example.", "a.local", "0x7f.0.0.1"],
)
async def test_a_rebound_name_reaches_nothing_without_keys(gateway: str, desk: Desk, host: str) -> None:
    await desk.submit("a")
    async with RawClient(gateway) as raw:
        for method, target in (
            ("GET", "/research/history/research.a"),
            ("GET", "/research/stream/research.a"),
            ("GET", "/api/events"),
            ("POST", "/api/jobs/research.a/cancel"),
            ("GET", f"http://127.0.0.1:{urlsplit(gateway).port}/api/platforms"),
            ("GET", "/"),
        ):
            answer = await raw.ask(method, target, f"Host: {host}")
            assert answer.status == 421, target
            assert b"research" not in answer.body
