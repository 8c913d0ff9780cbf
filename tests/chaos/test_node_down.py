"""A node of a cluster hangs, or is killed: what the platforms of other nodes notice of it, in milliseconds."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tailrace.ops.up.own_cluster import OwnCluster
from tailrace.ops.up.own_store import OwnStore
from tailrace.producers.platforms import BUILT_IN
from tests.support.clusters import owner_of
from tests.support.deployment import Deployment
from tests.support.long_runs import scaled

pytestmark = [pytest.mark.chaos, pytest.mark.alone, pytest.mark.timeout(300)]

CALM_MS = 20.0  # below this, twice as long is the noise of a machine
LOOK_SECONDS = 4.0  # a look gives a node 2 s, and there may be two of them in a request


@pytest.mark.parametrize("how", ["hangs", "is killed"])
async def test_platforms_of_other_nodes_do_not_notice_a_node_that_is_down(
    valkey: OwnStore, tmp_path: Path, tell: Callable[[str], None], how: str
) -> None:
    with OwnCluster(tmp_path / "cluster", 3, server=valkey.server) as cluster:
        async with Deployment(cluster.url, tmp_path) as deployment:
            gateway = await deployment.gateway()
            await deployment.consumer()
            down_node = owner_of(cluster, 0)
            name = f"127.0.0.1:{down_node.port}"
            nodes = {platform: (await deployment.store.node_of(platform)).name for platform in BUILT_IN}
            others = [platform for platform, node in nodes.items() if node != name]
            assert 0 < len(others) < len(nodes)

            async def p99() -> float:
                """Of a submission over HTTP to platforms of the other nodes, in milliseconds."""
                took = []
                for number in range(scaled(600)):
                    body = {
                        "platform": others[number % len(others)],
                        "kind": "drill",
                        "args": {"steps": 1, "seconds": 0},
                    }
                    begun = time.monotonic()
                    answer = await deployment.http.post(f"{gateway.url}/api/jobs", json=body)
                    took.append(1000 * (time.monotonic() - begun))
                    assert answer.status_code == 202
                    await asyncio.sleep(0.01)
                return sorted(took)[int(len(took) * 0.99)]

            await p99()  # the first calls load scripts and open connections
            before = await p99()
            if how == "hangs":
                os.kill(down_node.pid, signal.SIGSTOP)
            else:
                down_node.kill()
            try:
                during = await p99()
                begun = time.monotonic()
                ready = await deployment.http.get(f"{gateway.url}/readyz")
                ready_seconds = time.monotonic() - begun
                begun = time.monotonic()
                platforms = await deployment.http.get(f"{gateway.url}/api/platforms?wait=0")
                platforms_seconds = time.monotonic() - begun
            finally:
                if how == "hangs":
                    os.kill(down_node.pid, signal.SIGCONT)
            tell(
                f"a node {how}: p99 of a submission elsewhere {before:.1f} ms before, {during:.1f} ms meanwhile; "
                f"/readyz {ready_seconds:.2f} s, /api/platforms {platforms_seconds:.2f} s"
            )
            assert any(said.startswith(f"node {name} does not answer") for said in ready.json()["advice"])
            down = {each["platform"] for each in platforms.json()["data"] if each["unavailable"]}
            assert down == nodes.keys() - set(others)
            assert during <= 2 * max(before, CALM_MS)
            assert max(ready_seconds, platforms_seconds) < LOOK_SECONDS
