"""A cluster in a real browser: its nodes in the head of the page, and what is said of one that is down."""

import re
from pathlib import Path

from playwright.async_api import expect

from tailrace.ops.up.own_cluster import OwnCluster
from tailrace.ops.up.own_store import OwnStore
from tests.page.visitors import PATIENCE_MS, Visitor
from tests.support.deployment import Deployment
from tests.support.server import QUICK


async def test_the_head_counts_the_nodes_and_the_platforms_of_a_dead_one_say_so(
    valkey: OwnStore, visitor: Visitor, tmp_path: Path
) -> None:
    with OwnCluster(tmp_path / "cluster", 3, server=valkey.server, extra_args=QUICK) as cluster:
        async with Deployment(cluster.url, tmp_path) as deployment:
            gateway = await deployment.gateway()
            names = {platform: (await deployment.store.node_of(platform)).name for platform in ("kurly", "research")}
            assert names["kurly"] != names["research"]
            await visitor.open(gateway.url)
            head = visitor.page.locator("#store")
            await expect(head).to_have_text(re.compile(r" · 3 nodes$"), timeout=PATIENCE_MS)
            for platform, name in names.items():
                told = re.compile(rf"^{re.escape(name)}: \d.*: .*\b{platform}\b", re.MULTILINE)
                await expect(head).to_have_attribute("title", told)
            visitor.outage = True
            next(node for node in cluster.nodes if names["kurly"].endswith(f":{node.port}")).kill()
            await visitor.open(gateway.url)
            await expect(head).to_have_text(re.compile(r" · 1 of 3 nodes down$"), timeout=PATIENCE_MS)
            await expect(head).to_have_attribute("title", re.compile(f"{re.escape(names['kurly'])}: down: .*kurly"))
            row = visitor.page.locator(".platforms tr")
            for platform, says in (("kurly", "its node does not answer"), ("research", "no worker")):
                standing = row.filter(has_text=platform).locator(".c-platform small")
                await expect(standing).to_have_text(says, timeout=PATIENCE_MS)
            await visitor.leave()
