"""Trees of jobs from Python: all of one is accepted, or nothing; and signals."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tailrace.producers import Flow, Tailrace
from tailrace.streams.errors import JobNotFound, WrongField, WrongState
from tailrace.streams.flows.envelope import unseal
from tailrace.streams.options import Dedupe, Options, handed_options
from tailrace.streams.policies import Platforms
from tailrace.streams.replies import read_args
from tailrace.streams.store.connection import Store
from tests.support.builders import Desk, untouched
from tests.support.flowing import wait

PLATFORMS = Platforms().declare(["shop", "kurly", "ably"])
LEAF = Flow("kurly", "page", {"n": 1})


@pytest.fixture
async def store(valkey_url: str) -> AsyncIterator[Store]:
    async with Store(valkey_url) as store:
        yield store


@pytest.fixture
def tr(store: Store) -> Tailrace:
    return Tailrace.over(store, PLATFORMS)


async def test_a_tree_is_one_job_that_carries_the_others(tr: Tailrace, store: Store) -> None:
    tree = Flow("shop", "report", {"a": 1}, [LEAF, Flow("ably", "sum", None, [LEAF], Options(attempts=7))])
    flow = await tr.submit_flow(tree, id="r")
    assert (flow.id, flow.replayed, len(flow.children)) == ("shop.r", False, 2)
    assert [child.partition(".")[0] for child in flow.children] == ["kurly", "ably"]
    again = await tr.submit_flow(tree, id="r")
    assert (again.replayed, again.children) == (True, flow.children)
    desk = Desk(store)
    record = await desk.record("r")
    assert handed_options(record.options).flow
    assert await read_args(store, desk.keys, record) == b'{"a":1}', "who looks at the args sees no envelope"
    (held,) = await desk.claim()
    envelope = unseal(held.args)
    assert [child.kind for child in envelope.children] == ["page", "sum"]
    assert envelope.children[1].options.attempts == 7
    assert envelope.children[1].children[0].kind == "page"


def deep(levels: int) -> Flow:
    flow = LEAF
    for _ in range(levels - 1):
        flow = Flow("shop", "page", {}, [flow])
    return flow


KNOT: list[Flow] = []
KNOT.append(Flow("shop", "page", {}, KNOT))  # a job below itself

BAD = {
    "children[1].platform": Flow("shop", "report", {}, [LEAF, Flow("nowhere", "page")]),
    "children[0].children[0].kind": Flow("shop", "report", {}, [Flow("shop", "page", {}, [Flow("shop", "a b")])]),
    "children[0].args": Flow("shop", "report", {}, [Flow("shop", "page", [1])]),
    "children[0].args.steps": Flow("shop", "report", {}, [Flow("shop", "drill", {"steps": "x"})]),
    "children[0].dedupe": Flow("shop", "report", {}, [Flow("shop", "page", {}, (), Options(dedupe=Dedupe("k")))]),
    "children[0].order_key": Flow(
        "shop", "report", {}, [Flow("shop", "page", {}, (), Options(order_key="o"))], Options(order_key="o")
    ),
    "children": deep(21),
    "children ": KNOT[0],
}


@pytest.mark.parametrize("field", BAD)
async def test_a_tree_with_a_wrong_part_is_refused_by_its_name(tr: Tailrace, store: Store, field: str) -> None:
    async with untouched(store):
        with pytest.raises(WrongField) as refused:
            await tr.submit_flow(BAD[field])
    assert refused.value.field == field.strip()


async def test_a_tree_has_so_many_jobs_and_levels_and_no_more(tr: Tailrace, store: Store) -> None:
    await tr.submit_flow(deep(20), id="deep")
    await tr.submit_flow(Flow("shop", "report", {}, [LEAF] * 9_999), id="wide")
    async with untouched(store):
        for tree in (
            Flow("shop", "report", {}, [LEAF] * 10_000),
            Flow("shop", "report", {}, [Flow("kurly", "page", {"t": "x" * 600_000})] * 2),
        ):
            with pytest.raises(WrongField, match=r"at most .* this one has"):
                await tr.submit_flow(tree)


async def test_a_signal_reaches_a_job_that_awaits_it(tr: Tailrace, store: Store) -> None:
    desk = Desk(store)
    held = await desk.start("a")
    await wait(desk, held, "signal", "~1", name="approval")
    assert (await tr.signal("shop.a", "approval", {"by": "ann"})).status == "delivered"
    assert (await tr.signal("shop.a", "approval")).status == "again"
    assert (await tr.signal("shop.a", "later", [1])).status == "kept"


@pytest.mark.parametrize(
    ("name", "data", "field"),
    [("a b", None, "name"), ("", None, "name"), ("x", object(), "data"), ("x", "y" * 262_144, "data")],
)
async def test_a_wrong_signal_is_refused(tr: Tailrace, store: Store, name: str, data: Any, field: str) -> None:
    await Desk(store).submit("a")
    async with untouched(store):
        with pytest.raises(WrongField) as refused:
            await tr.signal("shop.a", name, data)
    assert refused.value.field == field


async def test_a_job_that_is_not_there_or_has_ended_takes_no_signal(tr: Tailrace, store: Store) -> None:
    with pytest.raises(JobNotFound):
        await tr.signal("shop.none", "go")
    desk = Desk(store)
    await desk.complete(await desk.start("a"))
    with pytest.raises(WrongState):
        await tr.signal("shop.a", "go")
    await desk.submit("b")
    for number in range(100):
        await tr.signal("shop.b", f"s{number}")
    with pytest.raises(WrongField, match="100"):
        await tr.signal("shop.b", "one-more")
