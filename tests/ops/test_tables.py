"""Tables in a terminal: whatever people copy from one, into another command, is whole."""

import asyncio
import re
from typing import Any

import pytest
from rich.console import Console

from tailrace.ops.tables import Rows
from tailrace.ops.terminal import about, span
from tailrace.producers.platforms import BUILT_IN
from tailrace.streams.store.connection import Store
from tests.ops.commands import on_terminal
from tests.support.builders import Desk

KEY = "01a1e48b-7a53-7c00-8f00-5d3c5b1f2a90"
OWNER = "material-processing.some-host-of-ours.12345.abcdef"


def on_screen(*words: str, **variables: str) -> list[str]:
    """What a terminal of 80 columns shows of a command, line by line."""
    screen = on_terminal(*words, columns=80, talk=False, **variables)
    return re.sub(r"\x1b\[[0-9;]*m", "", screen).splitlines()


async def test_at_80_columns_no_id_and_no_name_is_cut(valkey_url: str) -> None:
    async with Store(valkey_url) as store:
        materials, ably = Desk(store, "material-processing"), Desk(store, "ably")
        await materials.start(KEY, OWNER)
        await ably.fail(await ably.start(f"{KEY}-failed", OWNER), "a message of some length that has to give way")
        await ably.start(KEY, OWNER)
        await materials.beat(OWNER)
    commands = ("running", "platforms", "dead", "workers")
    screens = await asyncio.gather(*(asyncio.to_thread(on_screen, each, REDIS_URL=valkey_url) for each in commands))
    for screen in screens:
        assert max(map(len, screen)) <= 80, screen
    running, platforms, dead, workers = ({line.split()[0] for line in screen if line} for screen in screens)
    assert {f"material-processing.{KEY}", f"ably.{KEY}"} <= running
    assert {"oliveyoung", "material-processing", "url_extraction"} <= platforms
    assert f"ably.{KEY}-failed" in dead
    assert OWNER in workers


@pytest.mark.parametrize("columns", [80, 100])
async def test_workers_and_platforms_read_well(valkey_url: str, columns: int) -> None:
    """No heading and no figure is cut, one line a row, times as people say them, and states in their colours."""
    async with Store(valkey_url) as store:
        ably = Desk(store, "ably")
        await ably.fail(await ably.start("failed", OWNER))
        await ably.start(KEY, OWNER)
        await ably.beat(OWNER)
    told = {"REDIS_URL": valkey_url, "NO_COLOR": ""}
    workers, platforms = await asyncio.gather(
        *(
            asyncio.to_thread(on_terminal, name, columns=columns, talk=False, **told)
            for name in ("workers", "platforms")
        )
    )
    assert "\x1b[33msilent" in workers
    assert re.search(r"\x1b\[31m *1\x1b", platforms), "a failed job is red"
    assert re.search(r"\x1b\[36m *1\x1b", platforms), "a running one is blue"
    (head, row), (heads, *rows) = (
        [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", screen).splitlines() if line.strip()]
        for screen in (workers, platforms)
    )
    assert max(map(len, (head, row, heads, *rows))) <= columns
    assert "…" not in head + heads
    assert re.match(rf"{OWNER} +silent +none in \d\.\d s +1", row)
    assert [name for name in ("waiting", "running", "failed", "workers", "state") if name not in heads] == []
    assert len(rows) == len(BUILT_IN)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.04, "0.0 s"), (9.96, "10.0 s"), (59.9, "59 s"), (85, "1 min 25 s"), (7500, "2 h 05 min"), (2e5, "2 d 7 h")],
)
def test_a_time_is_said_as_people_say_it(seconds: float, said: str) -> None:
    assert span(seconds) == said


def failed() -> Rows:
    rows = Rows(("platform", "job", "message", "ended"), whole=("job",), leaving=("platform", "ended"))
    rows.add("ably", f"ably.{KEY}", "words that may stand one below the other", "2027-01-31T09:00:00.000Z")
    return rows


@pytest.mark.parametrize(
    ("room", "left_out"),
    [(200, []), (80, []), (79, ["platform"]), (60, ["platform", "ended"]), (20, ["platform", "ended"])],
)
def test_columns_grow_narrow_then_leave_and_the_id_stays(room: int, left_out: list[str]) -> None:
    made, gone = failed().fitted(room)
    assert gone == left_out
    out = Console(width=1000)
    with out.capture() as captured:
        out.print(made)
    shown = captured.get().splitlines()
    assert f"ably.{KEY}" in shown[1]
    assert max(len(line.rstrip()) for line in shown) <= max(room, len(f"ably.{KEY}") + 2 + len("message"))
    assert not [line for line in shown[1:] if "…" in line]


def test_what_had_no_room_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("tailrace.ops.tables.console", lambda: Console(width=60))
    failed().show()
    assert "no room for platform, ended" in capsys.readouterr().err


def test_a_table_without_rows_has_its_headings() -> None:
    made, gone = Rows(("job", "kind"), whole=("job",), leaving=("kind",)).fitted(80)
    assert ([column.header for column in made.columns], gone) == (["job", "kind"], [])


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"for": "signal", "signal": "approval", "until": "14:00"}, "the signal approval  until 14:00"),
        ({"for": "children", "pending": 3}, "children: 3"),
    ],
)
def test_an_awaiting_job_tells_what_it_awaits(event: dict[str, Any], said: str) -> None:
    assert about({"status": "awaiting", **event}) == said
