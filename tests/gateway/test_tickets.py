"""Credentials of browsers: one-use tickets, and the cookie of a person who signed in."""

import asyncio
import hashlib

import httpx2
import pytest

from tailrace.gateway.access.api_keys import Scope
from tailrace.streams.keys import Keyspace
from tailrace.streams.store.connection import Store
from tests.gateway.event_source import EventSource
from tests.gateway.keyrings import OF_SCOPE, SHOPS, UNKNOWN, VIEWER, WHOLE, shown
from tests.support.builders import Desk, dump


async def ticket(http: httpx2.AsyncClient, job_id: str, secret: str = WHOLE) -> str:
    answer = await http.post("/api/tickets", json={"jobId": job_id}, headers=shown(secret))
    assert answer.status_code == 200, answer.text
    assert 0 < answer.json()["expiresIn"] <= 60
    return str(answer.json()["ticket"])


async def stream_status(gateway: str, job_id: str, shown_ticket: str) -> int:
    async with EventSource(gateway, job_id) as source:
        source.url += f"?ticket={shown_ticket}"
        async with source.open() as reading:
            return reading.response.status_code


def hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


async def test_a_ticket_opens_one_stream_once_at_any_gateway(
    locked: httpx2.AsyncClient, locked_gateways: tuple[str, str], desk: Desk
) -> None:
    await desk.complete(await desk.start("a"))
    got = await ticket(locked, "research.a", OF_SCOPE[Scope.READ])
    async with EventSource(locked_gateways[1], "research.a") as source:
        source.url += f"?ticket={got}"
        async with source.open() as reading:
            assert [message.event for message in await reading.rest()] == ["message"] * 3 + ["end"]
    for gateway in locked_gateways:
        assert await stream_status(gateway, "research.a", got) == 401


async def test_of_many_who_come_with_one_ticket_one_is_let_in(
    locked: httpx2.AsyncClient, locked_gateways: tuple[str, str], desk: Desk
) -> None:
    await desk.submit("a")
    got = await ticket(locked, "research.a")
    tries = [stream_status(locked_gateways[number % 2], "research.a", got) for number in range(10)]
    assert sorted(await asyncio.gather(*tries)) == [200] + [401] * 9


async def test_a_ticket_of_another_job_is_refused_and_gone(locked: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a")
    await desk.submit("b")
    got = await ticket(locked, "research.a")
    assert await stream_status(str(locked.base_url), "research.b", got) == 401
    assert await stream_status(str(locked.base_url), "research.a", got) == 401


async def test_a_ticket_does_not_last(locked: httpx2.AsyncClient, desk: Desk, store: Store) -> None:
    await desk.submit("a")
    got = await ticket(locked, "research.a")
    name = Keyspace().ticket(hashed(got))
    assert 0 < await store.command("PTTL", name) <= 60_000
    await store.command("PEXPIRE", name, 1)
    await asyncio.sleep(0.01)  # the time itself is what is tested
    assert await stream_status(str(locked.base_url), "research.a", got) == 401


async def test_a_ticket_is_good_for_the_stream_of_its_job_only(locked: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a")
    got = await ticket(locked, "research.a")
    for method, path in (
        ("GET", "/research/history/research.a"),
        ("GET", "/api/jobs/research.a"),
        ("GET", "/api/events"),
        ("GET", "/api/platforms"),
        ("POST", "/api/jobs/research.a/cancel"),
        ("POST", "/research/stream/research.a"),
        ("POST", "/api/tickets"),
    ):
        assert (await locked.request(method, path, params={"ticket": got})).status_code == 401, path
    assert await stream_status(str(locked.base_url), "research.a", got) == 200


async def test_tickets_are_for_jobs_that_the_key_may_see(locked: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a")

    async def asked(secret: str, job_id: str) -> tuple[int, str]:
        answer = await locked.post("/api/tickets", json={"jobId": job_id}, headers=shown(secret))
        return answer.status_code, answer.text.replace(job_id, "ID")

    assert (await asked(OF_SCOPE[Scope.SUBMIT], "research.a"))[0] == 403
    foreign = await asked(VIEWER, "research.a")
    assert foreign[0] == 404
    assert foreign == await asked(VIEWER, "ably.none") == await asked(VIEWER, "x") == await asked(WHOLE, "research.no")


async def test_a_ticket_of_a_limited_key_is_served(locked: httpx2.AsyncClient, store: Store) -> None:
    await Desk(store, "ably").submit("a")
    got = await ticket(locked, "ably.a", VIEWER)
    assert await stream_status(str(locked.base_url), "ably.a", got) == 200


async def test_the_store_does_not_know_what_would_let_somebody_in(
    locked: httpx2.AsyncClient, desk: Desk, store: Store
) -> None:
    await desk.submit("a")
    held = [await ticket(locked, "research.a"), await sign_in(locked)]
    kept = str(await dump(store))
    assert "ticket" in kept
    assert not [word for word in (*held, WHOLE, hashed(WHOLE)) if word in kept]


async def test_without_keys_a_client_that_asks_for_tickets_works_too(
    http: httpx2.AsyncClient, gateway: str, desk: Desk
) -> None:
    await desk.submit("a")
    got = (await http.post("/api/tickets", json={"jobId": "research.a"})).json()["ticket"]
    assert await stream_status(gateway, "research.a", got) == 200
    assert (await http.get("/api/session")).json()["data"]["scopes"] == ["submit", "read", "act", "admin"]
    assert "set-cookie" not in (await http.post("/api/session", json={})).headers


# The cookie

OWN = {"Origin": "http://127.0.0.1"}


async def sign_in(http: httpx2.AsyncClient, secret: str = WHOLE, **headers: str) -> str:
    """The value of the cookie. The client does not keep it: each test says when it is sent."""
    answer = await http.post("/api/session", json={"key": secret}, headers=headers)
    assert answer.status_code == 200, answer.text
    http.cookies.clear()
    name, _, value = answer.headers["set-cookie"].partition(";")[0].partition("=")
    assert name == "tailrace_session"
    return str(value)


def cookie(value: str) -> dict[str, str]:
    return {"Cookie": f"theme=dark; tailrace_session={value}; other=1"}


async def test_a_cookie_is_kept_from_scripts_and_other_sites(locked: httpx2.AsyncClient, store: Store) -> None:
    answer = await locked.post("/api/session", json={"key": WHOLE})
    words = {word.strip() for word in answer.headers["set-cookie"].split(";")}
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= words
    assert "Secure" not in words, "a browser would not send it back to plain http"
    assert WHOLE not in answer.headers["set-cookie"]
    host = locked.base_url.netloc.decode()
    answer = await locked.post("/api/session", json={"key": WHOLE}, headers={"Origin": f"https://{host}"})
    assert "Secure" in answer.headers["set-cookie"]


async def test_who_signed_in_may_look_and_follow_at_any_gateway(
    locked: httpx2.AsyncClient, locked_gateways: tuple[str, str], desk: Desk
) -> None:
    await desk.submit("a")
    held = cookie(await sign_in(locked))
    for gateway in locked_gateways:
        for path in ("/research/history/research.a", "/api/platforms", "/api/session"):
            assert (await locked.get(gateway + path, headers=held)).status_code == 200
        async with locked.stream("GET", f"{gateway}/research/stream/research.a", headers=held) as response:
            assert response.status_code == 200


async def test_a_session_may_do_what_its_key_may(locked: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a")
    held = cookie(await sign_in(locked, SHOPS))
    assert (await locked.get("/research/history/research.a", headers=held)).status_code == 404
    held = cookie(await sign_in(locked, OF_SCOPE[Scope.SUBMIT]))
    assert (await locked.get("/research/history/research.a", headers=held)).status_code == 403


async def test_with_a_cookie_only_our_own_page_may_act(locked: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a")
    held = cookie(await sign_in(locked))
    host = locked.base_url.netloc.decode()
    for foreign in (
        {},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://{host}.evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": f"http://{host}"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "same-site", "Origin": "https://app.example.org"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "https://app.example.org"},
    ):
        answer = await locked.post("/api/jobs/research.a/cancel", headers={**held, **foreign})
        assert (answer.status_code, answer.json()["code"]) == (403, "FOREIGN_ORIGIN"), foreign
    for ours in (
        {"Origin": f"http://{host}"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Origin": "https://app.example.org"},
    ):
        answer = await locked.post("/api/jobs/research.a/cancel", headers={**held, **ours})
        assert answer.status_code == 200, ours


async def test_nobody_is_signed_in_from_another_page(locked: httpx2.AsyncClient) -> None:
    answer = await locked.post("/api/session", json={"key": WHOLE}, headers={"Origin": "https://evil.example"})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


async def test_signing_out_ends_the_session_everywhere(
    locked: httpx2.AsyncClient, locked_gateways: tuple[str, str], store: Store
) -> None:
    value = await sign_in(locked)
    held = {**cookie(value), "Sec-Fetch-Site": "same-origin"}
    assert await store.command("PTTL", Keyspace().session(hashed(value))) > 60_000
    answer = await locked.delete("/api/session", headers=held)
    assert answer.status_code == 204
    assert "Max-Age=0" in answer.headers["set-cookie"]
    for gateway in locked_gateways:
        assert (await locked.get(f"{gateway}/api/platforms", headers=held)).status_code == 401


@pytest.mark.parametrize("value", ["", "x", "trs_", "%00", '"', "a" * 5000, "é", "../../x"])
async def test_a_cookie_that_is_none_is_no_cookie(locked: httpx2.AsyncClient, value: str) -> None:
    headers = [(b"Cookie", b"tailrace_session=" + value.encode())]
    assert (await locked.get("/api/platforms", headers=headers)).status_code == 401


async def test_a_wrong_key_does_not_fall_back_to_the_cookie(locked: httpx2.AsyncClient) -> None:
    held = cookie(await sign_in(locked))
    assert (await locked.get("/api/platforms", headers={**held, **shown(UNKNOWN)})).status_code == 401
