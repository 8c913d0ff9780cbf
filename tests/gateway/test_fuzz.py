"""Any request whatsoever: an answer that the document has, never a 5xx, never silence, no trace of what is refused."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from tailrace.gateway.application import TABLE
from tailrace.gateway.openapi import document
from tailrace.streams.store.connection import Store
from tests.gateway.documented import Document
from tests.gateway.fuzz import Sent, Target, moods, requests
from tests.gateway.gateways import GatewayProcess
from tests.gateway.keyrings import OF_SCOPE, SETTING, SHOPS, UNKNOWN, VIEWER, WHOLE, shown
from tests.support.builders import Desk
from tests.support.long_runs import scaled

PLATFORMS = ["research", "ably", "default"]
STATES = ["waiting", "running", "delayed", "completed", "failed", "cancelled"]
LONG = 1000  # requests
ENOUGH = 10_000  # requests, until each route has answered one well; with keys most are refused
FEW = 5
KEYS = [WHOLE, WHOLE, WHOLE, SHOPS, VIEWER, UNKNOWN, *OF_SCOPE.values()]


async def set_the_scene(store: Store, *, running: bool) -> dict[str, list[str]]:
    """Some jobs in each state; what a path may name. Those that run have a silent owner, whom a gateway waits for."""
    for platform in PLATFORMS:
        desk = Desk(store, platform)
        for number in range(6):
            await desk.fail(await desk.start(f"failed-{number}"))
            await desk.complete(await desk.start(f"completed-{number}"), {"n": number})
            if running:
                await desk.report(await desk.start(f"running-{number}"), 1)
        for number in range(6):
            await desk.submit(f"cancelled-{number}", f"waiting-{number}")
            await desk.cancel(f"cancelled-{number}")
            await desk.submit(f"delayed-{number}", delay_seconds=3600.0)
    jobs = [f"{platform}.{state}-{number}" for platform in PLATFORMS for state in STATES for number in range(7)]
    names = ["nightly", "often", "style.css", "main.js", "job.js"]
    return {"job_id": jobs, "platform": [*PLATFORMS, "nowhere"], "name": names, "folder": ["job", "nowhere"]}


@contextmanager
def listening(gateway: GatewayProcess) -> Iterator[list[str]]:
    """The log of a gateway, in a file: its pipe is not read meanwhile, and a full one would hold it up."""
    said: list[str] = []
    stderr = gateway.process.stderr
    assert stderr is not None
    thread = threading.Thread(target=lambda: said.extend(stderr))
    thread.start()
    try:
        yield said
    finally:
        gateway.process.terminate()
        thread.join()


def ask_often(target: Target, pool: dict[str, list[str]], count: int, dice: Random, *, locked: bool) -> None:
    """This many requests; only the seed decides about them.

    A few of each mood at a time: left alone, hypothesis stays for long where it was.
    """
    few = settings(
        max_examples=FEW,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    left: list[tuple[str, str]] = []
    while target.sent < count:
        if not left:
            left = moods(target.document)
            dice.shuffle(left)

        @seed(dice.getrandbits(64))
        @few
        @given(requests(target.document, left.pop(), pool, KEYS if locked else ()))
        def each(sent: Sent) -> None:
            target.check(sent)

        each()


async def fuzz(
    url: str, store_url: str, count: int, dice: Random, tell: Callable[[str], None], *, locked: bool
) -> set[str]:
    """This many requests to a gateway on an empty store; the routes that answered well."""
    async with Store(store_url) as store:
        pool = await set_the_scene(store, running=count >= LONG)
    target = Target(url, store_url, Document(document(TABLE, locked=locked)))
    try:
        await asyncio.to_thread(ask_often, target, pool, count, dice, locked=locked)
    finally:
        target.close()
    answers = ", ".join(f"{status}: {number}" for status, number in sorted(target.answered.items()))
    tell(f"{target.sent} requests to a gateway {'with' if locked else 'without'} keys; {answers}")
    assert target.sent >= count
    async with httpx2.AsyncClient(base_url=url, headers=shown(WHOLE), timeout=20) as http:
        assert (await http.get("/readyz")).json()["status"] == "ready"
        job = {"platform": "ably", "kind": "drill", "id": "afterwards"}
        assert (await http.post("/api/jobs", json=job)).status_code == 202
        assert (await http.get("/api/jobs/ably.afterwards")).status_code == 200
    return target.served


async def test_some_requests(gateway: str, valkey_url: str, dice: Random, tell: Callable[[str], None]) -> None:
    await fuzz(gateway, valkey_url, 250, dice, tell, locked=False)


async def test_some_requests_to_a_gateway_with_keys(
    one_locked_gateway: str, valkey_url: str, dice: Random, tell: Callable[[str], None]
) -> None:
    await fuzz(one_locked_gateway, valkey_url, 150, dice, tell, locked=True)


@pytest.mark.chaos
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("count", "locked"), [(scaled(10_000), False), (scaled(3_000), True)], ids=["open", "locked"])
async def test_thousands_of_requests(
    valkey_url: str, dice: Random, tell: Callable[[str], None], count: int, locked: bool
) -> None:
    variables = {"TAILRACE_API_KEYS": SETTING, "TAILRACE_KEY_RATE": "100000"} if locked else {}
    with GatewayProcess(valkey_url, variables) as gateway, listening(gateway) as said:
        served = await fuzz(gateway.url, valkey_url, count, dice, tell, locked=locked)
    assert "Traceback" not in "".join(said), "".join(said)[-5000:]
    if count >= ENOUGH:
        assert set(TABLE) - served == set(), "these were never asked so that they answer well"
