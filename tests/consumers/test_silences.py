"""The observer's judgement, on its own clock alone."""

from hypothesis import given
from hypothesis import strategies as st

from consumers.silences import Silences
from streams.messages import Lease, Look


def look(counter: str | None, *nonces: str, deadline: float = 10) -> dict[str, Look]:
    leases = tuple(Lease(nonce, f"key-{nonce}", "normal", "1-0", "owner", deadline) for nonce in nonces)
    return {"shop": Look({} if counter is None else {"owner": counter}, leases)}


def lost(silences: Silences, now: float) -> list[str]:
    return [silence.lease.nonce for silence in silences.lost(now)]


def test_a_counter_that_stands_still_for_the_deadline_is_a_loss() -> None:
    silences = Silences(10, 2)
    for now in range(10):
        silences.look(now, now, look("7", "n"))
        assert lost(silences, now) == []
    assert silences.next_due() == 10
    silences.look(10, 10, look("7", "n"))
    assert lost(silences, 10) == ["n"]


def test_a_beat_starts_the_silence_again() -> None:
    silences = Silences(10, 2)
    for now in range(30):
        silences.look(now, now, look(str(now // 9), "n"))
        assert lost(silences, now) == []


def test_a_look_that_failed_or_came_late_starts_all_silences_again() -> None:
    silences = Silences(10, 2)
    for now in range(10):
        silences.look(now, now, look("7", "n"))
    silences.blind()
    silences.look(10, 10, look("7", "n"))
    assert lost(silences, 10) == []
    silences.look(22.5, 22.5, look("7", "n"))
    assert lost(silences, 22.5) == []


def test_a_slow_answer_is_not_blindness() -> None:
    silences = Silences(10, 2)
    for now in range(0, 12, 3):
        silences.look(now - 2.5, now, look("7", "n"))
    assert lost(silences, 10) == ["n"]


def test_the_larger_deadline_counts() -> None:
    silences = Silences(10, 2)
    for now in range(30):
        silences.look(now, now, look("7", "n", deadline=30))
        assert lost(silences, now) == []
    silences.look(30, 30, look("7", "n", deadline=30))
    assert lost(silences, 30) == ["n"]


def test_a_new_lease_of_an_owner_long_silent_is_watched_from_its_own_beginning() -> None:
    silences = Silences(10, 2)
    for now in range(9):
        silences.look(now, now, look("7", "old"))
    silences.look(9, 9, look("7", "old", "new"))
    silences.look(10, 10, look("7", "old", "new"))
    assert lost(silences, 10) == ["old"]


def test_an_owner_that_never_beat_counts_as_silent() -> None:
    silences = Silences(10, 2)
    for now in range(11):
        silences.look(now, now, look(None, "n"))
    assert lost(silences, 10) == ["n"]


def test_an_owner_without_leases_that_fell_silent_has_departed() -> None:
    silences = Silences(10, 2)
    for now in range(31):
        silences.look(now, now, look("7"))
    assert list(silences.departed(29)) == []
    assert list(silences.departed(30)) == [("shop", "owner", "7")]


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
        silences.look(now, now, look(str(counter), "n"))
        assert (lost(silences, now) == ["n"]) == (now - since >= 10)
