"""Story 4: a hundred requests come in and the machine dies. Nothing is lost, and no client sees anything twice."""

import asyncio
import time

from tailrace.streams.keys import PlatformKeys
from tests.support.checker import false_takeovers, takeovers, unclean
from tests.support.deployment import Deployment
from tests.support.eventually import eventually

REQUESTS = 100


async def test_a_hundred_requests_outlive_the_machine(deployment: Deployment) -> None:
    gateway = await deployment.gateway()
    for number in range(REQUESTS):
        body = {"platform": "research", "kind": "drill", "args": {"steps": 3, "seconds": 0.05, "result": number}}
        reply = await deployment.http.post(f"{gateway.url}/api/jobs", json=body)
        assert reply.status_code == 202
        deployment.accepted.append(reply.json()["jobId"])
    doomed = await deployment.consumers(2, "research")

    async def done() -> int:
        count: int = await deployment.store.command("LLEN", PlatformKeys("research")["ended_completed"])
        return count

    async def some() -> bool:
        return await done() >= 20 and bool(await deployment.leases("research"))

    await eventually("some jobs are done and some run", some)
    killed = dict.fromkeys((consumer.owner for consumer in doomed), time.time())
    for consumer in (*doomed, gateway):
        consumer.kill_group()
    before = await done()
    assert before < REQUESTS

    await asyncio.gather(deployment.gateway(again=gateway), deployment.consumers(2, "research"))
    histories = await deployment.all_ended(deployment.accepted)
    assert unclean(histories) == []
    assert [history[-1].result for history in histories.values()] == list(range(REQUESTS))
    assert false_takeovers(histories, killed) == []
    assert takeovers(histories), "some ran when the machine died"
    assert await deployment.leases("research") == []
