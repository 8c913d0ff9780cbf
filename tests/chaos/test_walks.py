"""A job over 1,400 products whose worker is killed -9 on the way goes on at its cursor."""

from pathlib import Path

import pytest

from tailrace.producers import Submission
from tests.chaos.walking import BATCH, ITEMS, PLACES
from tests.support.deployment import Deployment
from tests.support.eventually import eventually

FILE = Path(__file__).with_name("walking.py")
STOPS = [1000, 1023, 1399]  # at a border, inside a batch, at the last item

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]


async def test_a_walk_killed_at_an_item_goes_on_at_its_last_border_wherever_it_runs(
    valkey_url: str, tmp_path: Path
) -> None:
    async with Deployment(valkey_url, tmp_path, "[platforms.walks]\nmax_crashes = 50\n") as deployment:
        jobs = {}
        for place in PLACES:
            (tmp_path / place).mkdir()
            args = {"folder": str(tmp_path / place), "stops": STOPS}
            jobs[place] = (await deployment.producer.submit(Submission("walks", f"{place}-items", args))).id
        for attempt in range(1, len(STOPS) + 1):
            consumer = await deployment.consumer("walks", TAILRACE_HANDLERS=str(FILE))

            async def reached(attempt: int = attempt) -> bool:
                return all((tmp_path / place / f"reached {attempt}").exists() for place in PLACES)

            await eventually(f"attempt {attempt} of each is at item {STOPS[attempt - 1]}", reached, seconds=60)
            consumer.kill_group()
        await deployment.consumer("walks", TAILRACE_HANDLERS=str(FILE))
        for place, job in jobs.items():
            last = (await deployment.ended(job))[-1]
            assert (last.attempt, last.result) == (len(STOPS) + 1, ITEMS)
            lines = (tmp_path / place / "effects").read_text().splitlines()
            assert lines == expected(), place


def expected() -> list[str]:
    """Each attempt begins at the border before the item at which the one before was killed."""
    lines, first = [], 0
    for attempt, stop in enumerate([*STOPS, ITEMS - 1], start=1):
        lines += [f"{attempt} {item}" for item in range(first, stop + 1)]
        first = stop // BATCH * BATCH
    return lines
