"""What clients leave behind when they go: nothing."""

from contextlib import AsyncExitStack

from tailrace.gateway.live.live import Live
from tailrace.streams.store.connection import Store
from tests.gateway.event_source import EventSource
from tests.gateway.gateways import gateway_thread
from tests.gateway.watchers import empty
from tests.support.builders import Desk
from tests.support.eventually import eventually


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
            await empty(live)
        async with EventSource(server.url, "research.a") as source, source.open() as reading:
            await desk.complete(held)
            await reading.rest()
        await empty(live)


async def test_nobody_watching_leaves_the_feed_unread(valkey_url: str, store: Store, desk: Desk) -> None:
    await desk.submit("a")
    with gateway_thread(valkey_url) as server:
        async with EventSource(server.url, "research.a") as source, source.open() as reading:
            await reading.take(1)
            await eventually("a client waits on the server", lambda: waits(store))

        async def idle() -> bool:
            return not await waits(store)

        await eventually("no client waits on the server", idle)


async def waits(store: Store) -> bool:
    return b"blocked_clients:0\r" not in await store.command("INFO", "clients")
