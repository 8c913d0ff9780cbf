"""The answer to a submit is lost: the job is made once, and a client that has to try again knows its id."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest

from tailrace.producers import Producer, Submission, producer
from tailrace.producers.platforms import BUILT_IN
from tailrace.streams.errors import AnswerLost, StoreFull
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Transitions
from tests.gateway.gateways import GatewayProcess
from tests.gateway.submitting import ROUTES, id_of
from tests.support.builders import Desk
from tests.support.eventually import eventually
from tests.support.faults import Link
from tests.support.problems import problem_of

DRILL = {"platform": "research", "kind": "drill", "args": {"steps": 1}}


@pytest.fixture(scope="module")
async def far_link(valkey: Any) -> AsyncIterator[Link]:
    async with Link(valkey.url) as link:
        yield link


@pytest.fixture(scope="module")
def far_gateway(far_link: Link) -> Iterator[GatewayProcess]:
    """A gateway that reaches the store over the link."""
    with GatewayProcess(far_link.url) as gateway:
        yield gateway


@pytest.fixture
async def far(far_gateway: GatewayProcess, valkey_url: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=far_gateway.url, timeout=30) as client:
        yield client


async def in_line(store: Store, platform: str) -> int:
    return len(await Desk(store, platform).line())


async def is_ready(far: httpx2.AsyncClient) -> bool:
    return (await far.get("/readyz")).status_code == 200


@pytest.mark.parametrize("path", ROUTES)
async def test_a_call_whose_answer_was_lost_is_repeated_before_the_client_hears_of_it(
    far_link: Link, far: httpx2.AsyncClient, store: Store, path: str
) -> None:
    await eventually("the gateway is ready", lambda: is_ready(far))
    far_link.drop_reply(to=b"EVAL")
    answer = await far.post(path, json=ROUTES[path][0])
    assert far_link.dropped.is_set()
    assert answer.status_code == 202
    assert "idempotency-replayed" not in answer.headers
    assert await in_line(store, id_of(answer).partition(".")[0]) == 1


async def test_forty_clients_that_repeat_with_the_ids_they_were_given_make_forty_jobs(
    far_link: Link, far: httpx2.AsyncClient, store: Store
) -> None:
    await eventually("the gateway is ready", lambda: is_ready(far))
    far_link.swallow(requests=False)
    plans = [{"userId": f"u{n}", "goal": "swim"} for n in range(20)]
    jobs = [{**DRILL, "args": {"steps": n + 1}} for n in range(20)]
    bulk = {"jobs": [DRILL, {"platform": "research"}, DRILL]}
    *singles, of_bulk = await asyncio.gather(
        *(far.post("/api/plans", json=plan) for plan in plans),
        *(far.post("/api/jobs", json=job) for job in jobs),
        far.post("/api/jobs/bulk", json=bulk),
    )
    await far_link.heal()
    assert await in_line(store, "plan-generation") == 20, "the store has carried all of it out"
    assert await in_line(store, "research") == 22
    keys = []
    for answer in singles:
        told = problem_of(answer, 503, "STORE_AWAY")
        assert "may have been accepted" in told["detail"]
        assert int(answer.headers["retry-after"]) > 0
        (job_id,) = told["jobIds"]
        keys.append(job_id.partition(".")[2])
    first, none, second = problem_of(of_bulk, 503, "STORE_AWAY")["jobIds"]
    assert none is None, "it was refused, not lost"
    await eventually("the gateway is ready", lambda: is_ready(far))
    again = await asyncio.gather(
        *(far.post("/api/plans", json={**plan, "jobId": key}) for plan, key in zip(plans, keys[:20], strict=True)),
        *(far.post("/api/jobs", json={**job, "id": key}) for job, key in zip(jobs, keys[20:], strict=True)),
    )
    assert {answer.status_code for answer in again} == {202}
    named = [{**DRILL, "id": job_id.partition(".")[2]} for job_id in (first, second)]
    bulk_again = (await far.post("/api/jobs/bulk", json={"jobs": named})).json()
    assert [job["jobId"] for job in bulk_again["jobs"]] == [first, second]
    assert await in_line(store, "plan-generation") == 20
    assert await in_line(store, "research") == 22


async def test_a_store_that_cannot_be_reached_names_no_jobs(far_link: Link, far: httpx2.AsyncClient) -> None:
    far_link.cut()
    try:
        for path, (body, _, _) in ROUTES.items():
            told = problem_of(await far.post(path, json=body), 503, "STORE_AWAY")
            assert "jobIds" not in told
    finally:
        await far_link.heal()


async def test_a_producer_names_the_jobs_that_may_exist(
    far_link: Link, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "REPEAT_SECONDS", 0.3)
    async with Store(far_link.url, answer_seconds=0.2) as store:
        await store.command("PING")
        far_link.swallow(requests=False)
        with pytest.raises(AnswerLost) as lost:
            await Producer(Transitions(store), BUILT_IN).submit(Submission("kurly", "drill", id="mine"))
        await far_link.heal()
        assert lost.value.job_ids == ("kurly.mine",)


async def test_a_bulk_of_which_only_a_part_was_taken_names_all_of_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store becomes full between two calls."""
    monkeypatch.setattr(producer, "BATCH", 10)
    transitions = Transitions(store)
    calls = 0
    submit = transitions.submit

    async def full_later(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise StoreFull("the store has no memory left for new work")
        return await submit(*args, **options)

    monkeypatch.setattr(transitions, "submit", full_later)
    with pytest.raises(StoreFull) as full:
        await Producer(transitions, BUILT_IN).submit_many([Submission("kurly", "drill") for _ in range(20)])
    assert len(full.value.job_ids) == 20
    stored = await store.command("XRANGE", PlatformKeys("kurly").jobs("normal"), "-", "+")
    assert {f"kurly.{fields[1].decode()}" for _, fields in stored} < set(full.value.job_ids)
