"""Two gateways behind a real nginx, set up as our guide says, and a browser that watches while they are killed."""

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NoReturn

import httpx2
import pytest

from tailrace.ops.bootstrap import CHECKOUT
from tests.page.byhand import JobByHand
from tests.page.visitors import Visitor
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.nginx import AROUND, running
from tests.support.ports import free_port
from tests.support.processes import GatewayProcess

GUIDE = (CHECKOUT / "ops" / "deploying.md").read_text(encoding="utf-8")
(CONFIGURATION,) = re.findall(r"```nginx\n(.*?)```", GUIDE, flags=re.DOTALL)


LISTEN = """
    window.heard = [];
    window.source = new EventSource('/research/stream/%s');
    window.source.onmessage = (message) => window.heard.push(message.lastEventId);
    window.source.addEventListener('end', () => window.source.close());
"""


@pytest.fixture
async def behind(
    deployment: Deployment, tmp_path: Path, leave_out: Callable[[str], NoReturn]
) -> AsyncIterator[tuple[str, list[GatewayProcess]]]:
    """The address of an nginx, and the gateways behind it."""
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")
    if program is None:
        leave_out("there is no nginx on this machine")
    gateways = await asyncio.gather(deployment.gateway(), deployment.gateway())
    port = free_port()
    text = CONFIGURATION
    for named, given in (("3989", gateways[0].port), ("3990", gateways[1].port), ("8080", port)):
        assert text.count(f":{named}") == 1
        text = text.replace(f":{named}", f":{given}")
    folder = tmp_path / "nginx"
    folder.mkdir()
    (folder / "nginx.conf").write_text(AROUND.format(text))
    with running([program, "-p", str(folder), "-c", "nginx.conf", "-e", "error.log", "-g", "daemon off;"]):
        url = f"http://127.0.0.1:{port}"

        async def ready() -> bool:
            try:
                return (await deployment.http.get(f"{url}/readyz")).status_code == 200
            except httpx2.TransportError:
                return False

        await eventually(f"nginx answers; it said: {folder / 'error.log'}", ready)
        yield url, list(gateways)


async def serving(deployment: Deployment, gateways: list[GatewayProcess]) -> int:
    """Which of them has the stream of the one job that is watched."""

    async def look() -> list[int]:
        found = []
        for number, gateway in enumerate(gateways):
            if gateway.alive:
                metrics = (await deployment.http.get(f"{gateway.url}/metrics")).text
                if re.search(r"^tailrace_watched_jobs\S* 1\.0$", metrics, re.MULTILINE):
                    found.append(number)
        return found

    (number,) = await eventually("a gateway serves the stream", look)
    return number


async def test_a_page_survives_the_death_of_one_gateway_and_then_of_the_other(
    deployment: Deployment,
    behind: tuple[str, list[GatewayProcess]],
    by_hand: Callable[[int], Awaitable[JobByHand]],
    visitor: Visitor,
) -> None:
    url, gateways = behind
    job = await by_hand(24)
    await job.shows(1, 1)
    await visitor.open(f"{url}/jobs/{job.id}")
    await job.shows(2, 2)
    await visitor.sees(".events .text", "2 of 24")  # while the job runs: nginx does not hold it back
    visitor.outage = True  # from here on the browser may say that connections were cut
    first = await serving(deployment, gateways)
    other = 1 - first
    gateways[first].kill_group()
    await job.shows(3, 8)
    assert await serving(deployment, gateways) == other
    await visitor.sees("#link-text", "live")
    gateways[first] = await deployment.gateway(again=gateways[first])
    gateways[other].kill_group()
    await job.shows(9, 16)
    assert await serving(deployment, gateways) == first
    await visitor.sees("#link-text", "live")
    await job.shows(17, 24)
    await job.completes()
    deployment.gateways[:] = [gateways[first]]  # through which histories are read
    history = await deployment.ended(job.id)
    await visitor.state("completed")
    await visitor.has_shown(history)
    assert [event.seq for event in history] == list(range(1, 28))
    assert await visitor.lanes() == [("attempt 1", "done", [str(number) for number in range(1, 25)])]
    streams = [asked for asked in visitor.requests if "/research/stream/" in asked]
    assert len(streams) >= 3
    assert all("lastEventId=" in asked for asked in streams[1:])
    assert all(asked.startswith(url) for asked in visitor.requests)


@pytest.mark.chaos
async def test_an_event_source_left_alone_survives_one_death_and_gives_up_when_nobody_is_left(
    deployment: Deployment, behind: tuple[str, list[GatewayProcess]], visitor: Visitor
) -> None:
    """Why the page, and the snippet for other pages, open their streams again by themselves."""
    url, gateways = behind
    await deployment.consumer("research")
    job = await deployment.submit("research", steps=200, seconds=0.2)
    await visitor.open(f"{url}/healthz")
    await visitor.ask(LISTEN % job)
    first = await serving(deployment, gateways)
    visitor.outage = True
    gateways[first].kill_group()
    assert await serving(deployment, gateways) == 1 - first, "it came back by itself"
    seen = len(await visitor.ask("window.heard"))
    await visitor.page.wait_for_function(f"window.heard.length > {seen}")
    gateways[1 - first].kill_group()
    await visitor.page.wait_for_function("window.source.readyState === EventSource.CLOSED")
    gateways[first] = await deployment.gateway(again=gateways[first])
    heard = await visitor.ask("window.heard")
    await asyncio.sleep(1.5)  # longer than a browser waits before it comes back
    assert await visitor.ask("[window.source.readyState, window.heard]") == [2, heard], "it stays away for good"
    deployment.gateways[:] = [gateways[first]]  # through which histories are read
    assert heard == [event.id for event in await deployment.history(job)][: len(heard)]
    visitor.errors = [error for error in visitor.errors if not re.search("502|404", error)]  # 404: it has no icon
