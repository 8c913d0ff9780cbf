"""What clients leave behind when they go: nothing."""

import asyncio
from contextlib import AsyncExitStack

from gateway.live import Live
from streams.connection import Store
from tests.gateway.event_source import EventSource
from tests.gateway.gateways import gateway_thread
from tests.support.builders import Desk


async def test_a_channel_goes_with_its_last_watcher(valkey_url: str, desk: Desk) -> None:
    held = await desk.start("a")
    await desk.submit("b")
    with gateway_thread(valkey_url) as server:
        live: Live = server.app.state.live
        for key, watched in (("a", 1), ("b", 1), ("none", 0)):
            async with AsyncExitStack() as stack:
                for _ in range(3):
                    source = await stack.enter_async_context(EventSource(server.url, f"research.{key}"))
                    reading = await stack.enter_async_context(source.open())
                    assert reading.response.status_code == 200 if watched else 404
                assert live.count == watched
            await until_empty(live)
        async with EventSource(server.url, "research.a") as source, source.open() as reading:
            await desk.complete(held)
            await reading.rest()
        await until_empty(live)


async def until_empty(live: Live) -> None:
    """A departure is noticed when the connection's end has come through."""
    async with asyncio.timeout(5):
        while live.count:
            await asyncio.sleep(0.01)


async def test_nobody_watching_leaves_the_feed_unread(valkey_url: str, store: Store, desk: Desk) -> None:
    await desk.submit("a")
    with gateway_thread(valkey_url) as server:
        async with EventSource(server.url, "research.a") as source, source.open() as reading:
            await reading.take(1)
            async with asyncio.timeout(10):
                while not await blocked(store):
                    await asyncio.sleep(0.05)
        async with asyncio.timeout(10):
            while await blocked(store):
                await asyncio.sleep(0.05)


async def blocked(store: Store) -> int:
    """How many clients wait on the server."""
    lines = (await store.command("INFO", "clients")).decode().splitlines()
    return next(int(line.partition(":")[2]) for line in lines if line.startswith("blocked_clients:"))
