"""messages: an event is what its writer said, with the store's id, number and time in front."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.messages import Event, Failure, Job, Record, decode_event, event_tail
from streams.states import State, Status

HEAD = b'{"id":"7-1763000000123456","seq":7,"time":"2025-11-13T02:13:20.123Z",'
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(st.integers(1, 99) | st.none(), st.sampled_from(Status), st.integers() | TEXTS | st.none(), TEXTS, VALUES)
def test_an_event_reads_as_it_was_written(
    attempt: int | None, status: Status, step: int | str | None, message: str, data: Any
) -> None:
    whole = HEAD + event_tail("kurly.a", attempt, status, step, "ann", message=message, data=data)
    event = decode_event(whole)
    assert (event.id, event.seq, event.jobId, event.workerId) == ("7-1763000000123456", 7, "kurly.a", "ann")
    assert (event.attempt, event.status, event.step) == (attempt, status, step)
    assert (event.message, event.data) == (message, data)


def test_an_event_is_one_line() -> None:
    tail = event_tail("kurly.a", 1, "progress", 1, "ann", message="two\nlines\r\nand more")
    assert b"\n" not in tail
    assert b"\r" not in tail


def test_what_is_not_said_is_not_written() -> None:
    event = Event("1-1", 1, "t", "kurly.a", None, Status.QUEUED, None, None)
    assert msgspec.json.encode(event) == (
        b'{"id":"1-1","seq":1,"time":"t","jobId":"kurly.a","attempt":null,"status":"queued","step":null,"workerId":null}'
    )


def test_a_field_of_a_later_version_does_not_disturb_an_earlier_one() -> None:
    assert decode_event(HEAD + event_tail("kurly.a", 1, "failed", None, None, future={"x": 1})).seq == 7


def test_an_error_reads_as_a_failure() -> None:
    error = {"type": "ValueError", "message": "no"}
    assert decode_event(HEAD + event_tail("kurly.a", 1, "failed", None, None, error=error)).error == Failure(**error)


def test_a_job_and_its_record_have_the_same_id() -> None:
    record = Record("kurly", "a", State.WAITING, "scan", "1-0", 1, "f")
    assert Job("kurly", "a", "scan", b"{}").id == record.id == "kurly.a"


@pytest.mark.parametrize("struct", [Job, Event, Record])
def test_messages_cannot_be_changed(struct: type[msgspec.Struct]) -> None:
    assert struct.__struct_config__.frozen
