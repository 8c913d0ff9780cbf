"""The store refuses our credentials for some seconds: an outage like any other."""

import asyncio
from pathlib import Path

import httpx2

from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.store.connection import Store
from tests.support.builders import tell
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.problems import problem_of
from tests.support.processes import Pace

PACE = Pace(deadline=0.9)


async def test_hearts_consumers_and_gateways_outlive_credentials_that_are_refused(tmp_path: Path) -> None:
    with OwnStore(tmp_path / "store") as server:
        async with Store(server.url) as admin:
            await admit(admin)
            url = server.url.replace("://", "://worker:right@")
            async with Deployment(url, tmp_path) as deployment:
                worker, gateway = await asyncio.gather(deployment.consumer("kurly", pace=PACE), deployment.gateway())
                heart = worker.heart
                job = await deployment.submit("kurly", steps=30, seconds=0.1)
                await deployment.started(job)

                # The password is another, and every connection has to show it.
                await admin.command("ACL", "SETUSER", "worker", "resetpass", ">wrong")
                await admin.command("CLIENT", "KILL", "USER", "worker")
                async with httpx2.AsyncClient(base_url=gateway.url) as http:
                    refused = await http.post("/api/jobs", json={"platform": "kurly", "kind": "drill"})
                    told = problem_of(refused, 503, "STORE_UNFIT")
                    assert "right" not in refused.text
                    assert "jobIds" not in told
                    await asyncio.sleep(2 * PACE.deadline)
                    assert worker.heart == heart, "the heart goes on"
                    await admit(admin)

                    async def ready() -> bool:
                        return (await http.get("/readyz")).status_code == 200

                    await eventually("the gateway is ready", ready)
                history = await deployment.ended(job)
                assert tell(history[-1]) == "completed 1"
                for process in (worker, gateway):
                    said = process.log.read_text()
                    assert "Traceback" not in said
                    assert "right" not in said
                assert worker.said("heart_restarted") == []
                away = worker.said("store_away")
                assert len(away) == 1, "one line for one outage"
                assert "credentials" in away[0]["error"]
                assert len(worker.said("store_back")) == 1


async def admit(admin: Store) -> None:
    await admin.command("ACL", "SETUSER", "worker", "reset", "on", ">right", "~*", "+@all")
