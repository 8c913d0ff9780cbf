"""What the transitions stand on, where it can be asked by itself."""

from datetime import UTC, datetime, timedelta
from importlib.resources import files

from streams.connection import Store

DAYS = [
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2000, 2, 29, 12, 0, 0, 1_000, tzinfo=UTC),
    datetime(2026, 3, 1, 0, 0, 0, 999, tzinfo=UTC),
    datetime(2028, 2, 29, 23, 59, 59, 500_000, tzinfo=UTC),
    datetime(2100, 2, 28, 23, 59, 59, tzinfo=UTC),
    datetime(2100, 3, 1, tzinfo=UTC),
    *(datetime(2027, 1, 1, 1, 2, 3, tzinfo=UTC) + timedelta(days=29 * n, seconds=12_347 * n) for n in range(60)),
]


async def test_the_time_of_an_event_is_right_on_every_day(store: Store) -> None:
    events = (files("streams.functions") / "events.lua").read_text(encoding="utf-8")
    clock, given = "local clock = call('TIME')", "local clock = { ARGV[1], ARGV[2] }"
    assert clock in events
    script = (
        "local format = string.format\n"
        + events.replace(clock, given).partition("local FEED_BYTES")[0]
        + "return stamp()"
    )
    for day in DAYS:
        seconds = int((day - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
        stamp = await store.command("EVAL", script, 0, seconds, day.microsecond)
        time = day.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        assert stamp.decode() == f',"time":"{time}",'
