"""The producer's two tokens: the fingerprint of a request and the key of a new job."""

import json
import time
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tailrace.producers.producer import encode_args, fingerprint, new_key
from tailrace.streams.keys import check_key
from tailrace.streams.messages import Job
from tailrace.streams.options import NO_OPTIONS, Dedupe, Options

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8"), max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abcxyz", max_size=3), inner, max_size=4),
    max_leaves=10,
)


def mark(kind: str, args: Any, options: Options = NO_OPTIONS) -> str:
    return fingerprint(Job("shop", "a", kind, encode_args(args), options))


def turned(value: Any) -> Any:
    """The same JSON with the members of every object in the other order."""
    if isinstance(value, dict):
        return {name: turned(value[name]) for name in reversed(value)}
    return [turned(item) for item in value] if isinstance(value, list) else value


@given(VALUES)
def test_the_order_of_members_is_not_part_of_a_request(args: Any) -> None:
    assert mark("scan", args) == mark("scan", turned(args))


@given(VALUES, VALUES)
def test_another_body_has_another_fingerprint(args: Any, other: Any) -> None:
    same = json.dumps(args, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (mark("scan", args) == mark("scan", other)) == same


def test_kind_and_priority_are_part_of_a_request() -> None:
    asked = (NO_OPTIONS, Options(priority="high"), Options(attempts=5), Options(priority="high", attempts=5))
    prints = {mark(kind, {}, options) for kind in ("scan", "drill") for options in asked}
    assert len(prints) == 8


def test_a_fingerprint_is_small_and_never_changes() -> None:
    """It is stored: a new version of the code must know the jobs of the old one."""
    assert mark("scan", {"b": [1, None], "a": "ü"}) == "gbdHT8KoPpLtER7X"
    many = Options(priority="high", attempts=5, delay_seconds=0.5, dedupe=Dedupe("k"))
    assert mark("scan", {"b": {"d": 1, "c": 2}}, many) == "oF1mquoLg-R1ZonC"


def test_new_keys_are_unique_and_sorted_by_time() -> None:
    keys = [new_key() for _ in range(1000)]
    assert len(set(keys)) == 1000
    assert [key[:13] for key in keys] == sorted(key[:13] for key in keys)
    assert check_key(keys[0]) == keys[0]


def test_a_new_key_is_a_uuid_of_version_7() -> None:
    before = time.time_ns() // 1_000_000
    value = UUID(new_key())
    assert (value.version, value.variant) == (7, "specified in RFC 4122")
    assert before <= value.int >> 80 <= time.time_ns() // 1_000_000
