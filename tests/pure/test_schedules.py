"""Schedules: which are refused, when their ticks are, and which missed ones are made up for."""

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.producers.settings import StreamsSettings
from tailrace.streams.errors import BadConfiguration, WrongField
from tailrace.streams.options import Options
from tailrace.streams.process.settings import Environment
from tailrace.streams.schedules import (
    LATE_MS,
    Move,
    Schedule,
    decode_schedule,
    encode_schedule,
    last_tick,
    moves,
    next_tick,
)

HOUR = 3_600_000


def plan(**said: Any) -> Schedule:
    return Schedule(**{"name": "n", "platform": "shop", "kind": "drill", **said})


def ms(text: str, tz: str = "UTC", *, fold: int = 0) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(tz), fold=fold).timestamp() * 1000)


def ticks(schedule: Schedule, after: int, count: int) -> list[str]:
    """The next ticks as times of UTC."""
    found = []
    for _ in range(count):
        following = next_tick(schedule, after)
        assert following is not None
        after = following
        found.append(datetime.fromtimestamp(after / 1000, UTC).strftime("%m-%d %H:%M:%S"))
    return found


# What is refused


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({}, "cron"),
        ({"cron": "* * * * *", "every_seconds": 1}, "cron"),
        ({"cron": "* * * *"}, "cron"),
        ({"cron": "61 * * * *"}, "cron"),
        ({"cron": "often"}, "cron"),
        ({"cron": ""}, "cron"),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"cron": "0 0 31 2,4,6 *"}, "cron"),
        ({"cron": "0 0 1 1 1L/2"}, "cron"),
        ({"cron": "0 " * 200}, "cron"),
        ({"every_seconds": 0}, "every_seconds"),
        ({"every_seconds": -1}, "every_seconds"),
        ({"every_seconds": 0.5}, "every_seconds"),
        ({"every_seconds": float("nan")}, "every_seconds"),
        ({"every_seconds": float("inf")}, "every_seconds"),
        ({"every_seconds": 1e12}, "every_seconds"),
        ({"cron": "* * * * *", "tz": "Mars/Olympus"}, "tz"),
        ({"cron": "* * * * *", "tz": "../etc/passwd"}, "tz"),
        ({"cron": "* * * * *", "tz": "Europe"}, "tz"),
        ({"cron": "* * * * *", "tz": ""}, "tz"),
        ({"every_seconds": 60, "tz": "Asia/Seoul"}, "tz"),
        ({"every_seconds": 60, "name": "a b"}, "name"),
        ({"every_seconds": 60, "name": "x" * 49}, "name"),
        ({"every_seconds": 60, "name": ""}, "name"),
        ({"every_seconds": 60, "name": "a.b"}, "name"),
        ({"every_seconds": 60, "kind": "no spaces"}, "kind"),
        ({"every_seconds": 60, "platform": "NO"}, "platform"),
        ({"every_seconds": 60, "options": Options(run_at="2030-01-01T00:00:00Z")}, "options.run_at"),
        ({"every_seconds": 60, "options": Options(expires_at="2030-01-01T00:00:00Z")}, "options.expires_at"),
    ],
)
def test_a_wrong_schedule_names_its_field(said: dict[str, Any], field: str) -> None:
    with pytest.raises(WrongField) as refusal:
        plan(**said)
    assert refusal.value.field == field


@given(st.text(max_size=30))
def test_no_text_is_a_cron_expression_that_breaks_anything(text: str) -> None:
    with suppress(WrongField):
        plan(cron=text)


def test_a_schedule_is_kept_as_it_was_and_always_in_the_same_bytes() -> None:
    schedule = plan(cron="0 9 * * MON", tz="Asia/Seoul", args={"b": 1, "a": 2}, options=Options(priority="high"))
    kept = encode_schedule(schedule)
    assert decode_schedule(kept) == schedule
    assert encode_schedule(plan(**{**_said(schedule), "args": {"a": 2, "b": 1}})) == kept


def _said(schedule: Schedule) -> dict[str, Any]:
    return {name: getattr(schedule, name) for name in Schedule.__struct_fields__}


# When the ticks are


def test_every_so_many_seconds_lies_on_a_grid_that_everybody_computes_alike() -> None:
    assert next_tick(plan(every_seconds=10), 1_700_000_003_456) == 1_700_000_010_000
    assert next_tick(plan(every_seconds=10), 1_700_000_010_000) == 1_700_000_020_000
    assert next_tick(plan(every_seconds=1.5), 3000) == 4500


def test_cron_has_five_fields_or_six_with_seconds() -> None:
    after = ms("2026-07-30T12:00:00")
    assert ticks(plan(cron="30 9 * * MON-FRI"), after, 2) == ["07-31 09:30:00", "08-03 09:30:00"]
    assert ticks(plan(cron="*/20 * * * * *"), after, 3) == ["07-30 12:00:20", "07-30 12:00:40", "07-30 12:01:00"]


def test_cron_is_read_in_its_time_zone() -> None:
    assert ticks(plan(cron="0 9 * * *", tz="Asia/Seoul"), ms("2026-07-30T12:00:00"), 1) == ["07-31 00:00:00"]


def test_a_daily_time_keeps_its_hour_over_both_changes_of_the_clock() -> None:
    daily = plan(cron="0 9 * * *", tz="Europe/Berlin")
    assert ticks(daily, ms("2026-03-27T12:00:00"), 3) == ["03-28 08:00:00", "03-29 07:00:00", "03-30 07:00:00"]
    assert ticks(daily, ms("2026-10-23T12:00:00"), 3) == ["10-24 07:00:00", "10-25 08:00:00", "10-26 08:00:00"]


def test_a_time_that_does_not_exist_fires_once_right_after_the_gap() -> None:
    daily = plan(cron="30 2 * * *", tz="Europe/Berlin")  # on 29 March the clock goes from 2 to 3
    assert ticks(daily, ms("2026-03-28T12:00:00"), 2) == ["03-29 01:00:00", "03-30 00:30:00"]


def test_a_time_that_comes_twice_fires_once() -> None:
    daily = plan(cron="30 2 * * *", tz="Europe/Berlin")  # on 25 October the hour from 2 to 3 comes twice
    assert ticks(daily, ms("2026-10-24T12:00:00"), 2) == ["10-25 00:30:00", "10-26 01:30:00"]
    assert next_tick(daily, ms("2026-10-25T02:10:00", "Europe/Berlin", fold=1)) == ms("2026-10-26T01:30:00")


def test_what_fires_all_the_time_goes_on_through_the_hour_that_comes_twice() -> None:
    often = plan(cron="*/30 * * * *", tz="Europe/Berlin")
    after = ms("2026-10-25T00:00:00")
    assert ticks(often, after, 4) == ["10-25 00:30:00", "10-25 01:00:00", "10-25 01:30:00", "10-25 02:00:00"]


CRONS = st.sampled_from(
    [
        "* * * * *",
        "*/7 * * * *",
        "0 * * * *",
        "0,30 1,2,3 * * *",
        "30 2 * * *",
        "15 */3 * * *",
        "0 0 * * *",
        "0 9 * * MON-FRI",
        "0 0 L * *",
        "0 0 29 2 *",
        "*/5 * * * * *",
        "0 30 2 * * *",
    ]
)
ZONES = st.sampled_from(
    [
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Asia/Seoul",
        "Australia/Lord_Howe",
        "America/Havana",
        "Asia/Kathmandu",
    ]
)
CHANGES_OF_CLOCKS = [
    ms("2026-03-08T06:00:00"),
    ms("2026-03-29T01:00:00"),
    ms("2026-10-25T01:00:00"),
    ms("2026-11-01T06:00:00"),
]
MOMENTS = st.one_of(
    st.integers(ms("2024-01-01"), ms("2030-01-01")),
    st.builds(lambda change, off: change + off, st.sampled_from(CHANGES_OF_CLOCKS), st.integers(-4 * HOUR, 4 * HOUR)),
)
PLANS = st.one_of(
    st.builds(lambda cron, tz: plan(cron=cron, tz=tz), CRONS, ZONES),
    st.builds(lambda seconds: plan(every_seconds=seconds), st.integers(1, 100_000)),
)


@given(PLANS, MOMENTS)
def test_the_next_tick_is_later_and_nothing_lies_between(schedule: Schedule, after: int) -> None:
    following = next_tick(schedule, after)
    assert following is not None
    assert following > after
    assert next_tick(schedule, following - 1) == following
    assert next_tick(schedule, (after + following) // 2) == following


@given(PLANS, MOMENTS, st.integers(0, 12 * HOUR))
def test_the_last_tick_is_the_one_before_the_next(schedule: Schedule, since: int, length: int) -> None:
    first = next_tick(schedule, since)
    assert first is not None
    now = first + length
    last = last_tick(schedule, first, now)
    assert first <= last <= now
    following = next_tick(schedule, last)
    assert following is not None
    assert following > now
    assert last == first or next_tick(schedule, last - 1) == last


def test_a_long_absence_costs_no_walk_through_every_tick() -> None:
    schedule = plan(cron="* * * * * *")
    year = 366 * 24 * HOUR
    assert last_tick(schedule, 1_700_000_000_000, 1_700_000_000_000 + year) == 1_700_000_000_000 + year


# Missed ticks


@pytest.mark.parametrize("missed", ["skip", "once", "all"])
def test_a_tick_in_time_fires_whatever_is_said_of_missed_ones(missed: str) -> None:
    schedule = plan(every_seconds=10, missed=missed)
    assert moves(schedule, 10_000, 10_002, 100) == [Move(10_000, 10_000, 20_000)]


def test_skip_passes_over_what_was_missed() -> None:
    schedule = plan(every_seconds=3600, missed="skip")
    late = HOUR + LATE_MS
    assert moves(schedule, HOUR, late, 100) == [Move(HOUR, HOUR, 2 * HOUR)], "late is not missed"
    assert moves(schedule, HOUR, late + 1, 100) == [Move(HOUR, None, 2 * HOUR)]
    assert moves(schedule, HOUR, 5 * HOUR + 3, 100) == [Move(HOUR, 5 * HOUR, 6 * HOUR)]


def test_once_makes_up_for_the_last_one() -> None:
    schedule = plan(every_seconds=3600, missed="once")
    assert moves(schedule, HOUR, 9 * HOUR - 1, 100) == [Move(HOUR, 8 * HOUR, 9 * HOUR)]


def test_all_makes_up_for_each_one_some_at_a_time() -> None:
    schedule = plan(every_seconds=3600, missed="all")
    assert moves(schedule, HOUR, 3 * HOUR, 100) == [
        Move(HOUR, HOUR, 2 * HOUR),
        Move(2 * HOUR, 2 * HOUR, 3 * HOUR),
        Move(3 * HOUR, 3 * HOUR, 4 * HOUR),
    ]
    assert moves(schedule, HOUR, 3 * HOUR, 2) == [Move(HOUR, HOUR, 2 * HOUR), Move(2 * HOUR, 2 * HOUR, 3 * HOUR)]


def test_a_paused_schedule_that_somebody_put_among_the_ticks_only_leaves() -> None:
    assert moves(plan(every_seconds=10, paused=True), 10_000, 10_002, 100) == [Move(10_000, None, None)]


# The configuration file


def configured(folder: Path, text: str) -> StreamsSettings:
    path = folder / "tailrace.toml"
    path.write_text(text)
    return StreamsSettings.read(Environment({"TAILRACE_CONFIG": str(path)}))


def test_schedules_are_read_from_the_configuration_file(tmp_path: Path) -> None:
    settings = configured(
        tmp_path,
        """
        [schedules.nightly]
        platform = "kurly"
        kind = "scan"
        cron = "0 3 * * *"
        tz = "Asia/Seoul"
        missed = "once"
        [schedules.nightly.args]
        workflow_id = "all"
        [schedules.nightly.options]
        priority = "low"
        """,
    )
    assert settings.schedules == (
        Schedule(
            name="nightly",
            platform="kurly",
            kind="scan",
            args={"workflow_id": "all"},
            options=Options(priority="low"),
            cron="0 3 * * *",
            tz="Asia/Seoul",
            missed="once",
            in_file=True,
        ),
    )


@pytest.mark.parametrize(
    ("table", "word"),
    [
        ('platform = "amazon"\nkind = "scan"\nevery_seconds = 60', "platform"),
        ('platform = "kurly"\nkind = "scan"', "cron"),
        ('platform = "kurly"\nkind = "scan"\ncron = "0 0 30 2 *"', "cron"),
        ('platform = "kurly"\nevery_seconds = 60', "kind"),
        ('platform = "kurly"\nkind = "scan"\nevery_seconds = 60\nevry = 1', "evry"),
        ('platform = "kurly"\nkind = "scan"\nevery_seconds = 60\nmissed = "some"', "missed"),
        ('platform = "kurly"\nkind = "scan"\nevery_seconds = 60\noptions = { attempts = 0 }', "attempts"),
    ],
)
def test_a_wrong_schedule_in_the_file_is_named(tmp_path: Path, table: str, word: str) -> None:
    with pytest.raises(BadConfiguration, match=rf"TAILRACE_CONFIG: .*: schedule nightly: .*{word}"):
        configured(tmp_path, f"[schedules.nightly]\n{table}\n")


@pytest.mark.parametrize("text", ["schedules = 3\n", "[schedules]\nnightly = 3\n"])
def test_schedules_that_are_no_tables_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadConfiguration, match=r"write each as a table \[schedules.NAME\]"):
        configured(tmp_path, text)


def test_a_schedule_made_in_python_says_how_missed_ticks_are_dealt_with_in_a_known_word() -> None:
    with pytest.raises(WrongField, match="missed: must be one of skip, once, all, not 'some'"):
        plan(every_seconds=60, missed="some")
