"""The flow of a job on its page: a tree of links, each with its state, that changes as the jobs do."""

import re

import httpx2
from playwright.async_api import expect

from tailrace.streams.flows.relay import Relay
from tests.page.visitors import Visitor
from tests.support.builders import Desk
from tests.support.deployment import Deployment

LEAF = {"kind": "drill", "args": {"steps": 1, "seconds": 0}}


async def submit_flow(standing: Deployment, url: str, **root: object) -> tuple[str, list[str]]:
    async with httpx2.AsyncClient(base_url=url) as http:
        answer = await http.post("/api/flows", json={**LEAF, "platform": "research", **root})
    assert answer.status_code == 202, answer.text
    accepted = answer.json()
    return accepted["jobId"], accepted["children"]


async def test_the_jobs_of_a_flow_are_a_tree_that_moves(standing: Deployment, visitor: Visitor) -> None:
    (gateway,) = standing.gateways
    by_hand = Desk(standing.store, "ably")  # which no worker serves
    nested = {**LEAF, "platform": "kurly", "children": [{**LEAF, "platform": "ably"}]}
    root, (quick, middle) = await submit_flow(standing, gateway.url, children=[{**LEAF, "platform": "kurly"}, nested])
    await visitor.open(f"{gateway.url}/jobs/{root}")
    await visitor.state("awaiting")
    await visitor.sees(".why-waiting", re.compile("It awaits the end of"))
    await visitor.sees(f'[data-job="{quick}"]', "completed")
    await visitor.sees(f'[data-job="{middle}"]', "awaiting")
    below = visitor.page.locator(".flow .flow [data-job]")
    await expect(below).to_have_count(1)
    (held,) = await by_hand.claim()
    await visitor.sees(".flow .flow [data-job]", "running")
    await by_hand.complete(held)
    await Relay(by_hand.transitions).deliver(by_hand.keys)  # as a worker of its platform would
    await visitor.state("completed")
    await visitor.sees(".flow .flow [data-job]", "completed")
    await visitor.sees(".job-flow .head", "2 children: 2 completed")
    await visitor.page.click(f'[data-job="{middle}"] a')
    await visitor.state("completed")
    await visitor.sees(".job-flow", f"spawned by {root}")


async def test_a_job_without_a_flow_shows_none(standing: Deployment, visitor: Visitor) -> None:
    (gateway,) = standing.gateways
    await visitor.open(f"{gateway.url}/jobs/{await standing.submit('research', steps=1)}")
    await visitor.state("completed")
    await visitor.sees(".job-facts", "Result")
    assert await visitor.page.locator(".job-flow > *").count() == 0
