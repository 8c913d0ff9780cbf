"""Memory full: new work is refused, work that was accepted is done."""

import pytest

from tailrace.streams.errors import StoreFull
from tests.support.deployment import Deployment


async def test_a_full_store_refuses_new_jobs_while_accepted_ones_complete(deployment: Deployment) -> None:
    await deployment.consumer("research", "kurly")
    running = [await deployment.submit("research", steps=5, seconds=0.1) for _ in range(5)]
    in_line = [await deployment.submit("kurly", steps=1, seconds=0.05) for _ in range(5)]
    for job in running:
        await deployment.started(job)
    await deployment.store.command("CONFIG", "SET", "maxmemory", "1mb")
    try:
        with pytest.raises(StoreFull):
            await deployment.submit("research", steps=1, seconds=0)
        for history in (await deployment.all_ended(running + in_line)).values():
            assert history[-1].status == "completed"
    finally:
        await deployment.store.command("CONFIG", "SET", "maxmemory", "0")
    assert (await deployment.ended(await deployment.submit("research", steps=1, seconds=0)))[-1].status == "completed"
