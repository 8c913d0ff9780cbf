"""The last ten minutes of each platform, as this process sampled them: how many jobs waited, how many ended and how."""

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct
from starlette.requests import Request

from tailrace.gateway.backend import Backend
from tailrace.gateway.route_table import READ, group, ok
from tailrace.gateway.sampler import SAMPLES, Sample
from tailrace.streams.transitions import Tally
from tailrace.streams.words import Count, Seconds

route = group("platforms")

OUTCOMES = Tally._fields[1:4]


class Trend(Struct, frozen=True):
    """How many waited at each look, and how many ended until it and how, oldest first; null where nothing is known."""

    depth: list[Count | None]
    completed: list[Count | None]
    failed: list[Count | None]
    cancelled: list[Count | None]


class Trends(Struct, frozen=True):
    """The last ten minutes, as this gateway saw them."""

    everySeconds: Seconds
    platforms: dict[str, Trend]


@route("GET", "/api/trends", READ, ok("A line for each platform.", Trends), store=False)
async def list_trends(backend: Backend, _: Request) -> Trends:
    """How many jobs waited and ended in the last ten minutes."""
    samples = list(backend.sampler.samples)
    lines = {platform: line_of(platform, samples) for platform in backend.platforms}
    return Trends(backend.sampler.every_seconds, lines)


def line_of(platform: str, samples: Sequence[Sample]) -> Trend:
    """Oldest first; None where nothing is known, as after a gap or when the store was emptied in between."""
    tallies = [sample.get(platform) for sample in samples]
    ended = {
        outcome: ([None] * bool(tallies) + [grown(place, *both) for both in pairwise(tallies)])[-SAMPLES:]
        for place, outcome in enumerate(OUTCOMES, 1)
    }
    return Trend([tally and tally.waiting for tally in tallies][-SAMPLES:], **ended)


def grown(place: int, before: Tally | None, after: Tally | None) -> int | None:
    """How many jobs ended between two looks with the outcome at this place of a tally."""
    if before is None or after is None or sum(after[1:4]) < sum(before[1:4]):
        return None
    return max(0, after[place] - before[place])
