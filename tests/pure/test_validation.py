"""validation: what is wrong with a value, as a sentence, and where it stands."""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from tailrace.streams.validation import field_of, sentence_of


class Dedupe(Struct, forbid_unknown_fields=True):
    key: str
    mode: Literal["until_done", "throttle"] = "until_done"


class Shape(Struct, forbid_unknown_fields=True):
    steps: Annotated[int, Meta(ge=0, le=100)]
    share: Annotated[float, Meta(ge=0, le=0.5)] = 0.0
    text: Annotated[str, Meta(min_length=1, max_length=3)] = "a"
    letter: Annotated[str, Meta(max_length=1)] = "a"
    names: Annotated[list[Annotated[str, Meta(min_length=2)]], Meta(max_length=2)] = []
    block: Literal["sleep", "spin"] | None = None
    dedupe: Dedupe | None = None
    counts: dict[str, int] = {}
    once: bool = False
    number: Literal[1, 2] = 1


KNOWN = ", ".join(Shape.__struct_fields__)

WRONG = [
    ({}, "steps", "is missing"),
    ({"steps": "5"}, "steps", "must be a whole number, not a string"),
    ({"steps": 1.5}, "steps", "must be a whole number, not a number"),
    ({"steps": None}, "steps", "must be a whole number, not null"),
    ({"steps": True}, "steps", "must be a whole number, not true or false"),
    ({"steps": -1}, "steps", "must be 0 or more"),
    ({"steps": 101}, "steps", "must be 100 or less"),
    ({"steps": 1, "share": []}, "share", "must be a number, not a list"),
    ({"steps": 1, "share": -1}, "share", "must be 0 or more"),
    ({"steps": 1, "share": 1}, "share", "must be 0.5 or less"),
    ({"steps": 1, "text": ""}, "text", "must not be empty"),
    ({"steps": 1, "text": "long"}, "text", "may have at most 3 characters"),
    ({"steps": 1, "letter": "ab"}, "letter", "may have at most 1 character"),
    ({"steps": 1, "names": ["ab", "cd", "ef"]}, "names", "may have at most 2 items"),
    ({"steps": 1, "names": ["ab", "c"]}, "names[1]", "must have at least 2 characters"),
    ({"steps": 1, "names": {}}, "names", "must be a list, not an object"),
    ({"steps": 1, "block": "nap"}, "block", "must be one of sleep, spin, not 'nap'"),
    ({"steps": 1, "block": 3}, "block", "must be a string or null, not a whole number"),
    ({"steps": 1, "dedupe": {}}, "dedupe.key", "is missing"),
    ({"steps": 1, "dedupe": {"key": "k", "mode": "x"}}, "dedupe.mode", "must be one of throttle, until_done, not 'x'"),
    ({"steps": 1, "dedupe": {"key": "k", "more": 1}}, "dedupe.more", "is not a known field; did you mean mode?"),
    ({"steps": 1, "dedupe": 5}, "dedupe", "must be an object or null, not a whole number"),
    ({"steps": 1, "counts": {"a": "b"}}, "counts[...]", "must be a whole number, not a string"),
    ({"steps": 1, "once": 1}, "once", "must be true or false, not a whole number"),
    ({"steps": 1, "number": 3}, "number", "must be one of 1, 2, not 3"),
    ({"steps": 1, "more": 1}, "more", f"is not a known field; known are {KNOWN}"),
    ({"steps": 1, "a`b": 1}, "a`b", f"is not a known field; known are {KNOWN}"),
    ([], "", "must be an object, not a list"),
]


def refused(value: Any) -> msgspec.ValidationError:
    with pytest.raises(msgspec.ValidationError) as refusal:
        msgspec.convert(value, Shape)
    return refusal.value


@pytest.mark.parametrize(("value", "field", "reason"), WRONG)
def test_what_is_wrong_is_a_sentence_about_a_field(value: Any, field: str, reason: str) -> None:
    error = refused(value)
    assert field_of(error, "", Shape) == (field, reason)
    assert field_of(error, "args", Shape) == ((f"args.{field}" if field else "args"), reason)
    assert sentence_of(error, Shape) == (f"{field}: {reason}" if field else reason)


def test_without_the_shape_a_wrong_word_is_named_all_the_same() -> None:
    assert field_of(refused({"steps": 1, "block": "nap"}), "args") == (
        "args.block",
        "is an unknown word, 'nap'",
    )


def test_a_number_beyond_all_bounds_is_one() -> None:
    with pytest.raises(msgspec.ValidationError) as refusal:
        msgspec.json.decode(b'{"steps":1,"share":1e999}', type=Shape)
    assert field_of(refusal.value, "") == ("share", "is a number beyond all bounds")


@given(st.dictionaries(st.text(max_size=20), st.integers(), min_size=1))
def test_no_name_of_a_field_confuses_it(value: dict[str, int]) -> None:
    error = refused({"steps": -1} | value if "steps" not in value else {"steps": "x"})
    field, reason = field_of(error, "args", Shape)
    assert field.startswith("args")
    assert reason
