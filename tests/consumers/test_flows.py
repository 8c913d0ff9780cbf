"""Waits and children with a consumer at work: slots are free meanwhile, and the job goes on where it was."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from msgspec import Raw

from tailrace.consumers import Attempt, Handlers, Waiting
from tailrace.consumers.attempt import VERBS
from tailrace.consumers.attempts import outbound
from tailrace.consumers.attempts.outbound import Outbound
from tailrace.producers import Flow, Tailrace
from tailrace.streams import PlatformKeys, Transitions
from tailrace.streams.flows.envelope import FlowNode, seal
from tailrace.streams.flows.relay import Relay
from tailrace.streams.flows.spawning import PAGE
from tailrace.streams.messages import Job
from tailrace.streams.operations import call
from tailrace.streams.states import Status
from tests.consumers.conftest import PLATFORMS, Bench, serving, standing
from tests.consumers.flowing import PLACES, handles
from tests.support.eventually import eventually


@pytest.fixture(scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    async with standing(tmp_path_factory.mktemp("flows"), handles) as bench:
        yield bench


async def signal(bench: Bench, job_id: str, name: str, data: bytes) -> str:
    keys = PlatformKeys(job_id.partition(".")[0])
    operation = call.signal(keys, key=job_id.partition(".")[2], name=name, data=data, most=100)
    return await Transitions(bench.store).word(keys, operation)


async def awaits_signal(bench: Bench, job_id: str) -> None:
    async def look() -> bool:
        return (await bench.events(job_id))[-1].signal == "approval"

    await eventually(f"{job_id} awaits its signal", look)


@pytest.mark.parametrize("place", PLACES)
async def test_a_flow_sleeps_spawns_joins_and_awaits_a_signal(served: Bench, place: str) -> None:
    job = await served.submit(f"{place}-flow", key=f"flow-{place}")
    await awaits_signal(served, job)
    assert await signal(served, job, "approval", b'{"by":"ann"}') == "delivered"
    events = await served.end_of(job)
    result = events[-1].result
    assert result["pages"] == ["page 0", "page 1", "page 2", "page 7"]
    assert result["said"] == {"by": "ann"}
    assert (await served.end_of(result["mail"]))[-1].result == {"number": 9, "text": "page 9"}
    shown = [
        (event.status.value, event.awaits or event.reason) for event in events if event.status is not Status.PROGRESS
    ]
    assert shown[:4] == [("queued", None), ("started", None), ("delayed", "sleep"), ("started", None)]
    assert shown[-3:] == [("awaiting", "signal"), ("started", None), ("completed", None)]
    assert not any(event.status is Status.RETRYING for event in events)


async def test_a_signal_that_came_before_is_there_at_once(served: Bench) -> None:
    job = await served.submit("loop-flow", key="early")
    assert await signal(served, job, "approval", b'"yes"') == "kept"
    assert (await served.end_of(job))[-1].result["said"] == "yes"


async def test_each_policy_does_with_a_failed_child_what_it_says(served: Bench) -> None:
    jobs = {policy: await served.submit("policies", {"on_failure": policy}) for policy in ("fail", "collect", "ignore")}
    failed = (await served.end_of(jobs["fail"]))[-1]
    assert failed.status is Status.FAILED
    assert failed.error
    assert (failed.error.type, failed.attempt) == ("ChildFailed", 2)
    assert "of kind page: GiveUp: there is no such page" in failed.error.message
    assert (await served.end_of(jobs["collect"]))[-1].result == [1, "there is no such page", 2]
    assert (await served.end_of(jobs["ignore"]))[-1].result == [1, None, 2]


@pytest.mark.parametrize("place", ["thread", "process"])
async def test_a_handler_may_catch_what_became_of_a_child(served: Bench, place: str) -> None:
    assert (await served.end_of(await served.submit(f"{place}-caught")))[-1].result == "page: GiveUp"


@pytest.mark.parametrize("place", PLACES)
async def test_the_children_of_a_tree_end_before_the_handler_above_them_begins(served: Bench, place: str) -> None:
    pages = tuple(FlowNode("single", "page", Raw(b'{"number":%d}' % number)) for number in range(2))
    chapter = FlowNode("many", f"{place}-book", Raw(b'{"number":10}'), children=pages)
    root = Job("many", f"book-{place}", f"{place}-book", seal(b'{"number":100}', [chapter, pages[0]]), flow=True)
    await Transitions(served.store).submit([(root, "tree")])
    events = await served.end_of(root.id)
    first, second = {"number": 0, "text": "page 0"}, {"number": 1, "text": "page 1"}
    assert events[-1].result == [100, [10, first, second], first]
    assert {event.status.value for event in events} <= {"queued", "started", "awaiting", "completed"}


def noting(asked: list[str], function: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*args: Any) -> Any:
        asked.append(function.__name__)
        return function(*args)

    return noted


@pytest.mark.parametrize("count", [1, PAGE + 1])
@pytest.mark.parametrize("kind", ["spawns", "carries"])
async def test_children_are_brought_once_and_their_ends_read_once(
    bench: Bench, kind: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Handlers()
    rests = asyncio.Event()  # the parent: children that end before it awaits them would save it an attempt
    asked: list[str] = []
    monkeypatch.setattr(Outbound, "spawn", noting(asked, Outbound.spawn))
    monkeypatch.setitem(VERBS, "join", noting(asked, VERBS["join"]))

    @mine("page")
    async def page(attempt: Attempt[Any]) -> int:
        await rests.wait()
        return int(attempt.args["n"])

    @mine("spawns")
    async def spawns(attempt: Attempt[Any]) -> Any:
        children = await attempt.spawn_many("page", [{"n": n} for n in range(count)])
        return [await attempt.join(children), await attempt.join(children)][1]

    @mine("carries")
    async def carries(attempt: Attempt[Any]) -> Any:
        return await attempt.join(await attempt.children())

    async with serving(bench.store, mine):
        pages = [Flow("many", "page", {"n": n}) for n in range(count)] if kind == "carries" else []
        job = await Tailrace.over(bench.store, PLATFORMS).submit_flow(Flow("many", kind, {}, pages))

        async def awaits() -> bool:
            return (await bench.events(job.id))[-1].status is Status.AWAITING

        await eventually("the parent awaits its children", awaits)
        rests.set()
        last = (await bench.end_of(job.id))[-1]
    assert (last.attempt, last.result) == (2, list(range(count)))
    assert asked.count("spawn") == 1
    assert asked.count("_join") == 2, "once in each attempt"


@pytest.mark.parametrize("stopped", [False, True])
async def test_a_consumer_reads_no_outbox_that_it_wrote_itself_unless_it_was_stopped_meanwhile(
    bench: Bench, stopped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Handlers()
    asked: list[str] = []
    monkeypatch.setattr(Relay, "deliver", noting(asked, Relay.deliver))
    if stopped:
        monkeypatch.setattr(outbound, "FRESH_SECONDS", -1.0)

    @mine("page")
    async def page(attempt: Attempt[Any]) -> int:
        return int(attempt.args["n"])

    @mine("pages")
    async def spawns(attempt: Attempt[Any]) -> Any:
        children = await attempt.spawn_many("page", [{"n": n} for n in range(3)], platform="single")
        return await attempt.join([*children, await attempt.spawn("page", {"n": 3})])

    async with serving(bench.store, mine):
        assert (await bench.end_of(await bench.submit("pages")))[-1].result == [0, 1, 2, 3]
        await eventually("the outboxes are empty", lambda: outboxes_are_empty(bench))
    assert bool(asked) is stopped


async def outboxes_are_empty(bench: Bench) -> bool:
    return not await bench.store.command("KEYS", "tr:*:outbox")


async def test_a_failed_child_of_a_tree_fails_it_before_its_handler_begins(served: Bench) -> None:
    child = FlowNode("single", "page", Raw(b'{"number":-1}'))
    root = Job("many", "broken-book", "loop-book", seal(b'{"number":100}', [child]), flow=True)
    await Transitions(served.store).submit([(root, "tree")])
    last = (await served.end_of(root.id))[-1]
    assert last.error
    assert last.error.type == "ChildFailed"


async def children_of(bench: Bench, job_id: str) -> list[str]:
    async def look() -> list[str]:
        keys = PlatformKeys("many").children(job_id.partition(".")[2])
        found = [child.decode() for child in await bench.store.command("HKEYS", keys)]
        waiting = [(await bench.events(child))[-1].status is Status.AWAITING for child in found]
        return found if found and all(waiting) else []

    return await eventually(f"the children of {job_id} await their signal", look)


async def test_to_cancel_a_parent_cancels_its_children(served: Bench) -> None:
    parent = await served.submit("guardian")
    children = await children_of(served, parent)
    await Tailrace.over(served.store, PLATFORMS).cancel(parent, by="ann")
    assert (await served.end_of(parent))[-1].status is Status.CANCELLED
    for child in children:
        assert (await served.end_of(child))[-1].status is Status.CANCELLED


async def test_to_retry_a_failed_child_brings_its_failed_parent_back(served: Bench) -> None:
    parent = await served.submit("guardian")
    broken, other = await children_of(served, parent)
    await signal(served, broken, "go", b'"break"')
    assert (await served.end_of(parent))[-1].status is Status.FAILED
    await served.store.command("DEL", PlatformKeys("single").signals(broken.partition(".")[2]))
    tr = Tailrace.over(served.store, PLATFORMS)
    assert (await tr.retry(parent)).failed_child == broken, "to retry only the parent does not help"
    assert (await served.end_of(parent))[-1].status is Status.FAILED
    assert (await tr.retry(broken)).failed_child is None

    async def awaits() -> bool:
        return (await served.events(parent))[-1].status is Status.REOPENED

    await eventually("the parent is reopened", awaits)
    for child in (broken, other):
        await signal(served, child, "go", b'"fine"')
    last = (await served.end_of(parent))[-1]
    assert (last.status, last.result) == (Status.COMPLETED, ["fine", "fine"])


@pytest.mark.parametrize("platform", ["many", "single"])
async def test_a_child_whose_result_its_parent_cannot_keep_fails_with_advice(served: Bench, platform: str) -> None:
    last = (await served.end_of(await served.submit("too-large", {"platform": platform})))[-1]
    assert last.error
    assert last.error.type == "ChildFailed"
    assert "WrongResult: the result has over 256 KB" in last.error.message
    assert "store it elsewhere" in last.error.message


async def test_wrong_use_is_refused_with_a_sentence_and_nothing_half_made(served: Bench) -> None:
    job = await served.submit("misuse")
    heard = (await served.end_of(job))[-1].result
    foreign, one, text, nowhere, args, many, band, words, nothing, batch = heard
    assert f"job {job} is not a child of {job}; join takes what spawn returned" in foreign
    assert one.startswith("join takes a list of what spawn returned, not Child(id=")
    assert text == f"join takes a list of what spawn returned, not ['{job}']"
    assert nowhere.startswith("platform: ")
    assert "many" in nowhere
    assert args == "args: must be an object, not list"
    assert "would spawn more than 10000 jobs" in many
    assert band.startswith("priority: ")
    assert words.startswith("name: ")
    assert nothing == "a delay takes either seconds or until, such as Delay(60) or Delay(until=datetime(…, tzinfo=UTC))"
    assert batch == "batch: expected a number from 1, not 0"
    assert await served.store.command("EXISTS", PlatformKeys("many").children(job.partition(".")[2])) == 0


async def test_a_job_that_raises_waiting_goes_behind_the_others(bench: Bench) -> None:
    mine = Handlers()
    order: list[str] = []

    @mine("polite")
    async def polite(attempt: Attempt[Any]) -> None:
        order.append(f"{attempt.job.key} {attempt.number}")
        if attempt.job.key == "a" and attempt.number == 1:
            raise Waiting

    for key in "abc":
        await bench.submit("polite", platform="single", key=key)
    async with serving(bench.store, mine):
        events = await bench.end_of("single.a")
    assert order == ["a 1", "b 1", "c 1", "a 2"]
    assert [event.status for event in events] == ["queued", "started", "superseded", "started", "completed"]
    assert events[2].reason == "requeued"


async def test_a_signal_that_does_not_come_is_a_timeout_and_stays_one(bench: Bench) -> None:
    mine = Handlers()

    @mine("asks", backoff=lambda failures: 0.01)
    async def asks(attempt: Attempt[Any]) -> str:
        try:
            await attempt.wait_for("approval", timeout=0.05)
        except TimeoutError as late:
            if attempt.number == 2:
                raise RuntimeError("once more") from None
            return str(late)
        return "it came"

    async with serving(bench.store, mine):
        job = await bench.submit("asks")
        events = await bench.end_of(job)
    assert [event.status for event in events] == [
        "queued", "started", "awaiting", "started", "retrying", "started", "completed",
    ]  # fmt: skip
    assert events[-1].result == "signal approval did not come in 0.05 s"


async def test_a_walk_over_items_goes_on_where_its_cursor_stands(bench: Bench) -> None:
    mine = Handlers()
    seen: list[int] = []

    @mine("walk", backoff=lambda failures: 0.01)
    async def walk(attempt: Attempt[Any]) -> Any:
        async def look(item: int) -> None:
            if item == 1000 and attempt.number == 1:
                raise RuntimeError("once more")
            seen.append(item)
            if item % 500 == 7:
                raise LookupError(f"no product {item}")

        if attempt.number == 1:
            try:
                return await attempt.each(range(1400), lambda item: None if item % 500 == 7 else look(item), batch=300)
            finally:
                await attempt.checkpoint({"at": len(seen)})
        kept = attempt.checkpointed(dict)
        return [kept, await attempt.each(range(1400), look, batch=300, on_error="skip")]

    async with serving(bench.store, mine):
        events = await bench.end_of(await bench.submit("walk"))
    kept, walked = events[-1].result
    assert kept == {"at": 998}
    assert walked == {"done": 1400, "skips": 1, "skipped": [[1007, "LookupError: no product 1007"]]}
    assert seen == [item for item in range(1400) if item not in (7, 507)]
    assert [event.message for event in events if event.step == "resumed"] == [
        "saved before: checkpoint checkpoint, each 1"
    ]
