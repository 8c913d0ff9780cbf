"""A channel alone: what it takes from the feed, when it asks for the log, and what it hands to its watchers."""

from gateway.channel import CHUNK_BYTES, Channel
from streams.keys import PlatformKeys
from streams.messages import Hint
from tests.gateway.test_fold import JOB, event

QUEUED, STARTED = event(1, None, "queued"), event(2, 1, "started")
FIRST, SECOND = event(3, 1, "progress", 1), event(4, 1, "progress", 2)


def channel(*log: bytes) -> Channel:
    made = Channel(PlatformKeys("shop"), "a")
    assert made.job_id == JOB
    made.replace([QUEUED, *log])
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
    assert held.extend([FIRST, SECOND])
    assert shown(held) == [QUEUED, STARTED, FIRST, SECOND]
    assert held.generation == 0


def test_a_log_that_does_not_overlap_is_read_whole() -> None:
    held = channel(STARTED, FIRST)
    assert not held.extend([])
    assert not held.extend([SECOND])
    held.replace([QUEUED, STARTED, event(9, 1, "started"), FIRST, SECOND])  # one was written in by hand
    assert shown(held) == [QUEUED, STARTED, FIRST, SECOND]
    assert held.generation == 0


def test_another_history_than_the_one_shown_is_told_anew() -> None:
    held = channel(STARTED, FIRST)
    held.replace([QUEUED, STARTED])
    assert held.generation == 1
    held.replace([QUEUED, STARTED, SECOND])
    assert held.generation == 1


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
