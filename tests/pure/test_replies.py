"""reading: raw replies become what they mean, without asking the store anything."""

import pytest

from tailrace.streams.history.events import decode_event, iso, queued_event
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.leases import to_lease, to_leases
from tailrace.streams.messages import Claim, Hint, Lease
from tailrace.streams.replies import to_claims, to_hints, to_record
from tailrace.streams.states import State, Status

KEYS = PlatformKeys("kurly")
WAITING = [b"state", b"waiting", b"kind", b"scan", b"band", b"low", b"entry", b"1763000000123-4", b"fingerprint", b"f"]


def test_a_record_is_read_with_its_times_and_numbers() -> None:
    started = [b"attempt", b"2", b"seq", b"9", b"started", b"10-17630000009990000", b"owner", b"ann"]
    record = to_record(KEYS, "a", [*WAITING, *started])
    assert record is not None
    assert (record.state, record.band, record.accepted_ms) == (State.WAITING, "low", 1763000000123)
    assert (record.attempt, record.seq, record.started_ms, record.owner) == (2, 9, 1763000000999, "ann")


def test_a_record_has_what_a_job_has_before_its_first_start() -> None:
    record = to_record(KEYS, "a", WAITING)
    assert record is not None
    assert (record.seq, record.attempt, record.crashes, record.started_ms) == (1, 0, 0, None)


def test_a_field_of_a_later_version_is_left_out() -> None:
    assert to_record(KEYS, "a", [*WAITING, b"future", b"1"]) == to_record(KEYS, "a", WAITING)


def test_no_fields_are_no_job() -> None:
    assert to_record(KEYS, "a", []) is None


def test_the_first_event_of_a_job_is_made_of_its_record() -> None:
    record = to_record(KEYS, "a", WAITING)
    assert record is not None
    event = decode_event(queued_event(record))
    assert (event.seq, event.status, event.jobId, event.attempt) == (1, Status.QUEUED, "kurly.a", None)
    assert event.id.startswith("1-1763000000123")
    assert event.time == "2025-11-13T02:13:20.123Z"


def test_claims_are_read_behind_the_time_and_the_word() -> None:
    first = [b"n1", b"a", b"scan", b"{}", b"250"]
    second = [b"n2", b"b", b"drill", b"[]", b'3 2 1500  {"attempts":5}']
    claims = [
        Claim("n1", "a", 1, "scan", b"{}", waited_seconds=0.25),
        Claim("n2", "b", 3, "drill", b"[]", b'{"attempts":5}', 2, 1.5),
    ]
    assert to_claims([b"", b"", *first, *second]) == claims
    assert to_claims([b"250", b"empty"]) == []


def test_leases_are_read_and_what_somebody_else_wrote_is_left_out() -> None:
    lease = Lease("n1", "a", "normal", "5-0", "ann", 2.5)
    assert to_lease("n1", "0 2 a 2-17630000009990000 1 ann normal 5-0 2500") == lease
    assert to_leases({"n1": "0 2 a 2-17630000009990000 1 ann normal 5-0 2500", "n2": "nonsense"}) == [lease]


def test_hints_are_read_and_what_somebody_else_wrote_is_left_out() -> None:
    entries = [
        [b"1-0", [b"a 2", b"{}", b"b 3", b""]],
        [b"2-0", [b"nonsense", b"x", b"c \xff", b"x", b"d 4", b"{}"]],
    ]
    assert to_hints("kurly", entries) == [Hint("a", 2, b"{}"), Hint("b", 3, None), Hint("d", 4, b"{}")]


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1763000000123, "2025-11-13T02:13:20.123Z"),
        (1835395200999, "2028-02-29T00:00:00.999Z"),
    ],
)
def test_times_are_written_to_the_millisecond(ms: int, text: str) -> None:
    assert iso(ms) == text
