"""The observer's judgement, on its own clock alone."""

from hypothesis import given
from hypothesis import strategies as st

from tailrace.consumers.heart.silences import Silences


def look(counter: str) -> dict[str, dict[str, str]]:
    return {"shop": {"owner": counter}}


def lost(silences: Silences, now: float) -> list[str]:
    return [silence.owner for silence in silences.lost(now)]


def test_a_counter_that_stands_still_for_the_deadline_is_a_loss() -> None:
    silences = Silences(10, 2)
    for now in range(10):
        silences.look(now, now, look("7"))
        assert lost(silences, now) == []
    assert silences.next_due(9) == 10
    silences.look(10, 10, look("7"))
    assert lost(silences, 10) == ["owner"]
    assert silences.next_due(10) is None


def test_a_beat_starts_the_silence_again() -> None:
    silences = Silences(10, 2)
    for now in range(30):
        silences.look(now, now, look(str(now // 9)))
        assert lost(silences, now) == []


def test_a_look_that_failed_or_came_late_starts_all_silences_again() -> None:
    silences = Silences(10, 2)
    for now in range(10):
        silences.look(now, now, look("7"))
    silences.blind()
    assert lost(silences, 10) == []
    silences.look(10, 10, look("7"))
    assert lost(silences, 10) == []
    silences.look(22.5, 22.5, look("7"))
    assert lost(silences, 22.5) == []


def test_nobody_is_lost_while_no_look_comes() -> None:
    """What is decided beside the looks must not outlive them: the store may be away by now."""
    silences = Silences(10, 2)
    for now in range(11):
        silences.look(now, now, look("7"))
    assert lost(silences, 12) == ["owner"]
    assert lost(silences, 12.5) == []


def test_a_slow_answer_is_not_blindness() -> None:
    silences = Silences(10, 2)
    for now in range(0, 12, 3):
        silences.look(now - 2.5, now, look("7"))
    assert lost(silences, 10) == ["owner"]


def test_the_larger_deadline_counts() -> None:
    silences = Silences(10, 2)
    for now in range(11):
        silences.look(now, now, look("7"))
    (silence,) = silences.lost(10)
    assert not silences.heed(silence, 30)
    assert silences.next_due(10) == 30
    for now in range(11, 30):
        silences.look(now, now, look("7"))
        assert lost(silences, now) == []
    silences.look(30, 30, look("7"))
    (silence,) = silences.lost(30)
    assert silences.heed(silence, 30)


def test_an_own_deadline_that_is_smaller_changes_nothing() -> None:
    silences = Silences(10, 2)
    for now in range(11):
        silences.look(now, now, look("7"))
    (silence,) = silences.lost(10)
    assert silences.heed(silence, 5)
    assert lost(silences, 10) == ["owner"]


def test_an_owner_without_leases_that_fell_silent_has_departed() -> None:
    silences = Silences(10, 2)
    for now in range(31):
        silences.look(now, now, look("7"))
        for silence in silences.lost(now):
            silences.know_empty(silence, True)
    assert lost(silences, 30) == []
    assert silences.departed(29) == []
    (silence,) = silences.departed(30)
    assert (silence.platform, silence.owner, silence.counter) == ("shop", "owner", "7")
    silences.know_empty(silence, False)  # it held something after all
    assert silences.departed(30) == []
    assert lost(silences, 30) == ["owner"]


def test_what_is_learnt_of_an_owner_that_has_beaten_meanwhile_says_nothing() -> None:
    silences = Silences(10, 2)
    for now in range(11):
        silences.look(now, now, look("7"))
    (silence,) = silences.lost(10)
    silences.look(11, 11, look("8"))
    silences.know_empty(silence, True)
    for now in range(12, 22):
        silences.look(now, now, look("8"))
    assert lost(silences, 21) == ["owner"]


@given(st.lists(st.tuples(st.floats(0.01, 5), st.integers(0, 2), st.booleans()), max_size=60))
def test_nothing_is_lost_before_the_observer_saw_silence_for_the_deadline(looks: list[tuple[float, int, bool]]) -> None:
    """Whatever the pauses, failures and beats: a loss needs a full deadline of looks without one change."""
    silences = Silences(10, 2)
    now, counter = 0.0, 0
    since: float | None = None
    last: float | None = None
    for pause, beats, failed in looks:
        now += pause
        counter += beats
        if failed:
            silences.blind()
            last = since = None
            continue
        if last is None or now - last > 2 or beats or since is None:
            since = now
        last = now
        silences.look(now, now, look(str(counter)))
        assert (lost(silences, now) == ["owner"]) == (now - since >= 10)
