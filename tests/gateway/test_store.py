"""The store behind the gateway, for the head of the page."""

import httpx2

from tailrace.streams.store.connection import Store, info_fields
from tailrace.streams.store.server import read_server
from tests.gateway import keyrings
from tests.support.builders import untouched


async def test_the_store_is_named_with_its_version_and_memory(http: httpx2.AsyncClient, store: Store) -> None:
    async with untouched(store):
        data = (await http.get("/api/store")).json()["data"]
    assert list(data) == ["server", "version", "memoryBytes", "memoryLimitBytes", "nodes"]
    assert data["nodes"] is None, "not a cluster"
    assert data["server"] in {"valkey", "redis"}
    told = info_fields(await store.command("INFO", "server"))
    assert data["version"] == told[f"{data['server']}_version"]
    assert data["memoryBytes"] > 100_000


async def test_each_kind_of_server_tells_who_it_is(store_url: str) -> None:
    async with Store(store_url) as store:
        before = await store.command("CONFIG", "GET", "maxmemory")
        await store.command("CONFIG", "SET", "maxmemory", 500_000_000)
        server = await read_server(store)
        await store.command("CONFIG", "SET", "maxmemory", before[1])
    assert server.name in {"valkey", "redis"}
    assert server.version[0].isdigit()
    assert server.memory_limit_bytes == 500_000_000


async def test_who_may_not_see_all_platforms_is_not_told_what_they_take(locked: httpx2.AsyncClient) -> None:
    data = (await locked.get("/api/store", headers=keyrings.shown(keyrings.SHOPS))).json()["data"]
    assert data["server"]
    assert (data["memoryBytes"], data["memoryLimitBytes"]) == (None, None)
    whole = (await locked.get("/api/store", headers=keyrings.shown(keyrings.WHOLE))).json()["data"]
    assert whole["memoryBytes"] > 0
