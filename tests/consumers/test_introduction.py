"""What a consumer tells of itself: noted by its loop in the shared table, told by its heart when it is new."""

import os
import time

import msgspec
import psutil
import pytest

from tailrace.consumers.heart.introduction import EVERY_SECONDS, Introduction, version
from tailrace.consumers.heart.shared_memory import LONGEST_NOTE, LeaseTable
from tailrace.consumers.heart.vitals import MOST_REFUSED, Vitals, read_note
from tailrace.consumers.watchdog import TICK_SECONDS
from tailrace.streams.messages import About, RefusedWrites


@pytest.fixture
def table() -> LeaseTable:
    return LeaseTable()


def told(introduction: Introduction) -> About:
    return msgspec.json.decode(introduction.news(), type=About)


def test_a_note_is_seen_by_the_other_side_and_replaced_by_the_next(table: LeaseTable) -> None:
    theirs = LeaseTable(os.dup(table.fd))
    assert theirs.noted() == b""
    table.note(b"a longer one")
    table.note(b"short")
    assert theirs.noted() == b"short"
    table.note(b"x" * (LONGEST_NOTE + 1))
    assert theirs.noted() == b"short"
    slot = table.hold(0, "nonce")
    assert (theirs.held("a"), theirs.noted()) == ({"a": ["nonce"]}, b"short")
    table.free(slot)


def test_the_longest_time_the_loop_was_held_lately_is_its_lag(table: LeaseTable) -> None:
    vitals = Vitals(table)
    for held in (0.002, 0.4, -0.001):
        vitals.tick(held)
    note = read_note(table)
    assert note
    assert note.held_seconds == 0.4
    assert note.lag_seconds(note.ticked + TICK_SECONDS) == 0.4
    assert note.lag_seconds(note.ticked + TICK_SECONDS + 7) == pytest.approx(7), "it is held just now"
    for _ in range(40):
        vitals.tick(0.001)
    note = read_note(table)
    assert note
    assert note.held_seconds == 0.001


def test_refused_writes_are_counted_by_attempt_and_the_last_few_are_named(table: LeaseTable) -> None:
    vitals = Vitals(table)
    for number in range(MOST_REFUSED + 2):
        vitals.refuse(f"research.{number}", 1, 1)
    vitals.refuse("research.5", 1, 2)
    vitals.tick(0)
    note = read_note(table)
    assert note
    assert len(note.refused) == MOST_REFUSED
    assert note.refused[-1] == RefusedWrites("research.5", 1, 3)
    assert RefusedWrites("research.0", 1, 1) not in note.refused


def test_the_longest_names_still_fit_into_the_table(table: LeaseTable) -> None:
    vitals = Vitals(table)
    for number in range(MOST_REFUSED):
        vitals.refuse(f"{'p' * 32}.{str(number) * 64}", 999, 99999)
    vitals.tick(1000.123456789)
    note = read_note(table)
    assert note
    assert len(note.refused) == MOST_REFUSED


def test_a_half_written_note_is_no_note(table: LeaseTable) -> None:
    table.note(b"[1.0,0.")
    assert read_note(table) is None


def test_a_heart_tells_where_its_consumer_runs_and_then_only_what_is_new(table: LeaseTable) -> None:
    introduction = Introduction(psutil.Process(), table, 1.5)
    first = told(introduction)
    assert (first.pid, first.version, first.lag_seconds) == (os.getpid(), version(), None)
    assert first.deadline_seconds == 1.5
    assert first.host
    assert first.memory_bytes
    assert first.memory_bytes > 1_000_000
    assert told(introduction) == msgspec.structs.replace(first, memory_bytes=told(introduction).memory_bytes), "unheard"
    introduction.heard()
    assert introduction.news() == b""
    vitals = Vitals(table)
    vitals.tick(0.01)
    assert introduction.news() == b""
    vitals.refuse("research.a", 1, 1)
    vitals.tick(0.01)
    assert told(introduction).refused == (RefusedWrites("research.a", 1, 1),)
    introduction.heard()
    assert introduction.news() == b""


def test_a_loop_that_is_held_is_told_of_with_each_beat(table: LeaseTable) -> None:
    introduction = Introduction(psutil.Process(), table, 1.5)
    vitals = Vitals(table)
    vitals.tick(1.5)
    for _ in range(2):
        assert told(introduction).lag_seconds == 1.5
        introduction.heard()


def test_it_is_told_anew_after_a_while(table: LeaseTable, monkeypatch: pytest.MonkeyPatch) -> None:
    introduction = Introduction(psutil.Process(), table, 1.5)
    introduction.heard()
    later = time.monotonic() + EVERY_SECONDS + 1
    monkeypatch.setattr("tailrace.consumers.heart.introduction.time.monotonic", lambda: later)
    assert introduction.news()


def test_the_version_is_that_of_the_project() -> None:
    assert version()
