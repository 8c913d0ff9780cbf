"""states: the table of transitions says one consistent thing."""

import pytest

from tailrace.streams.functions import functions
from tailrace.streams.states import CHANGES, ENDED, TERMINAL, State, Status, allowed


def test_every_change_is_made_by_a_transition_that_exists() -> None:
    assert {change.transition for change in CHANGES} <= functions().keys()


def test_an_ended_job_never_changes_unless_a_person_opens_it_again() -> None:
    assert {change.status for change in CHANGES if change.before in ENDED} == {Status.REOPENED}


def test_every_end_is_shown_as_one_terminal_event_and_nothing_else_is() -> None:
    assert {state.value for state in ENDED} == {status.value for status in TERMINAL}
    for change in CHANGES:
        assert (change.after in ENDED) == (change.status in TERMINAL)
        if change.after in ENDED:
            assert change.status
            assert change.after.value == change.status.value


def test_every_state_that_can_be_entered_can_be_left_towards_an_end() -> None:
    entered = {change.after for change in CHANGES}
    for state in entered - ENDED:
        reached = {state}
        for _ in State:
            reached |= {change.after for change in CHANGES if change.before in reached}
        assert reached & ENDED


def test_a_job_begins_by_being_submitted_or_spawned() -> None:
    assert {change.transition for change in CHANGES if change.before is None} == {"submit", "spawn", "tick"}


@pytest.mark.parametrize("state", State)
def test_a_state_knows_whether_it_is_an_end(state: State) -> None:
    assert state.ended == (state.value in {"completed", "failed", "cancelled"})


def test_what_is_allowed_is_what_the_table_says() -> None:
    assert allowed("submit", None) == {State.WAITING, State.DELAYED}
    assert allowed("reclaim", State.RUNNING) == {State.WAITING, State.FAILED, State.CANCELLED}
    assert allowed("complete", State.WAITING) == frozenset()
    assert allowed("cancel", State.COMPLETED) == frozenset()


def test_no_two_words_mean_the_same_event() -> None:
    assert len({status.value for status in Status}) == len(Status)
