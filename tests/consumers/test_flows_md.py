"""The code of the chapter on steps and flows runs."""

import re
from typing import Any

from tailrace.consumers.testing import run_handler
from tailrace.ops.bootstrap import CHECKOUT
from tailrace.producers import Tailrace
from tailrace.streams.states import Status

CHAPTER = (CHECKOUT / "consumers" / "flows.md").read_text(encoding="utf-8")


def code() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "shop"}
    for block in re.findall(r"```python\n(.*?)```", CHAPTER, flags=re.DOTALL):
        exec(compile(block, "flows.md", "exec"), names)
    return names


async def test_the_flow_of_the_chapter_is_tried_as_it_says() -> None:
    await code()["test_an_order_waits_for_its_pages_and_for_approval"]()


async def test_each_pattern_of_bullmq_does_what_it_says() -> None:
    handles = code()["handles"]
    page = await run_handler(handles, "page", {"address": "abc"})
    assert page.result == {"address": "abc", "words": 3}
    steps = await run_handler(handles, "steps", {"text": " a "})
    assert (steps.result, steps.steps) == ("A", {"first": " A ", "second": "A"})
    pointer = await run_handler(handles, "pointer", {"pages": 3}, attempt=2, saved={"@checkpoint checkpoint": 2})
    assert pointer.result == 3
    later = await run_handler(handles, "later")
    assert later.status is Status.DELAYED
    assert later.again_in_seconds is not None
    assert 3590 < later.again_in_seconds <= 3600
    assert (await run_handler(handles, "polite")).status is Status.SUPERSEDED
    parent = await run_handler(handles, "parent", children={"child": lambda args: 6 // args["n"]})
    assert parent.result == ["ZeroDivisionError", 6, 3]
    walk = await run_handler(handles, "walk", {"products": 120})
    assert walk.result == {"done": 120, "skipped": [13]}
    limited = await run_handler(handles, "limited")
    assert (limited.status, limited.again_in_seconds) == (Status.DELAYED, 30)
    grandparent = await run_handler(handles, "grandparent", children={"parent": lambda args: 7})
    assert grandparent.result == [7, 7]
    assert (await run_handler(handles, "book", {"title": "Empty"})).result == {"Empty": []}


async def test_the_tree_of_the_chapter_is_accepted_and_tried_as_it_says(valkey_url: str) -> None:
    names = code()
    async with Tailrace(valkey_url) as tr:
        assert await names["add"](tr) == "default.rivers"
        job = await tr.get("default.rivers")
    assert (job.kind, job.status) == ("book", "waiting")
    await names["test_a_book_has_its_pages_before_it_begins"]()
