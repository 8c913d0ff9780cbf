"""A channel alone: what it takes from the feed, when it asks for the log, and what it hands to its watchers."""

from functools import partial

import pytest

from tailrace.gateway.live.channel import CHUNK_BYTES, Channel
from tailrace.streams.history.fold import read_head
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Hint, Record
from tailrace.streams.replies import LogPart
from tailrace.streams.states import State
from tests.support.builders import forge

JOB = "shop.a"
event = partial(forge, JOB)
RECORD = Record("shop", "a", State.RUNNING, "drill", "1-1", 1, "")
QUEUED, STARTED = event(1, None, "queued"), event(2, 1, "started")
FIRST, SECOND = event(3, 1, "progress", 1), event(4, 1, "progress", 2)


def read(held: Channel, *log: bytes, in_order: bool = True, piece: int = 0) -> None:
    """Let it read this log, with `queued` in front, from where it wants to on; in pieces of this many entries."""
    for _ in range(100):
        first = held.next_read
        kept = log[max(0, first - 2) :]
        cut = kept[:piece] if piece else kept
        more = len(cut) < len(kept)
        if held.take(LogPart(RECORD, [*[QUEUED] * (first == 1), *cut], in_order, more)):
            return
    raise AssertionError("it never ends")


def channel(*log: bytes) -> Channel:
    made = Channel(PlatformKeys("shop"), "a")
    assert made.job_id == JOB
    read(made, *log)
    return made


def shown(held: Channel) -> list[bytes]:
    return [frame.partition(b"\ndata: ")[2].removesuffix(b"\n\n") for frame in held.frames]


def test_the_very_next_event_is_taken_from_the_feed() -> None:
    held = channel(STARTED)
    assert held.follow(Hint("a", 3, FIRST))
    assert held.follow(Hint("a", 4, SECOND))
    assert shown(held) == [QUEUED, STARTED, FIRST, SECOND]
    assert held.next_read == 4


def test_an_event_that_is_held_already_is_passed_over() -> None:
    held = channel(STARTED, FIRST)
    assert held.follow(Hint("a", 2, STARTED))
    assert held.follow(Hint("a", 3, FIRST))
    assert held.follow(Hint("a", 3, None))
    assert len(held.frames) == 3


def test_all_else_needs_the_log() -> None:
    held = channel(STARTED)
    assert not held.follow(Hint("a", 4, SECOND)), "a gap"
    assert not held.follow(Hint("a", 3, None)), "an event too large for the feed"
    assert not held.follow(Hint("a", 3, STARTED)), "a number that is not the event's own"
    assert not held.follow(Hint("a", 3, event(3, 1, "started"))), "a duplicate"
    assert not held.follow(Hint("a", 3, b"rubbish")), "no event"
    assert not held.follow(Hint("a", 2, event(2, 1, "progress", 7))), "another event where one was shown"
    assert not Channel(PlatformKeys("shop"), "a").follow(Hint("a", 1, QUEUED)), "nothing was read yet"
    assert shown(held) == [QUEUED, STARTED]


def test_the_log_is_continued_where_it_was_left() -> None:
    held = channel(STARTED)
    held.follow(Hint("a", 3, FIRST))
    assert held.next_read == 3
    assert held.take(LogPart(RECORD, [FIRST, SECOND], in_order=True, more=False))
    assert shown(held) == [QUEUED, STARTED, FIRST, SECOND]
    assert held.generation == 0


def test_a_log_that_does_not_overlap_is_read_whole() -> None:
    for other in ([], [SECOND]):
        held = channel(STARTED, FIRST)
        assert not held.take(LogPart(RECORD, other, in_order=True, more=False))
        assert held.next_read == 1
    read(held, STARTED, event(9, 1, "started"), FIRST, SECOND, in_order=False)  # one was written in by hand
    assert shown(held) == [QUEUED, STARTED, FIRST, SECOND]
    assert held.generation == 0


def test_another_history_than_the_one_shown_is_told_anew() -> None:
    held = channel(STARTED, FIRST)
    read(held, STARTED)
    assert held.generation == 1
    read(held, STARTED, SECOND)
    assert held.generation == 1


STEPS = [event(number, 1, "progress", number) for number in range(3, 60)]


@pytest.mark.parametrize("piece", [1, 2, 7, 100])
def test_a_long_log_is_read_in_pieces_and_shown_when_it_is_whole(piece: int) -> None:
    held = Channel(PlatformKeys("shop"), "a")
    read(held, STARTED, *STEPS, piece=max(2, piece))
    assert shown(held) == [QUEUED, STARTED, *STEPS]
    assert (held.generation, held.unread) == (0, False)


def test_a_watcher_that_goes_on_near_the_end_has_only_the_rest_read() -> None:
    held = Channel(PlatformKeys("shop"), "a")
    held.want(50)
    assert held.next_read == 50
    read(held, STARTED, *STEPS)
    assert shown(held) == STEPS[48:]
    assert (held.end, held.cursor_after(id_of(STEPS[47])), held.cursor_after(id_of(STEPS[48]))) == (59, 50, 51)
    assert held.cursor_after("50-1") is None
    assert held.after(58) == (59, held.frames[-1])
    more = event(60, 1, "progress", 60)
    assert held.follow(Hint("a", 7, STEPS[4])), "before it begins"
    assert held.follow(Hint("a", 60, more))
    read(held, STARTED, *STEPS, more)
    assert (held.end, held.generation) == (60, 0)


@pytest.mark.parametrize("base", [0, 1, 2, 10, 49])
def test_for_a_watcher_that_has_seen_less_it_begins_earlier(base: int) -> None:
    held = Channel(PlatformKeys("shop"), "a")
    held.want(50)
    read(held, STARTED, *STEPS)
    held.want(base)
    assert held.unread
    assert not held.follow(Hint("a", 60, event(60, 1, "progress", 60))), "while it is read again"
    read(held, STARTED, *STEPS, piece=5)
    assert shown(held) == [QUEUED, STARTED, *STEPS][base:]
    assert (held.end, held.generation) == (59, 0), "no watcher gets anything twice"


@pytest.mark.parametrize("in_order", [True, False], ids=["beyond the end", "written into by hand"])
def test_a_log_that_cannot_be_read_from_there_is_read_whole(in_order: bool) -> None:
    held = Channel(PlatformKeys("shop"), "a")
    held.want(70 if in_order else 50)
    read(held, STARTED, *STEPS, in_order=in_order)
    assert shown(held) == [QUEUED, STARTED, *STEPS]


def test_another_history_is_told_anew_from_its_beginning_also_if_the_old_one_was_not() -> None:
    held = Channel(PlatformKeys("shop"), "a")
    held.want(50)
    read(held, STARTED, *STEPS)
    read(held, STARTED, *STEPS[:40])
    assert shown(held) == [QUEUED, STARTED, *STEPS[:40]]
    assert held.generation == 1


def test_what_follows_an_end_is_shown_behind_it() -> None:
    log = [STARTED, event(3, 1, "failed"), event(4, 1, "reopened"), event(5, 2, "started"), event(6, 2, "completed")]
    for base in range(6):
        held = Channel(PlatformKeys("shop"), "a")
        held.want(base)
        read(held, *log)
        assert shown(held) == [QUEUED, *log][base:]
        assert held.ended


def id_of(raw: bytes) -> str:
    head = read_head(raw)
    assert head is not None
    return head.id


def test_pending_frames_are_joined_into_sends_of_bounded_size() -> None:
    large = [event(number, 1, "progress", number, text="x" * 30_000) for number in range(3, 12)]
    held = channel(STARTED, *large)
    cursor, sends = 0, []
    while cursor < len(held.frames):
        cursor, body = held.after(cursor)
        sends.append(body)
    assert b"".join(sends) == b"".join(held.frames)
    assert max(map(len, sends)) <= CHUNK_BYTES
    assert held.after(cursor) == (cursor, b"")


def test_one_frame_larger_than_a_send_still_goes_out() -> None:
    held = channel(STARTED, event(3, 1, "progress", 1, text="x" * 3 * CHUNK_BYTES), SECOND)
    assert held.after(2) == (3, held.frames[2])


def test_watchers_at_the_same_place_share_the_same_bytes() -> None:
    held = channel(STARTED, FIRST)
    assert held.after(1)[1] is held.after(1)[1]


def test_a_client_goes_on_after_the_last_id_it_has_seen() -> None:
    held = channel(STARTED, FIRST)
    ids = [frame.partition(b"\n")[0].removeprefix(b"id: ").decode() for frame in held.frames]
    assert [held.cursor_after(each) for each in ids] == [1, 2, 3]
    for unknown in ("", "9-9", "1-1", "2", "-", "x" * 100_000, "9" * 5000 + "-1", ids[0] + "\n", "٣-٣"):
        assert held.cursor_after(unknown) is None
