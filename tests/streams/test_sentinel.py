"""Behind Sentinel: the primary is asked for, and asked for again after every loss."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.errors import BadConfiguration, NoStore, UnfitStore
from tailrace.streams.store.connection import Store
from tailrace.streams.store.fitness import check_fitness
from tests.support.builders import tell
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.sentinels import PASSWORD, Sentinels


@pytest.fixture
def sentinels(valkey: OwnStore, tmp_path: Path) -> Iterator[Sentinels]:
    with Sentinels(tmp_path, server=valkey.server) as watched:
        yield watched


async def test_every_process_follows_a_failover_to_the_new_primary(sentinels: Sentinels, tmp_path: Path) -> None:
    await sentinels.ready()
    async with Deployment(sentinels.url, tmp_path) as deployment:
        assert await check_fitness(deployment.store) == []
        gateway, worker = await asyncio.gather(deployment.gateway(), deployment.consumer("kurly"))
        job = await deployment.submit("kurly", steps=8, seconds=0.25)
        await deployment.started(job)
        await sentinels.fail_over()

        async def accepted() -> str:
            body = {"platform": "kurly", "kind": "drill", "args": {"steps": 1, "seconds": 0}}
            answer = await deployment.http.post(f"{gateway.url}/api/jobs", json=body)
            return answer.json()["jobId"] if answer.status_code == 202 else ""

        later = await eventually("the gateway accepts a job again", accepted)
        for each in (job, later):
            history = await deployment.ended(each)
            assert tell(history[-1]) == "completed 1", [tell(event) for event in history]
            assert history[-1].workerId == worker.owner


async def test_sentinels_that_do_not_know_the_name_or_the_password_are_told_apart(sentinels: Sentinels) -> None:
    async with Store(sentinels.url.replace("/mymaster/", "/other/")) as store:
        with pytest.raises(NoStore, match="no sentinel names a primary called other: a sentinel knows no such name"):
            await store.command("PING")
    async with Store(sentinels.url.replace(PASSWORD, "wrong")) as store:
        with pytest.raises(
            NoStore, match=r"no sentinel names a primary called mymaster: they refuse sentinel_username"
        ):
            await store.command("PING")
    server, sentinel = sentinels.servers[0].port, sentinels.url.split("@")[1].split(",")[0]
    async with Store(f"redis+sentinel://127.0.0.1:{server}/mymaster") as store:
        with pytest.raises(NoStore, match=f"called mymaster: 127.0.0.1:{server} is not a sentinel"):
            await store.command("PING")
    async with Store(f"redis://:{PASSWORD}@{sentinel}") as store:
        with pytest.raises(UnfitStore, match=rf"^{sentinel} is a sentinel; write REDIS_URL as redis\+sentinel://"):
            await store.command("PING")


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://h1,h2",
        "redis+sentinel://h1,,h2/name",
        "redis+sentinel://user:hidden/x@h1/name",
        "redis+sentinel://h1:0/name",
        "redis+sentinel:///name",
        "redis+sentinel://h1/name/hidden",
        "redis+sentinel://h1/name?hidden=1",
    ],
)
def test_an_address_of_sentinels_that_is_none_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(BadConfiguration, match=r"^REDIS_URL (is|has|names) ") as error:
        Store(url)
    assert "hidden/" not in str(error.value)
