"""The checker: it must find every flaw that a history can have, and nothing in a clean one."""

from typing import Any

import pytest

from tailrace.ops.race.violations import violations


def history(*words: str) -> list[dict[str, Any]]:
    """Events from words such as `started 1` or `step3 2`: what happened, then the attempt."""
    events = []
    for seq, word in enumerate(words, start=1):
        what, _, attempt = word.partition(" ")
        step = int(what.removeprefix("step")) if what.startswith("step") else None
        status = "progress" if step else what
        events.append({"seq": seq, "status": status, "attempt": int(attempt) if attempt else None, "step": step})
    return events


CLEAN = ("queued", "started 1", "step1 1", "superseded 1", "started 2", "step1 2", "step2 2", "completed 2")


@pytest.mark.parametrize(
    "words",
    [
        CLEAN,
        ("queued", "cancelled"),
        ("queued", "started 1", "failed 1", "reopened 1", "started 2", "completed 2"),
        ("queued", "started 1", "superseded 1", "failed 1"),
    ],
)
def test_a_clean_history_has_no_flaw(words: tuple[str, ...]) -> None:
    assert violations(history(*words)) == []


@pytest.mark.parametrize(
    ("words", "flaw"),
    [
        (("queued", "started 1", "step1 1", "step1 1", "completed 1"), "step 1 of attempt 1 is there twice"),
        (("queued", "started 1", "started 1", "completed 1"), "started of attempt 1 is there twice"),
        (
            ("queued", "started 1", "started 2", "step1 1", "completed 2"),
            "step 1 of attempt 1 comes after attempt 2",
        ),
        (
            ("queued", "started 1", "superseded 1", "step1 1", "started 2", "completed 2"),
            "step 1 of attempt 1 comes after that attempt was superseded",
        ),
        (
            ("queued", "started 1", "completed 1", "completed 1"),
            "completed of attempt 1 comes after the end, completed of attempt 1",
        ),
        (
            ("queued", "started 1", "failed 1", "step1 1"),
            "step 1 of attempt 1 comes after the end, failed of attempt 1",
        ),
        (("queued", "started 1"), "the history has no end"),
        (("started 1", "completed 1"), "the history does not begin with queued"),
    ],
)
def test_every_flaw_is_found_and_named(words: tuple[str, ...], flaw: str) -> None:
    assert violations(history(*words)) == [flaw]


def test_a_missing_event_is_noticed() -> None:
    events = history(*CLEAN)
    del events[3]
    assert violations(events) == ["event 4 has the number 5"]


def test_a_job_that_still_runs_needs_no_end() -> None:
    assert violations(history("queued", "started 1"), finished=False) == []


def test_the_race_that_started_it_all_is_full_of_flaws() -> None:
    seen = "started 1,step1 1,step2 1,started 2,step1 2,step3 1,step2 2,step4 1,step3 2,step5 1,step4 2,completed 1"
    found = violations(history("queued", *seen.split(","), "step5 2", "completed 2"))
    assert "step 3 of attempt 1 comes after attempt 2" in found
    assert "completed of attempt 2 comes after the end, completed of attempt 1" in found
