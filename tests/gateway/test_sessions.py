"""Keys that change, sessions and tickets: they allow no more than a key does, and for no longer."""

import asyncio
import hashlib
from collections.abc import AsyncIterator

import httpx2
import pytest

from tailrace.gateway.access.api_keys import Keys, Scope
from tailrace.gateway.application import TABLE
from tailrace.producers.platforms import BUILT_IN
from tailrace.streams.keys import Keyspace
from tailrace.streams.store.connection import Store
from tests.gateway.costs import TRIES, commands
from tests.gateway.gateways import gateway_thread
from tests.gateway.keyrings import NEW, OF_SCOPE, OLD, UNKNOWN, VIEWER, WHOLE, shown
from tests.gateway.raw import RawClient
from tests.gateway.routes import CLOSED, filled
from tests.support.builders import Desk


def keys(text: str) -> Keys:
    return Keys.read(text, BUILT_IN)


async def test_what_a_removed_key_opened_is_closed_with_it(valkey_url: str, desk: Desk) -> None:
    await desk.submit("a")
    stream = "/research/stream/research.a"
    with (
        gateway_thread(valkey_url, keys=keys(f"{OLD},{NEW}")) as first,
        gateway_thread(valkey_url, keys=keys(f"{NEW},{UNKNOWN}")) as then,
        gateway_thread(valkey_url, keys=keys(f"{OLD}:submit,{NEW}::ably")) as limited,
    ):
        async with httpx2.AsyncClient(timeout=20, verify=False) as http:

            async def signed_in(secret: str) -> dict[str, str]:
                answer = await http.post(f"{first.url}/api/session", json={"key": secret})
                http.cookies.clear()
                return {"Cookie": answer.headers["set-cookie"].partition(";")[0]}

            async def ticket(secret: str) -> str:
                body = {"jobId": "research.a"}
                answer = await http.post(f"{first.url}/api/tickets", json=body, headers=shown(secret))
                return f"{stream}?ticket={answer.json()['ticket']}"

            async def status(url: str, headers: dict[str, str] | None = None) -> int:
                async with http.stream("GET", url, headers=headers or {}) as answer:
                    return answer.status_code

            old, new = await signed_in(OLD), await signed_in(NEW)
            assert await status(first.url + stream, old) == await status(then.url + stream, new) == 200
            assert await status(then.url + stream, old) == 401
            assert await status(then.url + await ticket(OLD)) == 401
            assert await status(then.url + stream, shown(OLD)) == 401
            assert await status(then.url + await ticket(NEW)) == 200
            assert await status(limited.url + stream, old) == await status(limited.url + await ticket(OLD)) == 403
            assert await status(limited.url + stream, new) == await status(limited.url + await ticket(NEW)) == 404
            assert await status(first.url + stream, old) == 200, "where the key is known it goes on"


# Sessions


async def test_nobody_chooses_the_session_of_somebody_else(locked: httpx2.AsyncClient) -> None:
    chosen = "trs_" + "a" * 43
    held = {"Cookie": f"tailrace_session={chosen}"}
    answer = await locked.post("/api/session", json={"key": WHOLE}, headers=held)
    locked.cookies.clear()
    given = answer.headers["set-cookie"]
    assert answer.status_code == 200
    assert chosen not in given
    assert (await locked.get("/api/platforms", headers=held)).status_code == 401
    again = await locked.post("/api/session", json={"key": WHOLE}, headers={"Cookie": given.partition(";")[0]})
    locked.cookies.clear()
    assert again.headers["set-cookie"].partition(";")[0] != given.partition(";")[0]
    old = await locked.get("/api/platforms", headers={"Cookie": given.partition(";")[0]})
    assert old.status_code == 401, "who signs in again leaves nothing open behind"


async def test_who_has_no_key_yet_cannot_make_us_keep_much(locked: httpx2.AsyncClient) -> None:
    for size, status in ((3000, 401), (5000, 413), (900_000, 413)):
        body = b'{"key":"%b"}' % (b"x" * size)
        for content in (body, parts(body)):
            answer = await locked.post("/api/session", content=content, headers={"Content-Type": "application/json"})
            assert answer.status_code == status, size


async def parts(body: bytes) -> AsyncIterator[bytes]:
    for place in range(0, len(body), 1000):
        yield body[place : place + 1000]


async def test_a_session_ends_with_its_time(locked: httpx2.AsyncClient, store: Store) -> None:
    answer = await locked.post("/api/session", json={"key": WHOLE})
    locked.cookies.clear()
    cookie = answer.headers["set-cookie"].partition(";")[0]
    name = Keyspace().session(hashlib.sha256(cookie.partition("=")[2].encode()).hexdigest())
    assert 0 < await store.command("PTTL", name) <= 12 * 3600 * 1000
    await store.command("PEXPIRE", name, 1)
    await asyncio.sleep(0.01)  # the time itself is what is tested
    assert (await locked.get("/api/platforms", headers={"Cookie": cookie})).status_code == 401


async def test_cookies_of_others_do_not_hide_ours(locked: httpx2.AsyncClient) -> None:
    answer = await locked.post("/api/session", json={"key": WHOLE})
    locked.cookies.clear()
    ours = answer.headers["set-cookie"].partition(";")[0]
    async with RawClient(str(locked.base_url)) as raw:
        for others in ('a={"b":[1,2]}', "=", "x", "a b=c d", 'q="un;closed', "\x80=\xff", "tailrace_session_old=1"):
            for line in (f"Cookie: {others}; {ours}", f"Cookie: {ours}; {others}", f"Cookie:  {others} ;{ours};"):
                assert (await raw.ask("GET", "/api/platforms", line)).status == 200, line
            assert (await raw.ask("GET", "/api/platforms", f"Cookie: {others}", f"Cookie: {ours}")).status == 200
        assert (await raw.ask("GET", "/api/platforms", f"Cookie: x{ours}")).status == 401


async def test_what_cannot_have_been_given_out_costs_the_store_nothing(
    locked: httpx2.AsyncClient, store: Store
) -> None:
    async def cost(path: str, **headers: str) -> int:
        costs = []
        for _ in range(TRIES):
            before = await commands(store)
            assert (await locked.get(path, headers=headers)).status_code == 401
            costs.append(await commands(store) - before)
        return min(costs)

    least = await cost("/api/platforms")
    for value in ("x", "trs_x", "trt_" + "a" * 43, "a" * 4000):
        assert await cost("/api/platforms", Cookie=f"tailrace_session={value}") == least, value
        assert await cost(f"/research/stream/research.a?ticket={value}") == least, value
    assert await cost("/api/platforms", Cookie=f"tailrace_session=trs_{'a' * 43}") == least + 1


@pytest.mark.parametrize("scope", Scope)
async def test_a_session_is_good_for_as_much_as_its_key(locked: httpx2.AsyncClient, scope: Scope) -> None:
    answer = await locked.post("/api/session", json={"key": OF_SCOPE[scope]})
    locked.cookies.clear()
    held = {"Cookie": answer.headers["set-cookie"].partition(";")[0], "Sec-Fetch-Site": "same-origin"}
    assert answer.json() == (await locked.get("/api/session", headers=shown(OF_SCOPE[scope]))).json()
    for method, path in CLOSED:
        if path == "/api/session":
            continue
        need = TABLE[f"{method} {path}"].scope
        async with locked.stream(method, filled(path), headers=held) as response:
            assert (response.status_code != 403) is (scope in {Scope.ADMIN, need}), f"{method} {path}"
            assert response.status_code != 401


async def test_a_ticket_does_not_widen_what_another_key_may_see(locked: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a")
    answer = await locked.post("/api/tickets", json={"jobId": "research.a"}, headers=shown(WHOLE))
    path = f"/research/stream/research.a?ticket={answer.json()['ticket']}"
    assert (await locked.get(path, headers=shown(VIEWER))).status_code == 404, "the key that is shown counts"
    assert (await locked.get(path, headers=shown(OF_SCOPE[Scope.SUBMIT]))).status_code == 403
    assert (await locked.get(path, headers=shown(UNKNOWN))).status_code == 401
    async with locked.stream("GET", path) as response:
        assert response.status_code == 200, "it has not been used so far"
