"""feed: a reader that comes late knows that it may have missed something."""

from gateway.feed import LONG_MS, far_apart


def test_entries_far_apart_in_time_may_have_lost_some_in_between() -> None:
    assert not far_apart("1700000000000-5", "1700000000000-9")
    assert not far_apart("1700000000000-5", f"{1700000000000 + LONG_MS - 1}-0")
    assert far_apart("1700000000000-5", f"{1700000000000 + LONG_MS}-0")
    assert far_apart("0-0", "1700000000000-0")
