"""The page shared with the heart."""

import os

import pytest

from consumers.page import LONGEST_NONCE, SLOTS, Page
from streams.errors import TailraceError


def test_the_other_side_sees_what_is_held_until_it_is_freed() -> None:
    mine = Page()
    theirs = Page(os.dup(mine.fd))
    slot = mine.hold(0, "first")
    mine.hold(1, "n" * LONGEST_NONCE)
    assert theirs.held(2) == [["first"], ["n" * LONGEST_NONCE]]
    mine.free(slot)
    mine.hold(1, "third")
    assert theirs.held(2) == [[], ["third", "n" * LONGEST_NONCE]]
    theirs.close()
    mine.close()


def test_a_full_page_says_so() -> None:
    page = Page()
    for number in range(SLOTS):
        page.hold(0, str(number))
    with pytest.raises(TailraceError, match="at most"):
        page.hold(0, "one too many")
    page.close()


def test_a_process_may_serve_hundreds_of_platforms() -> None:
    page = Page()
    page.hold(299, "far")
    assert page.held(300)[299] == ["far"]
    page.close()
