"""One connection to a real server over a link with faults: silence, a slow link, an answer to no question."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from tailrace.streams.errors import AnswerLost, NoStore
from tailrace.streams.store import wire
from tailrace.streams.store.connection import Store
from tests.support.faults import Link

LARGE = 1_000_000
ANSWER_SECONDS = 0.4


@pytest.fixture
async def link(valkey_url: str) -> AsyncIterator[Link]:
    async with Link(valkey_url) as link:
        yield link


@pytest.mark.parametrize("words", [b"+surprise\r\n", b"+half a surp", b"*2\r\n$1\r\na\r\n"])
async def test_an_answer_to_no_question_closes_the_connection(link: Link, words: bytes) -> None:
    async with Store(link.url) as store:
        assert await store.command("PING") == b"PONG"
        link.say(words)
        await asyncio.sleep(0.05)  # it arrives while nothing is due
        assert [await store.command("ECHO", str(n)) for n in range(3)] == [b"0", b"1", b"2"]
    assert link.opened == 2


async def test_two_answers_to_one_question_close_the_connection(link: Link) -> None:
    """The second one may arrive in the same packet as the first."""
    async with Store(link.url) as store:
        assert await store.command("PING") == b"PONG"
        link.delay_seconds = 0.1
        asked = asyncio.create_task(store.command("ECHO", "a"))
        await asyncio.sleep(0.02)
        link.say(b"+b\r\n+c\r\n")  # what was asked is answered with `b`: that cannot be known
        assert await asked == b"b"
        assert await store.command("ECHO", "d") == b"d"


async def test_a_large_answer_on_a_slow_link_arrives(link: Link) -> None:
    """It takes five times as long as a server may be silent."""
    async with Store(link.url, answer_seconds=ANSWER_SECONDS) as store:
        await store.command("SET", "large", b"x" * LARGE)
        link.bytes_per_second = int(LARGE / (5 * ANSWER_SECONDS))
        begun = time.monotonic()
        small, large = asyncio.create_task(store.command("PING")), store.command("GET", "large")
        assert len(await large) == LARGE
        assert time.monotonic() - begun > 2 * ANSWER_SECONDS
        assert await small == b"PONG"
    assert link.opened == 1


async def test_a_large_request_on_a_slow_link_arrives(link: Link) -> None:
    async with Store(link.url, answer_seconds=ANSWER_SECONDS) as store:
        await store.command("PING")
        link.bytes_per_second = int(LARGE / (5 * ANSWER_SECONDS))
        begun = time.monotonic()
        assert await store.command("SET", "large", b"x" * LARGE) == b"OK"
        assert time.monotonic() - begun > 2 * ANSWER_SECONDS
    assert link.opened == 1


async def test_a_link_that_brings_a_few_bytes_now_and_then_is_given_up(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "LONGEST", 3)
    async with Store(link.url, answer_seconds=ANSWER_SECONDS) as store:
        await store.command("SET", "large", b"x" * LARGE)
        link.bytes_per_second = 1000
        begun = time.monotonic()
        with pytest.raises(AnswerLost, match=r"longer than 1\.2 s"):
            await store.command("GET", "large")
        assert time.monotonic() - begun >= 3 * ANSWER_SECONDS


async def test_silence_ends_a_call_however_much_came_before(link: Link) -> None:
    async with Store(link.url, answer_seconds=ANSWER_SECONDS) as store:
        await store.command("SET", "large", b"x" * LARGE)
        link.bytes_per_second = LARGE
        asked = asyncio.create_task(store.command("GET", "large"))
        await asyncio.sleep(ANSWER_SECONDS)
        link.swallow()
        begun = time.monotonic()
        with pytest.raises(AnswerLost, match="did not answer within"):
            await asked
        assert time.monotonic() - begun > ANSWER_SECONDS / 2


async def test_a_loop_that_stood_still_does_not_blame_the_store(valkey_url: str) -> None:
    """The answer has long arrived when the process looks again."""
    async with Store(valkey_url, answer_seconds=ANSWER_SECONDS) as store:
        await store.command("PING")
        asked = asyncio.create_task(store.command("PING"))
        await asyncio.sleep(0)  # it is sent
        time.sleep(3 * ANSWER_SECONDS)  # noqa: ASYNC251 - a handler may hold the loop
        assert await asked == b"PONG"


async def test_what_was_never_sent_is_not_called_lost(link: Link) -> None:
    async with Store(link.url) as store:
        link.cut()
        with pytest.raises(NoStore) as refusal:
            await store.command("PING")
        assert not isinstance(refusal.value, AnswerLost)
