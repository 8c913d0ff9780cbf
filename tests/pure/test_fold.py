"""The fold alone: whatever is fed into it, what comes out is a history."""

import random
from collections.abc import Iterator
from functools import partial
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.streams.history.fold import Fold, Head, read_head, visible
from tailrace.streams.states import TERMINAL, Status
from tests.support.builders import forge

JOB = "shop.a"
event = partial(forge, JOB)


def shown(events: list[bytes]) -> list[bytes]:
    return [raw for _, raw in visible(JOB, events)]


STEPS: st.SearchStrategy[int | str] = st.sampled_from([1, 2, 3, "1", "page"])


@st.composite
def histories(draw: st.DrawFn) -> list[bytes]:
    """What the store itself may write: attempts, steps, take-overs, ends and new lives."""
    numbers = count(1)

    def life(attempt: int | None) -> Iterator[bytes]:
        for _ in range(draw(st.integers(0, 3))):
            attempt = (attempt or 0) + 1
            yield event(next(numbers), attempt, "started")
            for step in draw(st.lists(STEPS, unique=True)):
                yield event(next(numbers), attempt, "progress", step)
            yield event(next(numbers), attempt, draw(st.sampled_from(["superseded", "retrying", "delayed"])))
        attempt_ended = draw(st.sampled_from(["completed", "failed", "cancelled", None]))
        if attempt_ended in ("completed", "failed"):
            attempt = (attempt or 0) + 1
            yield event(next(numbers), attempt, "started")
        if attempt_ended:
            yield event(next(numbers), attempt, attempt_ended)

    events = [event(next(numbers), None, "queued"), *life(None)]
    for _ in range(draw(st.integers(0, 2))):
        last = head_of(events[-1])
        if last.status in TERMINAL:
            events.append(event(next(numbers), last.attempt, "reopened"))
            events += life(last.attempt)
    return events


def head_of(raw: bytes) -> Head:
    head = read_head(raw)
    assert head is not None
    return head


GARBAGE = st.one_of(
    st.binary(max_size=40), st.sampled_from([b"", b"{}", b"null", b"[1]", b'{"id":"1-1"}', b"[" * 5000])
)

WILD = st.one_of(
    GARBAGE,
    st.builds(
        event,
        st.integers(1, 30),
        st.sampled_from([None, 1, 2, 3]),
        st.sampled_from([status.value for status in Status]),
        st.sampled_from([None, None, 1, 2, "1"]),
    ),
)


@given(histories())
def test_what_the_store_writes_is_shown_whole(events: list[bytes]) -> None:
    assert shown(events) == events


@given(histories(), st.data())
def test_what_is_written_in_by_hand_is_not_shown(events: list[bytes], data: st.DataObject) -> None:
    """Duplicates of what came before, words of older attempts, words after the end, and bytes that are no event."""
    chance = random.Random(data.draw(st.integers()))
    written = []
    for place, raw in enumerate(events, 1):
        written.append(raw)
        written += [forged(events[:place], chance) for _ in range(chance.randrange(3))]
    assert shown(written) == events


def forged(before: list[bytes], chance: random.Random) -> bytes:
    newest = head_of(before[-1])
    old = head_of(chance.choice(before))
    number = chance.randrange(1000, 9999)
    choices = [chance.choice(before), chance.randbytes(20), before[-1] + b"\n", before[-1][:-1]]
    if old.status not in (Status.REOPENED, Status.CANCELLED):  # these two may truly come again
        choices.append(event(number, old.attempt, old.status, old.step))
    if (old.attempt or 0) < (newest.attempt or 0):
        choices.append(event(number, old.attempt, "progress", number))
    if newest.status in TERMINAL:
        choices += [event(number, newest.attempt, "completed"), event(number, 99, "started")]
    if newest.status is Status.SUPERSEDED:
        choices += [event(number, newest.attempt, "progress", number), event(number, newest.attempt, "completed")]
    return chance.choice(choices)


@given(st.lists(WILD, max_size=60))
def test_anything_folds_into_a_history(events: list[bytes]) -> None:
    heads = [head for head, _ in visible(JOB, events)]
    ended, lives, told = False, 0, set()
    for before, head in zip([None, *heads], heads, strict=False):
        assert (head.status is Status.REOPENED) is ended
        lives += ended
        ended = head.status in TERMINAL
        assert before is None or (before.attempt or 0) <= (head.attempt or 0)
        of_a_person = head.status in (Status.REOPENED, Status.CANCELLED)
        what = (head.attempt, head.step or (head.status, lives if of_a_person else None))
        assert what not in told
        told.add(what)
    assert len({head.id for head in heads}) == len(heads)


@given(st.lists(WILD, max_size=40))
def test_folding_twice_changes_nothing(events: list[bytes]) -> None:
    once = shown(events)
    assert shown(once) == once


@given(st.lists(WILD, max_size=40), st.integers(0, 40))
def test_a_fold_can_be_broken_off_and_resumed(events: list[bytes], place: int) -> None:
    assert shown([*shown(events[:place]), *events[place:]]) == shown(events)


@given(st.lists(WILD, max_size=40))
def test_what_is_not_shown_leaves_no_trace(events: list[bytes]) -> None:
    seeing, strict = Fold(JOB), Fold(JOB)
    for raw in events:
        head = read_head(raw)
        if head and seeing.accept(head):
            assert strict.accept(head)


@pytest.mark.parametrize(
    "raw",
    [
        event(2, 1, "started").replace(b"shop.a", b"shop.b"),
        event(2, 0, "started"),
        event(2, -1, "started"),
        event(2, 1, "exploded"),
        event(2, 1, "progress", 1).replace(b'"step":1', b'"step":[1]'),
        event(2, 1, "started").replace(b'"2-1700000000000000"', b'"2-1\\nevent: x"'),
        event(2, 1, "started").replace(b'"2-1700000000000000"', b'"2"'),
        event(2, 1, "started").replace(b",", b",\n", 1),
        event(2, 1, "started", message="\u00e9").replace("\u00e9".encode(), b"\xe9"),
        event(2, 1, "started") + b" {}",
        b"\xff\xfe",
    ],
)
def test_what_is_no_event_of_this_job_is_dropped(raw: bytes) -> None:
    assert shown([event(1, None, "queued"), raw]) == [event(1, None, "queued")]


@pytest.mark.parametrize("left", ["superseded", "retrying", "delayed"])
def test_an_attempt_that_has_left_its_job_shows_no_more_work(left: str) -> None:
    told = [event(1, None, "queued"), event(2, 1, "started"), event(3, 1, left)]
    late = [event(4, 1, "progress", 1), event(5, 1, "completed", result="late")]
    assert shown([*told, *late, event(6, 1, "cancelled")]) == [*told, event(6, 1, "cancelled")]


def test_a_cancel_is_asked_for_and_told_once_in_each_life() -> None:
    """An end that was copied under another id keeps its number: it ends no other life."""
    told = [
        *(event(1, None, "queued"), event(2, 1, "started"), event(3, 1, "cancelling"), event(4, 1, "cancelled")),
        event(5, 1, "reopened"),
    ]
    copied = event(4, 1, "cancelled").replace(b'"id":"4-', b'"id":"94-')
    again = [event(6, 2, "started"), event(7, 2, "cancelling"), event(8, 2, "cancelled")]
    assert shown([*told, copied, *again]) == [*told, *again]
