"""The way to the store, where no server is needed: addresses, and servers that do not answer."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tailrace.streams.errors import BadConfiguration, NoStore
from tailrace.streams.store import connection
from tailrace.streams.store.connection import Store


@pytest.fixture
async def silent() -> AsyncIterator[tuple[str, list[asyncio.StreamWriter]]]:
    """A server that takes connections and never answers, and its connections."""
    taken: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: taken.append(writer), "127.0.0.1")
    yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}?db=1", taken
    for writer in taken:
        writer.close()
    server.close()


def test_an_option_nobody_knows_is_a_wrong_setting() -> None:
    with pytest.raises(BadConfiguration, match="REDIS_URL"):
        Store("redis://127.0.0.1:1?nobody_knows=1")


def test_an_option_that_may_not_be_so_is_a_wrong_setting() -> None:
    with pytest.raises(BadConfiguration, match="REDIS_URL"):
        Store("rediss://127.0.0.1:1?ssl_cert_reqs=perhaps")


@pytest.mark.parametrize(
    "url",
    [
        "redis://:hidden/x@h:6379",
        "redis://u:hidden@h:port",
        "redis://[hidden@h:1",
        "redis://:12#hidden@h:6379",
        "redis://:hidden@h:0",
    ],
)
def test_an_address_that_is_none_is_not_repeated(url: str) -> None:
    """A password with a slash makes one of it, and pieces of it a port."""
    with pytest.raises(BadConfiguration, match="REDIS_URL is not a valid URL") as refusal:
        Store(url)
    assert "hidden" not in str(refusal.value)


@pytest.mark.parametrize("word", ["zz", "hidden@h:6379", "1/2", "-1", "1_0", "1.5", "²", "%20"])
def test_a_database_that_is_no_number_is_not_taken_for_the_first(word: str) -> None:
    urls = [f"redis://h:1/{word}", f"rediss://h:1/{word}", f"redis://h/{word}?db=1"]
    for url in (*urls, f"redis://h/1?db={word}", f"rediss://h?db={word}", f"unix:///run/store.sock?db={word}"):
        with pytest.raises(BadConfiguration, match="REDIS_URL names a database that is not a whole number") as refusal:
            Store(url)
        assert "hidden" not in str(refusal.value)


@pytest.mark.parametrize("url", ["redis://h", "redis://h/", "rediss://h/15", "redis://h/1/", "unix:///run/9x?db=3"])
def test_a_database_is_a_number_or_left_out(url: str) -> None:
    assert Store(url).url == url


async def test_all_who_wait_for_a_hanging_store_hear_of_it_together(
    silent: tuple[str, list[asyncio.StreamWriter]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.2)
    url, taken = silent
    async with Store(url) as store:
        heard = await asyncio.gather(*(store.command("PING") for _ in range(20)), return_exceptions=True)
    assert all(isinstance(error, NoStore) for error in heard)
    assert len(taken) == 1, "they wait for one connection"
