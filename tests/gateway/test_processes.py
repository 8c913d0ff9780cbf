"""Several processes on one port: all of them serve, one that dies is replaced, and all end together."""

import asyncio
import os
import re
import signal
from collections.abc import Iterator

import httpx2
import psutil
import pytest

from tailrace.gateway.settings import GatewaySettings
from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.errors import BadConfiguration
from tailrace.streams.process.settings import Environment
from tests.gateway.event_source import EventSource, Message
from tests.gateway.gateways import TWO, GatewayProcess, children, connected, failed_start, serving
from tests.support.builders import Desk
from tests.support.eventually import eventually


@pytest.fixture(scope="module")
def kept(valkey: OwnStore) -> Iterator[GatewayProcess]:
    """Two processes that outlive a test."""
    with GatewayProcess(valkey.url, TWO) as parent:
        yield parent


@pytest.fixture
def ending(valkey_url: str) -> Iterator[GatewayProcess]:
    """Two processes that a test ends."""
    with GatewayProcess(valkey_url, TWO) as parent:
        yield parent


def clients_of(process: psutil.Process) -> set[int]:
    """The ports of those who are connected to it."""
    links = process.net_connections("tcp")
    return {link.raddr.port for link in links if link.status == psutil.CONN_ESTABLISHED and link.raddr}


async def test_all_of_them_serve_and_share_their_clients(kept: GatewayProcess) -> None:
    one, other = await serving(kept)
    async with connected(kept.url, 100) as ports:
        shares = [len(clients_of(each) & set(ports)) for each in (one, other)]
    assert sum(shares) == 100
    assert min(shares) >= 20, "chance alone would not be so unfair in a lifetime"


class Viewer:
    """A client that comes back with its last id whenever its stream breaks off."""

    def __init__(self, url: str, job_id: str) -> None:
        self._source = EventSource(url, job_id)
        self.seen: list[Message] = []
        self.breaks = 0

    async def run(self) -> None:
        async with self._source:
            while not self.seen or self.seen[-1].event != "end":
                last_id = self.seen[-1].id if self.seen else None
                try:
                    async with self._source.open(last_id) as reading:
                        assert reading.response.status_code == 200
                        async for message in reading.messages():
                            self.seen.append(message)
                except httpx2.TransportError:
                    self.breaks += 1
                    await asyncio.sleep(0.05)  # a browser would wait longer


async def test_one_that_is_killed_is_replaced_and_its_clients_miss_nothing(kept: GatewayProcess, desk: Desk) -> None:
    held = await desk.start("a")
    await serving(kept)
    viewers = [Viewer(kept.url, "research.a") for _ in range(20)]
    async with asyncio.TaskGroup() as tasks:
        for viewer in viewers:
            tasks.create_task(viewer.run())

        async def watching() -> bool:
            return all(viewer.seen for viewer in viewers)

        await eventually("all of them watch", watching)
        for number in range(1, 31):
            await desk.report(held, number)
            if number in (10, 20):
                victim = max(await serving(kept), key=lambda child: len(clients_of(child)))
                victim.kill()
                await desk.report(held, number + 1)  # while no client listens to it
        victims = sum(viewer.breaks > 0 for viewer in viewers)
        await desk.complete(held)
    expected = ["queued", "started", *["progress"] * 30, "completed"]
    for viewer in viewers:
        assert [message.told.status for message in viewer.seen[:-1]] == expected
        assert [message.told.step for message in viewer.seen[2:-2]] == list(range(1, 31))
        assert viewer.seen[-1].event == "end"
    assert victims >= 10, "half of them at least had their stream broken"
    assert len(await serving(kept)) == 2
    assert kept.process.poll() is None


async def test_one_that_dies_again_and_again_is_given_longer_pauses(ending: GatewayProcess) -> None:
    await serving(ending)
    dead = set[int]()
    spared, unlucky = children(ending)

    async def another() -> list[psutil.Process]:
        return [child for child in children(ending) if child.pid not in {spared.pid, *dead}]

    for _ in range(3):
        unlucky.kill()
        dead.add(unlucky.pid)
        (unlucky,) = await eventually("another is started", another)
    async with httpx2.AsyncClient(verify=False) as http:
        assert (await http.get(f"{ending.url}/healthz")).status_code == 200, "the other one serves meanwhile"
    last = children(ending)
    said = await asyncio.to_thread(ending.stop)  # while one of them is only starting
    assert not any(psutil.pid_exists(each.pid) for each in last)
    assert re.findall(r"gateway_process_ended.*pause_seconds=([0-9.]+)", said) == ["0.1", "0.2", "0.4"]
    assert ending.process.returncode == 0


async def test_a_term_signal_drains_all_of_them(ending: GatewayProcess, desk: Desk) -> None:
    await desk.start("a")
    both = await serving(ending)
    sources = [EventSource(ending.url, "research.a") for _ in range(12)]

    async def watch(source: EventSource) -> int | None:
        async with source, source.open() as reading:
            await reading.take(2)
            watching.release()
            assert await reading.rest() == [], "closed cleanly, in the middle of nothing"
            return reading.retry

    watching = asyncio.Semaphore(0)
    watchers = [asyncio.create_task(watch(source)) for source in sources]
    for _ in watchers:
        await watching.acquire()
    assert all(clients_of(each) for each in both)
    ending.process.terminate()
    retries = await asyncio.wait_for(asyncio.gather(*watchers), 20)
    assert all(retry is not None and 500 <= retry <= 2500 for retry in retries)
    said = await asyncio.to_thread(ending.stop)
    assert ending.process.returncode == 0
    assert "gateway_process_ended" not in said
    assert not any(psutil.pid_exists(each.pid) for each in both)


async def test_they_end_with_their_parent_whatever_killed_it(ending: GatewayProcess) -> None:
    both = await serving(ending)
    both[0].suspend()  # not even a frozen one stays behind
    os.kill(ending.process.pid, signal.SIGKILL)

    async def gone() -> bool:
        return not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in both)

    await eventually("they are gone", gone)


async def test_a_port_that_several_share_is_taken(kept: GatewayProcess, valkey_url: str) -> None:
    await serving(kept)
    for processes in ("1", "2"):
        arguments = ("--port", str(kept.port), "--processes", processes)
        code, said = await asyncio.to_thread(failed_start, valkey_url, *arguments)
        assert code == 1
        assert len(said) == 1
        assert "--port" in said[0]


@pytest.mark.parametrize("wrong", ["0", "65", "many", "-1", "2.5"])
def test_a_wrong_number_of_processes_names_itself(wrong: str) -> None:
    with pytest.raises(BadConfiguration, match="TAILRACE_GATEWAY_PROCESSES"):
        GatewaySettings.read(Environment({"TAILRACE_GATEWAY_PROCESSES": wrong}))


def test_a_wrong_number_stops_it_and_the_flag_goes_before_the_setting(valkey_url: str) -> None:
    code, said = failed_start(valkey_url, "--processes", "0", TAILRACE_GATEWAY_PROCESSES="2")
    assert (code, len(said)) == (78, 1)
    assert "--processes is 0; it must be a whole number from 1 to 64" in said[0]


async def test_metrics_say_which_process_counted(kept: GatewayProcess, desk: Desk) -> None:
    await desk.submit("a")
    await serving(kept)
    async with EventSource(kept.url, "research.a") as source, source.open() as reading:
        await reading.take(1)
        told: dict[str, float] = {}

        async def both() -> bool:
            async with httpx2.AsyncClient(verify=False, timeout=20) as http:
                text = (await http.get(f"{kept.url}/metrics")).text
            told.update((n, float(v)) for n, v in re.findall(r'tailrace_watched_jobs\{process="(.)"\} (.*)', text))
            return len(told) == 2

        await eventually("both were asked", both)
    assert sorted(told) == ["1", "2"]
    assert sorted(told.values()) == [0.0, 1.0]
