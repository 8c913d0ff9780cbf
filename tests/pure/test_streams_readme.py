"""The tables of streams/README.md say what the code says."""

import pytest

from tailrace.streams.functions import functions
from tailrace.streams.keys import JOB_KEYS, PLATFORM_KEYS, PlatformKeys
from tailrace.streams.messages import Record
from tailrace.streams.states import CHANGES, Change, State, Status
from tests.support.streams_readme import NONE, README, table


def listed(words: list[str]) -> str:
    """Words as a cell holds them: each once, in the order of the table of changes."""
    return ", ".join(dict.fromkeys(words)) or NONE


def test_every_state_has_a_row() -> None:
    assert set(table("States")) == {state.value for state in State}


@pytest.mark.parametrize("state", State)
def test_a_state_is_entered_and_left_as_the_table_says(state: State) -> None:
    _, entered, left = table("States")[state.value]
    moves = [change for change in CHANGES if change.before is not change.after]
    assert entered == listed([change.transition for change in moves if change.after is state])
    assert left == listed([change.transition for change in moves if change.before is state])


def test_every_transition_has_a_row() -> None:
    assert set(table("Transitions")) == functions().keys()


@pytest.mark.parametrize("name", functions())
def test_a_transition_does_and_answers_what_its_header_says(name: str) -> None:
    does, changes, answers = table("Transitions")[name]
    function = functions()[name]
    assert does == function.summary.rstrip(".")
    assert answers.replace("\\<", "<") == function.returns.replace(" | ", " / ")
    assert changes == listed([arrow(change) for change in CHANGES if change.transition == name])


def arrow(change: Change) -> str:
    return f"{change.before or ''} → {change.after}".strip()


def test_every_key_has_a_row() -> None:
    assert set(table("Keys")) == {*PLATFORM_KEYS, *JOB_KEYS}


@pytest.mark.parametrize("name", [*PLATFORM_KEYS, *JOB_KEYS])
def test_a_key_is_called_as_the_table_says(name: str) -> None:
    keys = PlatformKeys("kurly")
    assert table("Keys")[name][0] == f"`{getattr(keys, name)('a') if name in JOB_KEYS else keys[name]}`"


def test_the_fields_of_a_record_are_those_that_are_read() -> None:
    line = next(line for line in README.splitlines() if line.startswith("A record's fields:"))
    written = set(line.split("`")[1::2])
    made_of_its_key = {"platform", "key", "accepted_ms"}
    assert written == {*Record.__struct_fields__} - made_of_its_key


def test_every_event_has_a_row() -> None:
    assert set(table("Events")) == {status.value for status in Status}


@pytest.mark.parametrize("status", Status)
def test_an_event_is_written_by_whom_the_table_says(status: Status) -> None:
    writers = table("Events")[status.value][1]
    assert writers == listed([change.transition for change in CHANGES if change.status is status])
