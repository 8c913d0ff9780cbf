"""Pages of other sites: what their visitors' browsers may do here, with keys and without."""

import httpx2
import pytest

from gateway.origins import is_local_name, read_origins
from gateway.settings import GatewaySettings
from streams.errors import BadConfiguration
from streams.settings import Environment
from tests.gateway.gateways import GatewayProcess
from tests.gateway.keyrings import WHOLE, shown
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


async def test_the_host_of_an_allowed_origin_is_one_of_our_names(valkey_url: str) -> None:
    with GatewayProcess(valkey_url, {"TAILRACE_CORS_ORIGINS": FRIEND}) as process:
        async with httpx2.AsyncClient(base_url=process.url, verify=False) as http:
            assert (await http.get("/healthz", headers={"Host": "app.example.org"})).status_code == 200
            assert (await http.get("/healthz", headers={"Host": "evil.example"})).status_code == 421


@pytest.mark.parametrize(
    "word", ["*", "example.org", "https://", "https://a.b/path", "ftp://a.b", "null", "https://a.b/"]
)
def test_an_origin_is_written_as_browsers_write_it(word: str) -> None:
    with pytest.raises(BadConfiguration, match="TAILRACE_CORS_ORIGINS"):
        GatewaySettings.read(Environment({"TAILRACE_CORS_ORIGINS": word}))


def test_several_origins_may_be_allowed() -> None:
    assert read_origins(["https://A.b:8443", "http://c"]) == {"https://a.b:8443", "http://c"}
