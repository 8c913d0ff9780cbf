"""estimate: when a job may start, by how long others took."""

from math import ceil

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from streams.estimate import Outlook, expected_start, rate_until, remaining

NOW = 1_763_000_000_000
times = st.floats(0, 1e7)

outlooks = st.builds(
    Outlook,
    now_ms=st.just(NOW),
    place=st.integers(1, 200),
    slots=st.integers(1, 50),
    elapsed_ms=st.lists(times, max_size=60).map(tuple),
    took_ms=st.lists(times, max_size=20).map(tuple),
    not_before_ms=st.one_of(st.just(0.0), st.floats(NOW - 1e6, NOW + 1e6)),
    rate=st.integers(0, 5),
    rate_ms=times,
)


@given(outlooks)
def test_it_is_never_in_the_past_and_never_before_it_may_be(outlook: Outlook) -> None:
    at = expected_start(outlook)
    if at is not None:
        assert at >= outlook.now_ms
        assert at >= outlook.not_before_ms


@given(outlooks)
def test_it_is_unknown_only_when_somebody_must_end_first_and_nobody_ever_did(outlook: Outlook) -> None:
    waits = outlook.place > outlook.slots - len(outlook.elapsed_ms)
    assert (expected_start(outlook) is None) == (waits and not outlook.took_ms)


@given(outlooks)
def test_who_stands_further_behind_does_not_start_sooner(outlook: Outlook) -> None:
    sooner, later = expected_start(outlook), expected_start(replace(outlook, place=outlook.place + 1))
    assert later is None or (sooner is not None and sooner <= later)


@given(outlooks.filter(lambda outlook: len(outlook.elapsed_ms) <= outlook.slots))
def test_one_more_at_a_time_is_never_slower(outlook: Outlook) -> None:
    slower, faster = expected_start(outlook), expected_start(replace(outlook, slots=outlook.slots + 1))
    assert slower is None or (faster is not None and faster <= slower)


def test_one_at_a_time_each_before_it_takes_as_long_as_usual() -> None:
    outlook = Outlook(NOW, place=3, slots=1, elapsed_ms=(400,), took_ms=(1000, 1000))
    assert expected_start(outlook) == NOW + 600 + 2 * 1000


def test_two_at_a_time_share_who_is_before_it() -> None:
    outlook = Outlook(NOW, place=3, slots=2, elapsed_ms=(400, 900), took_ms=(1000,))
    assert expected_start(outlook) == NOW + 1100, "in 0.1 s and in 0.6 s there is room, and then in 1.1 s"


def test_a_rate_lets_so_many_start_in_each_of_its_windows() -> None:
    outlook = Outlook(NOW, place=5, slots=10, not_before_ms=NOW + 300, rate=2, rate_ms=1000)
    assert expected_start(outlook) == NOW + 2300


@given(times, st.lists(times, min_size=1).map(tuple))
def test_a_running_job_still_takes_something_and_not_more_than_any_took(
    elapsed: float, took: tuple[float, ...]
) -> None:
    assert 0 <= remaining(elapsed, took) <= ceil(max(took))


def test_a_rate_is_closed_for_its_window_and_a_clock_set_back_does_not_close_it_for_long() -> None:
    assert rate_until(NOW, None, 1.0) is None
    assert rate_until(NOW, NOW - 1000, 1.0) is None
    assert rate_until(NOW, NOW - 999, 1.0) == NOW + 1
    assert rate_until(NOW, NOW + 999, 1.0) == NOW + 1999
    assert rate_until(NOW, NOW + 5000, 1.0) is None
