"""Submitting: ten thousand at once, the same one many times, and every bad option refused at the door."""

import asyncio
import time
from typing import Any

import pytest

from tailrace.producers import Producer, Submission, Submitted
from tailrace.producers.platforms import BUILT_IN
from tailrace.streams.errors import OtherBody, Refused, WrongField
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.options import Dedupe, Options
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Transitions
from tests.life.asking import completed
from tests.support.deployment import Deployment
from tests.support.eventually import eventually

BULK = 10_000


async def test_ten_thousand_in_one_call_each_valid_one_accepted_and_each_refused_one_named(valkey_url: str) -> None:
    def asked(number: int) -> Submission:
        if number % 100 == 7:
            return Submission("research", "drill", {"steps": -1}, f"job-{number}")
        if number % 100 == 8:
            return Submission("nowhere", "drill", {}, f"job-{number}")
        if number % 100 == 9:
            return Submission("research", "drill", {}, f"job-{number}", Options(attempts=1000))
        if number % 100 == 11:
            return Submission("research", "drill", {"steps": 1}, f"job-{number - 1}")  # the one before has another body
        if number % 100 == 12:
            return Submission("research", "drill", {}, f"job-{number - 2}")  # the same as that one
        options = Options(priority="high", order_key="k") if number % 100 == 13 else Options()
        return Submission("research", "drill", {}, f"job-{number}", options)

    async with Store(valkey_url) as store:
        producer = Producer(Transitions(store), BUILT_IN)
        answers = await producer.submit_many([asked(number) for number in range(BULK)])
        for number, answer in enumerate(answers):
            if (wrong := {7: "args.steps", 8: "platform", 9: "attempts"}.get(number % 100)) is not None:
                assert isinstance(answer, WrongField)
                assert answer.field == wrong
            elif number % 100 == 11:
                assert isinstance(answer, OtherBody)
                assert answer.job_id == f"research.job-{number - 1}"
            elif number % 100 == 12:
                assert answer == Submitted(f"research.job-{number - 2}", State.WAITING, replayed=True)
            else:
                assert answer == Submitted(f"research.job-{number}", State.WAITING, replayed=False)
        keys = PlatformKeys("research")
        lines = [await store.command("XLEN", keys.jobs(band)) for band in ("normal", "high")]
        assert lines == [BULK // 100 * 94, BULK // 100]


async def test_ten_thousand_over_http_are_answered_in_their_places(deployment: Deployment) -> None:
    gateway = await deployment.gateway()
    jobs: list[Any] = [{"platform": "research", "kind": "drill", "id": f"job-{n}"} for n in range(BULK)]
    jobs[3] = {"platform": "research", "kind": "drill", "attempts": 0}
    jobs[5] = "not a job"
    jobs[9998] = {"platform": "research", "kind": "drill", "dedupe": {"key": "k", "mode": "throttle"}}
    reply = await deployment.http.post(f"{gateway.url}/api/jobs/bulk", json={"jobs": jobs}, timeout=30)
    assert reply.status_code == 202, reply.text
    answer = reply.json()
    assert (answer["accepted"], answer["refused"]) == (BULK - 3, 3)
    assert [(n, line["error"]["field"]) for n, line in enumerate(answer["jobs"]) if "error" in line][::2] == [
        (3, "attempts"),
        (9998, "dedupe.ttl_seconds"),
    ]
    assert answer["jobs"][4]["jobId"] == "research.job-4"
    assert await deployment.store.command("XLEN", PlatformKeys("research").jobs("normal")) == BULK - 3


BAD: list[tuple[dict[str, Any], str]] = [
    ({"delay_seconds": -1}, "delay_seconds"),
    ({"delay_seconds": "soon"}, "delay_seconds"),
    ({"delay_seconds": 1e12}, "delay_seconds"),
    ({"attempts": 0}, "attempts"),
    ({"attempts": 101}, "attempts"),  # the platform opens a hundred at most
    ({"priority": "highest"}, "priority"),
    ({"priority": 1}, "priority"),
    ({"run_at": "2027-01-31T09:00:00Z", "delay_seconds": 5}, "run_at"),
    ({"run_at": "2027-01-31T09:00:00"}, "run_at"),
    ({"run_at": "2027-01-31T09:00:00Z", "expires_at": "2027-01-31T08:59:59Z"}, "expires_at"),
    ({"expires_at": "never"}, "expires_at"),
    ({"dedupe": {"key": "k", "mode": "debounce"}}, "dedupe.mode"),
    ({"dedupe": {"key": "k", "mode": "throttle"}}, "dedupe.ttl_seconds"),
    ({"dedupe": {"key": "k" * 65}}, "dedupe.key"),
    ({"order_key": "k" * 65}, "order_key"),
    ({"limit_key": "a b"}, "limit_key"),
    ({"keep_seconds": -1}, "keep_seconds"),
    ({"timeout_seconds": 9, "lifetime_seconds": 8}, "timeout_seconds"),
    ({"backoff_seconds": 7200}, "backoff_cap_seconds"),  # the platform pauses an hour at most
    ({"backoff": "linear"}, "backoff"),
    ({"jitter": 1.5}, "jitter"),
    ({"first": True, "delay_seconds": 5}, "first"),
    ({"retries": 5}, "retries"),
]


async def test_every_bad_option_is_refused_naming_its_field_and_nothing_is_stored(deployment: Deployment) -> None:
    gateway = await deployment.gateway()
    for body, field in BAD:
        reply = await deployment.http.post(
            f"{gateway.url}/api/jobs", json={"platform": "research", "kind": "drill", **body}
        )
        assert reply.status_code == 422, (body, reply.text)
        assert reply.json()["code"], reply.text
        assert field in reply.text, (body, reply.text)
    raw = '{"platform":"research","kind":"drill","delay_seconds":NaN}'
    reply = await deployment.http.post(
        f"{gateway.url}/api/jobs", content=raw, headers={"Content-Type": "application/json"}
    )
    assert reply.status_code in (400, 422)
    assert await deployment.store.command("DBSIZE") == 0


async def test_other_options_under_the_same_id_are_another_body(deployment: Deployment) -> None:
    async def submit(**options: Any) -> Submitted | Refused:
        (answer,) = await deployment.producer.submit_many(
            [Submission("research", "drill", {}, "a", Options(delay_seconds=60.0, **options))]
        )
        return answer

    assert await submit(attempts=2) == Submitted("research.a", State.DELAYED, replayed=False)
    assert await submit(attempts=2) == Submitted("research.a", State.DELAYED, replayed=True)
    assert isinstance(await submit(attempts=3), OtherBody)


async def test_many_who_ask_for_the_same_at_once_get_one_job(deployment: Deployment) -> None:
    asked = [Submission("research", "drill", {}, options=Options(dedupe=Dedupe("shop-7"))) for _ in range(50)]
    answers = await asyncio.gather(*(deployment.producer.submit(submission) for submission in asked))
    assert len({answer.id for answer in answers}) == 1
    assert sum(not answer.replayed for answer in answers) == 1


async def test_a_debounced_job_runs_once_a_while_after_the_last_who_asked(standing: Deployment) -> None:
    asked: list[Submitted] = []
    for number in range(5):
        options = Options(dedupe=Dedupe("page", "debounce"), delay_seconds=0.6)
        args = {"steps": 0, "result": number}
        asked.append(await standing.producer.submit(Submission("research", "drill", args, options=options)))
        last = time.time()
        await asyncio.sleep(0.1)
    (job_id,) = {answer.id for answer in asked}
    history = await standing.ended(job_id)
    assert history[-1].result == 4
    started_ms = (await standing.record(job_id)).started_ms
    assert started_ms is not None
    assert started_ms / 1000 >= last + 0.6 - 0.05
    assert len(await completed(standing, 1, PlatformKeys("research"))) == 1
    again = await standing.producer.submit(asked_again := Submission("research", "drill", {}, options=options))
    assert again.id != job_id, "the key went with its job"
    assert not again.replayed
    assert asked_again.id is None


@pytest.mark.parametrize("ended", [False, True])
async def test_a_throttled_job_is_the_same_for_its_time(standing: Deployment, ended: bool) -> None:
    platform = "plan-generation" if ended else "default"  # which nobody serves
    options = Options(dedupe=Dedupe("mail", "throttle", 1.5))
    asked = Submission(platform, "drill", {"steps": 0}, options=options)
    first = await standing.producer.submit(asked)
    if ended:
        await standing.ended(first.id)
    assert (await standing.producer.submit(asked)).id == first.id

    async def another() -> bool:
        return (await standing.producer.submit(asked)).id != first.id

    await eventually("its time is over", another)
