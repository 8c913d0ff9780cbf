"""Policies that change while everything runs: who goes by them, from when on, and what is refused."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tailrace.producers.platforms import BUILT_IN
from tailrace.producers.policies import Policies
from tailrace.producers.settings import StreamsSettings
from tailrace.streams.errors import WrongField
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.policies import Platforms, Policy
from tailrace.streams.process.settings import Environment
from tailrace.streams.store.kept_policies import read_policies
from tailrace.streams.transitions import Transitions
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.processes import ConsumerProcess

PROMISED_SECONDS = 2.0


async def patch(deployment: Deployment, platform: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    async with httpx2.AsyncClient(timeout=10.0) as http:  # a connection that was kept may be closed just now
        answer = await http.patch(f"{deployment.gateways[0].url}/api/platforms/{platform}", json=body)
    return answer.status_code, answer.json()


async def starts(deployment: Deployment, jobs: list[str]) -> list[float]:
    """When each job that was started was, in order."""
    histories = [await deployment.history(job) for job in jobs]
    times = [event.time for history in histories for event in history if event.status == "started"]
    return sorted(datetime.fromisoformat(each).timestamp() for each in times)


def fullest(times: list[float], seconds: float) -> int:
    """The most starts within any such time."""
    return max(sum(first <= each < first + seconds for each in times) for first in times)


async def started_together(deployment: Deployment, count: int) -> list[float]:
    """When each of this many jobs was started that waited before the first of them."""
    transitions, keys = Transitions(deployment.store), PlatformKeys("research")
    await transitions.pause(keys, "the test")
    jobs = [await deployment.submit("research", steps=0) for _ in range(count)]
    await transitions.resume(keys)
    await deployment.all_ended(jobs)
    return await starts(deployment, jobs)


async def rate_changed_at_run_time(
    deployment: Deployment, count: int, known: Callable[[list[ConsumerProcess], int], Awaitable[None]]
) -> None:
    """`known` waits until all consumers go by that version of the policy."""
    consumers = await deployment.consumers(count, "research")
    await deployment.gateway()
    assert fullest(await started_together(deployment, 20), 0.5) > 5, "nothing holds them up"
    status, policy = await patch(deployment, "research", {"rate": 5, "rate_seconds": 0.5})
    assert (status, policy["rate"], policy["attempts"]) == (200, 5, 3)
    await known(consumers, 1)
    assert fullest(await started_together(deployment, 20), 0.5) <= 5
    await patch(deployment, "research", {"rate": 0})
    await known(consumers, 2)
    assert fullest(await started_together(deployment, 20), 0.5) > 5, "nothing holds them up any more"


async def test_a_rate_changed_at_run_time_holds_for_every_consumer(deployment: Deployment) -> None:
    async def said_so(consumers: list[ConsumerProcess], version: int) -> None:
        said = f"the policy of research is now version {version}"
        for consumer in consumers:

            async def twice(consumer: ConsumerProcess = consumer) -> bool:
                return len(consumer.said(said)) == 2

            await eventually("a consumer and its heart know it", twice)

    await rate_changed_at_run_time(deployment, 2, said_so)


@pytest.mark.chaos
async def test_a_rate_changed_at_run_time_holds_for_four_consumers_within_two_seconds(deployment: Deployment) -> None:
    async def promised(_: list[ConsumerProcess], __: int) -> None:
        await asyncio.sleep(PROMISED_SECONDS)

    await rate_changed_at_run_time(deployment, 4, promised)


async def test_jobs_at_a_time_change_for_a_consumer_that_is_at_work(deployment: Deployment) -> None:
    await deployment.consumer("kurly")
    await deployment.gateway()
    jobs = [await deployment.submit("kurly", steps=1, seconds=20) for _ in range(3)]
    await eventually("one runs", lambda: deployment.leases("kurly"))
    status, _ = await patch(deployment, "kurly", {"max_running": 2, "max_running_per_process": 2})
    assert status == 200

    async def two_run() -> bool:
        return len(await deployment.leases("kurly")) == 2

    await eventually("two run", two_run)
    for job in jobs:
        await deployment.http.post(f"{deployment.gateways[0].url}/api/jobs/{job}/cancel")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"attempts": 200}, "attempts"),
        ({"rate": -1}, "rate"),
        ({"rate": "many"}, "rate"),
        ({"order": "chaos"}, "order"),
        ({"backoff_seconds": 10, "backoff_cap_seconds": 5}, "backoff_cap_seconds"),
        ({"rat": 30}, "rat"),
    ],
)
async def test_a_policy_that_is_wrong_is_refused_and_nothing_changes(
    deployment: Deployment, body: dict[str, Any], field: str
) -> None:
    platforms = Platforms(BUILT_IN)
    policies = Policies(Transitions(deployment.store), platforms)
    await policies.change("ably", {"attempts": 4})
    with pytest.raises(WrongField, match=f"^{field}: "):
        await policies.change("ably", body)
    assert (await policies.get("ably")).attempts == 4
    assert (await read_policies(deployment.store, ["ably"]))["ably"].version == 1


async def test_the_gateway_names_the_field_that_contradicts_another(deployment: Deployment) -> None:
    await deployment.gateway()
    status, problem = await patch(deployment, "ably", {"attempts": 200})
    assert (status, problem["field"], problem["code"]) == (422, "attempts", "WRONG_FIELD")
    assert await read_policies(deployment.store, ["ably"]) == {}


async def test_changes_of_two_people_at_one_time_both_count(deployment: Deployment) -> None:
    policies = [Policies(Transitions(deployment.store), Platforms(BUILT_IN)) for _ in range(8)]
    fields = ["attempts", "max_crashes", "rate", "key_rate", "max_starts", "share", "keep_failed", "keep_completed"]
    await asyncio.gather(*(each.change("ably", {field: 50}) for each, field in zip(policies, fields, strict=True)))
    kept = (await read_policies(deployment.store, ["ably"]))["ably"]
    assert [getattr(kept.policy, field) for field in fields] == [50] * 8
    assert kept.version == 8


async def test_a_gateway_without_the_file_knows_every_platform_that_exists(
    deployment: Deployment, tmp_path: Path
) -> None:
    gateway = await deployment.gateway()
    config = tmp_path / "coupang.toml"
    config.write_text("[platforms.coupang]\nrate = 7\n")
    await deployment.consumer("coupang", TAILRACE_CONFIG=str(config))

    async def known() -> bool:
        return (await deployment.http.get(f"{gateway.url}/api/platforms/coupang?wait=0")).status_code == 200

    await eventually("the gateway knows it", known)
    shown = (await deployment.http.get(f"{gateway.url}/api/platforms/coupang")).json()["data"]
    assert shown["policy"]["rate"] == 7
    body = {"platform": "coupang", "kind": "drill", "args": {"steps": 1, "seconds": 0}}
    job = (await deployment.http.post(f"{gateway.url}/api/jobs", json=body)).json()["jobId"]
    assert (await deployment.ended(job))[-1].status == "completed"


def told(path: Path, text: str) -> StreamsSettings:
    path.write_text(text)
    return StreamsSettings.read(Environment({"TAILRACE_CONFIG": str(path)}))


async def test_a_change_outlives_a_restart_with_the_same_file_and_gives_way_to_another(
    deployment: Deployment, tmp_path: Path
) -> None:
    file, transitions = tmp_path / "tailrace.toml", Transitions(deployment.store)

    async def start(text: str) -> Platforms:
        settings = told(file, text)
        await Policies(transitions, settings.platforms).begin(settings)
        return settings.platforms

    assert (await start("[platforms.naver]\nrate = 7\n"))["naver"].rate == 7
    await Policies(transitions, Platforms().declare(["naver"])).change("naver", {"rate": 30})
    assert (await start("[platforms.naver]\nrate = 7\n"))["naver"].rate == 30
    assert (await start("[platforms.naver]\nrate = 8\n"))["naver"].rate == 8
    assert await read_policies(deployment.store, BUILT_IN) == {}, "what every process knows is not written"
    assert (await read_policies(deployment.store, ["naver"]))["naver"].version == 3


async def test_a_change_outlives_an_upgrade_to_a_version_that_knows_more_fields(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, transitions = tmp_path / "tailrace.toml", Transitions(deployment.store)
    text = "[platforms.naver]\nrate = 7\nrate_seconds = 60\n"
    settings = told(file, text)
    await Policies(transitions, settings.platforms).begin(settings)
    await Policies(transitions, Platforms().declare(["naver"])).change("naver", {"rate": 30})
    newer = Policy(attempts=5, keep_failed=50)  # to this version, what the file does not name means something else
    monkeypatch.setattr("tailrace.streams.policies.MANY", newer)
    upgraded = told(file, text)
    assert (upgraded.platforms["naver"].attempts, upgraded.platforms["naver"].rate) == (5, 7)
    await Policies(transitions, upgraded.platforms).begin(upgraded)
    assert upgraded.platforms["naver"].rate == 30
    assert (await read_policies(deployment.store, ["naver"]))["naver"].version == 2
