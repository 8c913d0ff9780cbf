"""The producer: what is right is accepted once, what is wrong is refused and leaves nothing behind."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tailrace.producers import Producer, Submission, Submitted
from tailrace.producers.platforms import BUILT_IN
from tailrace.streams.errors import OtherBody, WrongField
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.options import Dedupe, Options
from tailrace.streams.replies import read_args, read_record
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Transitions
from tests.support.builders import untouched


@pytest.fixture
async def store(valkey_url: str) -> AsyncIterator[Store]:
    async with Store(valkey_url) as store:
        yield store


@pytest.fixture
def producer(store: Store) -> Producer:
    return Producer(Transitions(store), BUILT_IN)


async def test_a_job_is_accepted_with_its_args(store: Store, producer: Producer) -> None:
    submitted = await producer.submit(
        Submission("kurly", "drill", {"steps": 2}, id="a", options=Options(priority="high"))
    )
    assert submitted == Submitted("kurly.a", State.WAITING, replayed=False)
    keys = PlatformKeys("kurly")
    record = await read_record(store, keys, "a")
    assert (record.kind, record.band) == ("drill", "high")
    assert await read_args(store, keys, record) == b'{"steps":2}'


async def test_a_job_without_an_id_gets_a_new_one_each_time(producer: Producer) -> None:
    ids = {(await producer.submit(Submission("kurly", "drill"))).id for _ in range(3)}
    assert len(ids) == 3
    assert all(job_id.startswith("kurly.") for job_id in ids)


async def test_the_same_request_again_is_the_same_job_however_it_was_written(producer: Producer) -> None:
    first = Submission("kurly", "scan", {"workflow_id": "w", "params": {"a": 1, "b": 2}}, id="a")
    again = Submission("kurly", "scan", {"params": {"b": 2, "a": 1}, "workflow_id": "w"}, id="a")
    assert not (await producer.submit(first)).replayed
    assert await producer.submit(again) == Submitted("kurly.a", State.WAITING, replayed=True)


async def test_another_body_under_the_same_id_is_refused(store: Store, producer: Producer) -> None:
    await producer.submit(Submission("kurly", "drill", id="a"))
    async with untouched(store):
        with pytest.raises(OtherBody, match=r"kurly\.a"):
            await producer.submit(Submission("kurly", "drill", {"steps": 1}, id="a"))


@pytest.mark.parametrize(
    ("submission", "field"),
    [
        (Submission("amazon", "drill"), "platform"),
        (Submission("../x", "drill"), "platform"),
        (Submission("kurly", "no spaces"), "kind"),
        (Submission("kurly", "drill", id="a.b"), "id"),
        (Submission("kurly", "drill", {"steps": -1}), "args.steps"),
        (Submission("kurly", "my-own", []), "args"),
        (Submission("kurly", "drill", options=Options(attempts=101)), "attempts"),
        (Submission("kurly", "drill", options=Options(backoff_seconds=3601.0)), "backoff_cap_seconds"),
    ],
)
async def test_a_wrong_submission_names_its_field_and_makes_no_key(
    store: Store, producer: Producer, submission: Submission, field: str
) -> None:
    with pytest.raises(WrongField) as refusal:
        await producer.submit(submission)
    assert refusal.value.field == field
    assert await store.command("DBSIZE") == 0


async def test_many_are_answered_in_the_order_given(producer: Producer) -> None:
    submissions = [
        Submission("research", "drill", id="a"),
        Submission("kurly", "drill", id="a"),
        Submission("nowhere", "drill"),
        Submission("research", "drill", {"steps": 1}, id="a"),
        Submission("research", "drill", id="a"),
    ]
    answers = await producer.submit_many(submissions)
    assert answers[:2] == [Submitted(f"{name}.a", State.WAITING, False) for name in ("research", "kurly")]
    assert isinstance(answers[2], WrongField)
    assert isinstance(answers[3], OtherBody)
    assert answers[4] == Submitted("research.a", State.WAITING, replayed=True)


async def test_more_than_one_batch_is_accepted_in_order(store: Store, producer: Producer) -> None:
    answers = await producer.submit_many([Submission("kurly", "drill", id=f"job-{n}") for n in range(1200)])
    assert [answer.id for answer in answers if isinstance(answer, Submitted)] == [f"kurly.job-{n}" for n in range(1200)]
    entries = await store.command("XRANGE", PlatformKeys("kurly").jobs("normal"), "-", "+")
    assert [fields[1].decode() for _, fields in entries] == [f"job-{n}" for n in range(1200)]


async def test_what_a_job_says_of_attempts_must_fit_the_rules_of_its_platform(store: Store) -> None:
    platforms = BUILT_IN.configure({"kurly": {"max_starts": 5, "lifetime_seconds": 60}})
    producer = Producer(Transitions(store), platforms)
    asked = [Options(attempts=6), Options(timeout_seconds=61.0), Options(attempts=5, timeout_seconds=60.0)]
    first, second, third = await producer.submit_many([Submission("kurly", "drill", options=said) for said in asked])
    assert isinstance(first, WrongField)
    assert isinstance(second, WrongField)
    assert (first.field, second.field) == ("attempts", "timeout_seconds")
    assert isinstance(third, Submitted)


async def test_a_delayed_job_is_told_to_be_delayed(producer: Producer) -> None:
    submitted = await producer.submit(Submission("kurly", "drill", id="a", options=Options(delay_seconds=60.0)))
    assert submitted == Submitted("kurly.a", State.DELAYED, replayed=False)


async def test_a_duplicate_is_answered_with_the_job_that_is_there(producer: Producer) -> None:
    options = Options(dedupe=Dedupe("k"))
    first = await producer.submit(Submission("kurly", "drill", id="a", options=options))
    again = await producer.submit(Submission("kurly", "drill", {"steps": 1}, options=options))
    elsewhere = await producer.submit(Submission("ably", "drill", options=options))
    assert again == Submitted(first.id, State.WAITING, replayed=True, deduplicated=True)
    assert not elsewhere.replayed, "each platform has its own keys"


async def test_a_replaced_job_keeps_its_id_and_has_the_newest_args(store: Store, producer: Producer) -> None:
    options = Options(dedupe=Dedupe("k", "debounce"), delay_seconds=60.0)
    await producer.submit(Submission("kurly", "drill", id="a", options=options))
    again = await producer.submit(Submission("kurly", "drill", {"steps": 7}, options=options))
    assert again == Submitted("kurly.a", State.DELAYED, replayed=True, deduplicated=True)
    keys = PlatformKeys("kurly")
    assert await read_args(store, keys, await read_record(store, keys, "a")) == b'{"steps":7}'


async def test_other_options_are_another_body_but_a_priority_alone_is_as_it_was(producer: Producer) -> None:
    await producer.submit(Submission("kurly", "drill", id="a", options=Options(keep_seconds=5.0)))
    with pytest.raises(OtherBody):
        await producer.submit(Submission("kurly", "drill", id="a", options=Options(keep_seconds=6.0)))
    with pytest.raises(OtherBody):
        await producer.submit(Submission("kurly", "drill", id="a"))


async def test_two_callers_at_once_share_one_connection(valkey_url: str) -> None:
    async with Store(valkey_url) as store, Store(valkey_url) as other:
        before = (await other.command("CLIENT", "LIST")).splitlines()
        producer = Producer(Transitions(store), BUILT_IN)
        await producer.submit_many([Submission("kurly", "drill") for _ in range(3000)])
        assert len((await other.command("CLIENT", "LIST")).splitlines()) == len(before) + 1


async def test_many_keep_their_order_on_a_server_that_does_not_know_the_script(
    store: Store, producer: Producer
) -> None:
    await store.command("SCRIPT", "FLUSH")
    await producer.submit_many([Submission("kurly", "drill", id=f"job-{number:04}") for number in range(2500)])
    entries = await store.command("XRANGE", PlatformKeys("kurly").jobs("normal"), "-", "+")
    assert [fields[1].decode() for _, fields in entries] == [f"job-{number:04}" for number in range(2500)]


async def test_many_keep_their_order_while_the_server_forgets_the_script(store: Store, producer: Producer) -> None:
    forgotten = 0

    async def forget() -> None:
        nonlocal forgotten
        async with Store(store.url) as other:
            while True:
                await other.command("SCRIPT", "FLUSH")
                forgotten += 1

    forgetting = asyncio.create_task(forget())
    await producer.submit_many([Submission("kurly", "drill", id=f"job-{number:04}") for number in range(6000)])
    forgetting.cancel()
    entries = await store.command("XRANGE", PlatformKeys("kurly").jobs("normal"), "-", "+")
    assert [fields[1].decode() for _, fields in entries] == [f"job-{number:04}" for number in range(6000)]
    assert forgotten > 3
