"""Signs of life: one of several processes that shows none is replaced, but not when all stood still."""

import asyncio
import os
import re
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from tailrace.gateway.processes import FIRST_LOOKS, SILENT_LOOKS, Pulse
from tests.gateway.gateways import TWO, GatewayProcess, connected, serving
from tests.support.eventually import eventually

IMPATIENT = """
import sys
from tailrace.gateway import __main__, processes
processes.LOOK_SECONDS, processes.SILENT_LOOKS = 0.5, 5
sys.exit(__main__.main())
"""


@pytest.fixture
def impatient(valkey_url: str) -> Iterator[GatewayProcess]:
    """Two processes whose parent waits three seconds for a sign of life."""
    with GatewayProcess(valkey_url, TWO, command=["-c", IMPATIENT]) as parent:
        yield parent


async def test_one_that_is_frozen_is_replaced(impatient: GatewayProcess) -> None:
    frozen, other = await serving(impatient)
    async with connected(impatient.url, 20):
        pass  # both are up: one that has shown no sign of life yet is given far longer
    frozen.suspend()

    async def replaced() -> bool:
        pids = {child.pid for child in await serving(impatient)}
        return frozen.pid not in pids and other.pid in pids

    await eventually("another serves in its place", replaced)
    async with connected(impatient.url, 20):
        pass  # all of them were answered
    said = await asyncio.to_thread(impatient.stop)
    assert len(re.findall("gateway_process_silent", said)) == 1
    assert "code=-9" in said


@pytest.mark.chaos
async def test_nobody_is_blamed_for_a_time_when_all_stood_still(impatient: GatewayProcess) -> None:
    before = await serving(impatient)
    everyone = [psutil.Process(impatient.process.pid), *before]
    for each in everyone:
        each.suspend()
    await asyncio.sleep(8)
    for each in everyone:
        each.resume()
        await asyncio.sleep(0.5)  # the parent goes first
    await asyncio.sleep(6)
    assert {child.pid for child in await serving(impatient)} == {child.pid for child in before}


def test_silence_is_counted_in_looks_and_a_start_may_take_longer() -> None:
    pulse = Pulse()
    assert all(pulse.look() for _ in range(FIRST_LOOKS))
    assert not pulse.look()
    for _ in range(100_000):
        with suppress(BlockingIOError):  # no look for a day: a process that beats does not wait
            os.write(pulse.write_end, b".")
    while pulse.look() and pulse.silent == 0:
        pass  # all of it is read
    assert all(pulse.look() for _ in range(SILENT_LOOKS - 1))
    assert not pulse.look()
    os.write(pulse.write_end, b".")
    assert pulse.look()
