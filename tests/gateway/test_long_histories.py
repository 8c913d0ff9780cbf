"""A job with a hundred thousand events: what is asked of it costs what is answered, and nothing holds up the others."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest

from tailrace.gateway.live.live import Live
from tailrace.streams.errors import WrongField
from tailrace.streams.history.pages import Histories
from tailrace.streams.messages import Claim
from tailrace.streams.store.connection import Store
from tests.gateway.event_source import EventSource
from tests.gateway.holding import longest_hold
from tests.gateway.watchers import Idle
from tests.support.builders import Desk

MANY = 100_000
REPORTS = """
for n = 3, tonumber(ARGV[1]) do
  local id = n .. '-' .. ARGV[2] .. string.format('%06d', n)
  redis.call('RPUSH', KEYS[1], id .. ' 1 progress ann ' .. n .. '}')
end"""
PAGE_BYTES = 64 * 1024  # that the store may send for a page, and all around it


async def lengthen(desk: Desk, held: Claim, count: int = MANY) -> None:
    """Give a running job a history of this many events, as its reports would."""
    record = await desk.record(held.key)
    million = int((record.started or "").partition("-")[2]) // 10**6 + 1  # the next one: later than the start
    await desk.keep_start(held)
    await desk.store.command("EVAL", REPORTS, 1, desk.keys.log(held.key), count, million)
    await desk.set_back(held, count, count)


async def bytes_sent(store: Store) -> int:
    found = re.search(rb"total_net_output_bytes:([0-9]+)", await store.command("INFO", "stats"))
    assert found
    return int(found[1])


async def id_of(desk: Desk, key: str, number: int) -> str:
    entry: bytes = await desk.store.command("LINDEX", desk.keys.log(key), number - 2)
    return entry.split(b" ")[0].decode()


@pytest.fixture
async def ended(desk: Desk) -> str:
    """The key of a job that has ended after as many events."""
    held = await desk.start("long")
    await lengthen(desk, held)
    await desk.complete(held, "done")
    return "long"


Ask = Callable[[Histories, Desk], Awaitable[Any]]

PAGES: dict[str, Ask] = {
    "the first page": lambda histories, desk: histories.page(desk.keys, "long", "", 10),
    "a page near the end": lambda histories, desk: after(histories, desk, MANY - 3, 10),
    "a page without a limit near the end": lambda histories, desk: after(histories, desk, MANY - 30, None),
    "a page of the current attempt": lambda histories, desk: histories.page(desk.keys, "long", "", 10, current=True),
    "a job as it is now": lambda histories, desk: histories.end(desk.keys, "long"),
}


async def after(histories: Histories, desk: Desk, number: int, limit: int | None) -> Any:
    return await histories.page(desk.keys, "long", await id_of(desk, "long", number), limit)


@pytest.mark.parametrize("ask", PAGES.values(), ids=PAGES)
async def test_a_page_costs_what_it_shows(desk: Desk, store: Store, ended: str, ask: Ask) -> None:
    async def asked() -> None:
        before = await bytes_sent(store)
        page = await ask(Histories(store), desk)
        assert 0 < len(page.events) < 40
        assert await bytes_sent(store) - before < PAGE_BYTES

    assert (await longest_hold(asked)).is_short


async def test_a_whole_history_is_read_with_turns_for_others(desk: Desk, store: Store, ended: str) -> None:
    async def read() -> None:
        assert len((await Histories(store).whole(desk.keys, ended)).events) == MANY + 1

    assert (await longest_hold(read)).is_short


async def test_over_http_the_answers_are_the_same_and_small(http: httpx2.AsyncClient, desk: Desk, ended: str) -> None:
    path = "/research/history/research.long"
    whole = await http.get(path)
    events = whole.json()
    assert [event["seq"] for event in events] == list(range(1, MANY + 2))
    before = await bytes_sent(desk.store)
    last = await http.get(path, params={"after": events[-4]["id"], "limit": "2"})
    assert last.json() == events[-3:-1]
    assert (await http.get(path, params={"limit": "5"})).json() == events[:5]
    assert (await http.get(path, params={"after": events[-1]["id"]})).json() == []
    assert (await http.get(path, params={"attempt": "current", "limit": "2"})).json() == events[1:3]
    job = (await http.get("/api/jobs/research.long")).json()["data"]
    assert (job["result"], job["progress"]) == ("done", 100.0)
    await asyncio.sleep(1.1)  # as long as the gateway keeps the history itself
    again = await http.get(path, headers={"If-None-Match": whole.headers["etag"]})
    assert (again.status_code, again.headers["etag"]) == (304, whole.headers["etag"])
    assert await bytes_sent(desk.store) - before < 10 * PAGE_BYTES


async def test_a_stream_that_goes_on_near_the_end_has_only_the_rest_read(
    live: Live, desk: Desk, store: Store, ended: str
) -> None:
    async def go_on() -> None:
        before = await bytes_sent(store)
        async with live.watch(desk.keys, ended, Idle(), MANY - 5) as channel:
            assert channel.cursor_after(await id_of(desk, ended, MANY - 5)) == MANY - 5
            assert (channel.end, channel.ended, len(channel.frames)) == (MANY + 1, True, 6)
        assert await bytes_sent(store) - before < PAGE_BYTES

    assert (await longest_hold(go_on)).is_short


async def test_a_stream_from_the_beginning_is_read_with_turns_for_others(live: Live, desk: Desk, ended: str) -> None:
    async def begin() -> None:
        async with live.watch(desk.keys, ended, Idle()) as channel:
            assert len(channel.frames) == MANY + 1

    assert (await longest_hold(begin)).is_short


async def test_a_long_read_does_not_hold_up_a_short_one(live: Live, desk: Desk, ended: str) -> None:
    await desk.submit("short")
    async with asyncio.TaskGroup() as tasks:

        async def watch_long() -> None:
            async with live.watch(desk.keys, ended, Idle()):
                pass

        long = tasks.create_task(watch_long())
        await asyncio.sleep(0)
        async with live.watch(desk.keys, "short", Idle()) as channel:
            assert channel.end == 1
            assert not long.done()


async def test_a_stream_goes_on_near_the_end_and_on(gateway: str, desk: Desk) -> None:
    held = await desk.start("goes-on")
    await lengthen(desk, held, 5000)
    last = await id_of(desk, "goes-on", 4998)
    async with EventSource(gateway, "research.goes-on") as source, source.open(last) as reading:
        assert [message.told.seq for message in await reading.take(2)] == [4999, 5000]
        async with source.open() as other:  # it shares what is read, and has seen nothing yet
            assert [message.told.seq for message in await other.take(5000)] == list(range(1, 5001))
            await desk.report(held, 5001)
            assert [message.told.seq for message in await other.take(1)] == [5001]
        assert [message.told.seq for message in await reading.take(1)] == [5001]
        await desk.complete(held)
        assert [message.event for message in await reading.rest()] == ["message", "end"]


async def test_pages_of_a_log_that_somebody_wrote_into_are_those_of_its_history(desk: Desk, store: Store) -> None:
    held = await desk.start("a")
    await lengthen(desk, held, 600)
    log = desk.keys.log("a")
    entries = await store.command("LRANGE", log, 0, -1)
    await store.command("LINSERT", log, "BEFORE", entries[300], entries[10])
    await store.command("LINSERT", log, "BEFORE", entries[500], b"rubbish")
    await store.command("RPUSH", log, entries[5], entries[-1])
    histories = Histories(store)
    whole = (await histories.whole(desk.keys, "a")).events
    assert len(whole) == 600
    for number in (1, 2, 290, 301, 302, 499, 510, 598, 600):
        page = await histories.page(desk.keys, "a", event_id(whole[number - 1]), 7)
        assert page.events == whole[number : number + 7], number
    with pytest.raises(WrongField):
        await histories.page(desk.keys, "a", "601-1", 7)


def event_id(raw: bytes) -> str:
    found = re.match(rb'{"id":"([0-9-]+)"', raw)
    assert found
    return found[1].decode()


async def test_an_end_is_told_also_after_much_that_came_behind_the_last_report(desk: Desk, store: Store) -> None:
    held = await desk.start("a")
    await desk.report(held, 1, step=40)
    await desk.cancel("a")
    await desk.release(held)
    for _ in range(5):
        assert await desk.transitions.reopen(desk.keys, "a", b"") == "ok"
        await desk.cancel("a")
    page = await Histories(store).end(desk.keys, "a")
    assert page.events == (await Histories(store).whole(desk.keys, "a")).events[-len(page.events) :]
    assert any(b'"step":40' in raw for raw in page.events)
