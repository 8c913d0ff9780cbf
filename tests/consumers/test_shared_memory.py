"""The table shared with the heart."""

import os
import time

import pytest

from tailrace.consumers.heart.shared_memory import LONGEST_NONCE, SLOTS, LeaseTable
from tailrace.streams.errors import TailraceError


def test_the_other_side_sees_what_is_held_until_it_is_freed() -> None:
    mine = LeaseTable()
    theirs = LeaseTable(os.dup(mine.fd))
    slot = mine.hold(0, "first")
    mine.hold(1, "n" * LONGEST_NONCE)
    assert theirs.held("ab") == {"a": ["first"], "b": ["n" * LONGEST_NONCE]}
    mine.free(slot)
    mine.hold(1, "third")
    assert theirs.held("ab") == {"a": [], "b": ["third", "n" * LONGEST_NONCE]}
    theirs.close()
    mine.close()


def test_a_full_table_says_so() -> None:
    table = LeaseTable()
    for number in range(SLOTS):
        table.hold(0, str(number))
    with pytest.raises(TailraceError, match="at most"):
        table.hold(0, "one too many")
    table.close()


def test_a_process_may_serve_hundreds_of_platforms() -> None:
    table = LeaseTable()
    table.hold(299, "far")
    assert table.held(map(str, range(300)))["299"] == ["far"]
    table.close()


def test_the_other_side_sees_who_is_late_and_who_was_told() -> None:
    mine = LeaseTable()
    theirs = LeaseTable(os.dup(mine.fd))
    now = time.monotonic()
    slots = [mine.hold(0, nonce, deadline) for nonce, deadline in (("past", now - 1), ("later", now + 60), ("any", 0))]
    assert theirs.late(now) == {"past": now - 1}
    assert theirs.untold() == {"past", "later", "any"}
    mine.tell(slots[2])
    assert theirs.untold() == {"past", "later"}
    assert now <= theirs.late(time.monotonic())["any"] <= time.monotonic()
    for slot in slots:
        mine.settle(slot)
    assert theirs.late(now + 3600) == {}
    mine.free(slots[0])
    mine.hold(0, "fresh")
    assert theirs.untold() == {"fresh"}
    theirs.close()
    mine.close()


def test_the_consumer_sees_when_the_last_good_beat_was_sent() -> None:
    mine = LeaseTable()
    theirs = LeaseTable(os.dup(mine.fd))
    assert mine.last_beat() == 0.0
    theirs.beat(12.5, [1])
    assert mine.last_beat() == mine.last_beat(1) == 12.5
    assert mine.last_beat(0) == 0.0, "a beat on one platform says nothing of another"
    theirs.close()
    mine.close()
