"""The process: how it starts, what it says when it cannot, and how it ends."""

import asyncio
import os
import signal
import socket
import subprocess
import sys

import pytest

from tailrace.gateway.settings import GatewaySettings
from tailrace.streams.errors import BadConfiguration
from tailrace.streams.process.settings import Environment
from tests.gateway.event_source import EventSource, told
from tests.gateway.gateways import CHECKOUT, GatewayProcess, environment, failed_start
from tests.support.builders import Desk

BREAKING = """
import sys
from tailrace.gateway.__main__ import main
from tailrace.gateway.server import Server
serve = Server.on_tick
async def breaks(self, counter):
    if counter == 3:
        raise LookupError("a spoke is missing")
    return await serve(self, counter)
Server.on_tick = breaks
sys.exit(main())
"""


def test_without_any_store_it_says_what_to_do() -> None:
    code, said = failed_start(None)
    assert code == 69
    assert len(said) == 1
    assert "python3 -m ops up" in said[0]
    assert "REDIS_URL" in said[0]


def test_one_that_breaks_says_so_and_ends(valkey_url: str) -> None:
    """Its streams are ended first, as ever, and then another can be started."""
    result = subprocess.run(
        [sys.executable, "-c", BREAKING],
        cwd=CHECKOUT,
        env=environment(valkey_url, PORT="0"),
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert result.returncode == 1
    assert "a spoke is missing" in result.stderr
    assert [word for word in ("gateway_broken", "gateway_stopped") if word not in result.stderr] == []


def test_a_port_in_use_is_one_sentence(valkey_url: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, said = failed_start(valkey_url, "--port", str(taken.getsockname()[1]))
    assert code == 1
    assert len(said) == 1
    assert "--port" in said[0]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_without_keys_only_this_machine_is_served(host: str) -> None:
    with pytest.raises(BadConfiguration, match="HOST"):
        GatewaySettings.read(Environment({"HOST": host}))


def test_a_wrong_setting_names_itself(valkey_url: str) -> None:
    code, said = failed_start(valkey_url, HOST="0.0.0.0")
    assert (code, len(said)) == (78, 1)
    code, said = failed_start(valkey_url, PORT="many")
    assert (code, len(said)) == (78, 1)
    assert "PORT" in said[0]


def test_a_database_that_is_none_stops_it(valkey_url: str) -> None:
    for database, sentence in (
        ("zz", "names a database that is not a whole number"),
        ("99", "REDIS_URL names database 99"),
    ):
        code, said = failed_start(f"{valkey_url}?db={database}", "--port", "0")
        assert code == 78
        assert "REDIS_URL" in said[-1]
        assert sentence in said[-1]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_every_name_of_this_machine_will_do(host: str) -> None:
    assert GatewaySettings.read(Environment({"HOST": host, "PORT": "8080"})).port == 8080


async def test_a_store_that_would_lose_jobs_is_refused_at_the_start(valkey_url: str, desk: Desk) -> None:
    await desk.store.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        code, said = await asyncio.to_thread(failed_start, valkey_url, "--port", "0")
    finally:
        await desk.store.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
    assert code == 78
    assert "noeviction" in said[-1]


async def test_a_term_signal_ends_streams_at_once_and_well(
    valkey_url: str, desk: Desk, gateways: tuple[str, str]
) -> None:
    held = await desk.start("a")
    with GatewayProcess(valkey_url, grace_seconds=600) as process:
        async with EventSource(process.url, "research.a") as source, source.open() as reading:
            messages = await reading.take(2)
            process.process.terminate()
            assert await reading.rest() == [], "closed cleanly, in the middle of nothing"
        said = await asyncio.to_thread(process.stop)
    assert process.process.returncode == 0
    assert "Traceback" not in said
    await desk.complete(held)
    async with EventSource(gateways[1], "research.a") as source, source.open(messages[-1].id) as reading:
        assert told(await reading.rest()) == ["completed 1", "end"]


@pytest.mark.parametrize(("processes", "end"), [("1", signal.SIGINT), ("2", signal.SIGTERM)])
def test_a_signal_ends_it_well_while_it_still_waits_for_a_store_that_hangs(processes: str, end: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hung:
        hung.settimeout(20)
        process = subprocess.Popen(
            [sys.executable, "-m", "tailrace.gateway", "--port", "0", "--processes", processes],
            cwd=CHECKOUT,
            env=environment(f"redis://127.0.0.1:{hung.getsockname()[1]}"),
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            asked, _ = hung.accept()
            with asked:
                process.send_signal(end)
                _, said = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "store_away" not in said, "it did not wait for an answer until it gave up"
    assert "Traceback" not in said


async def test_a_gateway_does_not_outlive_its_owner(valkey_url: str) -> None:
    ours, theirs = os.pipe()
    with GatewayProcess(valkey_url, {"TAILRACE_LIFELINE": str(ours)}, fds=(ours,)) as process:
        os.close(ours)
        os.close(theirs)
        await asyncio.to_thread(process.process.wait, 20)
