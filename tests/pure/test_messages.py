"""messages and events: an event is what its writer said, with the store's id in front, made whole by its reader."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.streams.history.events import Event, decode_event, event_body, expand
from tailrace.streams.messages import Failure, Job, Record
from tailrace.streams.states import State, Status

ID = "7-17630000001234560"
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def shown(body: bytes) -> Event:
    return decode_event(expand("kurly.a", f"{ID} ".encode() + body))


@given(st.integers(1, 99), st.sampled_from(Status), st.integers() | TEXTS | st.none(), TEXTS, VALUES)
def test_an_event_reads_as_it_was_written(
    attempt: int, status: Status, step: int | str | None, message: str, data: Any
) -> None:
    event = shown(event_body(attempt, status, "ann", step, message=message, data=data))
    assert (event.id, event.seq, event.jobId, event.workerId) == (ID, 7, "kurly.a", "ann")
    assert event.time == "2025-11-13T02:13:20.123Z"
    assert (event.attempt, event.status, event.step) == (attempt, status, step)
    assert (event.message, event.data) == (message, data)


@given(st.integers(10**15, 10**16 - 1))  # microseconds, while seconds have ten digits
def test_the_time_of_an_event_is_right_on_every_day(micros: int) -> None:
    day = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    event = decode_event(expand("kurly.a", f"2-{micros}0 1 started ann null}}".encode()))
    assert event.time == day.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def test_an_event_of_nobody_and_of_no_attempt() -> None:
    event = shown(b"~ cancelled ~ null}")
    assert (event.attempt, event.workerId, event.status) == (None, None, Status.CANCELLED)


def test_an_event_is_one_line() -> None:
    body = event_body(1, "progress", "ann", 1, message="two\nlines\r\nand more")
    assert b"\n" not in body
    assert b"\r" not in body


@given(st.binary(max_size=60) | TEXTS.map(lambda text: f"{text} 1 progress ann 1}}".encode()))
def test_what_nobody_here_has_written_stays_as_it_is(rubbish: bytes) -> None:
    assert expand("kurly.a", rubbish) == rubbish or rubbish.split(b" ")[0].partition(b"-")[2].isdigit()


def test_what_is_not_said_is_not_written() -> None:
    event = Event("1-1", 1, "t", "kurly.a", None, Status.QUEUED, None, None)
    assert msgspec.json.encode(event) == (
        b'{"id":"1-1","seq":1,"time":"t","jobId":"kurly.a","attempt":null,"status":"queued","step":null,"workerId":null}'
    )


def test_a_field_of_a_later_version_does_not_disturb_an_earlier_one() -> None:
    assert shown(event_body(1, "failed", "ann", future={"x": 1})).seq == 7


def test_an_error_reads_as_a_failure() -> None:
    error = {"type": "ValueError", "message": "no"}
    assert shown(event_body(1, "failed", "ann", error=error)).error == Failure(**error)


def test_a_job_and_its_record_have_the_same_id() -> None:
    record = Record("kurly", "a", State.WAITING, "scan", "1-0", 1, "f")
    assert Job("kurly", "a", "scan", b"{}").id == record.id == "kurly.a"


@pytest.mark.parametrize("struct", [Job, Event, Record])
def test_messages_cannot_be_changed(struct: type[msgspec.Struct]) -> None:
    assert struct.__struct_config__.frozen
