"""kinds: args that a built-in kind cannot take are refused, naming the field."""

from typing import Any

import pytest

from tailrace.producers.kinds import check_args
from tailrace.streams.errors import WrongField


@pytest.mark.parametrize(
    ("kind", "args"),
    [
        ("research", {"query": "why"}),
        ("scan", {"workflow_id": "w", "params": {"product_ids": [1, 2]}}),
        ("scan", {}),
        ("scan", {"params": {"product_ids": [], "shop": {"id": None}, "depth": 3}}),
        ("scan", {"params": {"product_ids": ["a-1", 7, -7, 2**70, "https://shop.example/p/" + "x" * 1900]}}),
        ("scan", {"params": {"product_ids": [1] * 10_000}}),
        ("process-material", {"materialId": "m"}),
        ("process-material", {"materialId": "m", "document": "tides.txt"}),
        ("drill", {}),
        ("drill", {"steps": 0, "seconds": 0, "block": "regex", "exit_at_step": 2, "exit_once": True, "result": [1]}),
        ("my-own-kind", {"anything": "goes"}),
    ],
)
def test_right_args_are_taken(kind: str, args: Any) -> None:
    check_args(kind, args)


@pytest.mark.parametrize(
    ("kind", "args", "field"),
    [
        ("research", {}, "args.query"),
        ("research", {"query": ""}, "args.query"),
        ("research", {"query": 1}, "args.query"),
        ("research", {"query": "why", "extra": 1}, "args.extra"),
        ("scan", {"params": []}, "args.params"),
        ("scan", {"product_ids": ["a"]}, "args.product_ids"),
        ("scan", {"params": {"product_ids": "abc"}}, "args.params.product_ids"),
        ("scan", {"params": {"product_ids": None}}, "args.params.product_ids"),
        ("scan", {"params": {"product_ids": {}}}, "args.params.product_ids"),
        ("scan", {"params": {"product_ids": [1, None, {}]}}, "args.params.product_ids[1]"),
        ("scan", {"params": {"product_ids": [1.5]}}, "args.params.product_ids[0]"),
        ("scan", {"params": {"product_ids": [True]}}, "args.params.product_ids[0]"),
        ("scan", {"params": {"product_ids": ["x" * 2001]}}, "args.params.product_ids[0]"),
        ("scan", {"params": {"product_ids": [1] * 10_001}}, "args.params.product_ids"),
        ("process-material", {"materialId": "m", "document": ""}, "args.document"),
        ("drill", {"steps": -1}, "args.steps"),
        ("drill", {"steps": 1.5}, "args.steps"),
        ("drill", {"seconds": "2"}, "args.seconds"),
        ("drill", {"block": "nap"}, "args.block"),
        ("drill", {"exit_at_step": 0}, "args.exit_at_step"),
        ("drill", [], "args"),
        ("research", None, "args"),
        ("my-own-kind", "text", "args"),
    ],
)
def test_wrong_args_are_refused_naming_the_field(kind: str, args: Any, field: str) -> None:
    with pytest.raises(WrongField) as refusal:
        check_args(kind, args)
    assert refusal.value.field == field
    assert "`" not in refusal.value.reason
