"""Histograms that cost an observation a fraction of a microsecond; Prometheus' form of them is made when it asks."""

from bisect import bisect_left
from collections.abc import Iterator

from msgspec import Struct

SECONDS = (
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    900.0,
    1800.0,
    3600.0,
    7200.0,
)
"""For what may take from milliseconds to two hours."""
TRIPS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""For calls of the store."""
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)


class Histogram(Struct, array_like=True):
    """Counts of values up to each bound; the last count is of those above all bounds."""

    bounds: tuple[float, ...]
    counts: list[int]
    total: float = 0.0
    noted: list[float] = []  # values that are not counted yet: appending is the cheapest thing a busy loop can do

    @classmethod
    def over(cls, bounds: tuple[float, ...]) -> "Histogram":
        return cls(bounds, [0] * (len(bounds) + 1))

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def fold(self) -> None:
        """Count what was noted."""
        for value in self.noted:
            self.counts[bisect_left(self.bounds, value)] += 1
        self.total += sum(self.noted)
        self.noted.clear()

    def buckets(self) -> Iterator[tuple[str, float]]:
        """Each bound with how many values were not above it."""
        sum_so_far = 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            sum_so_far += count
            yield ("+Inf" if bound == float("inf") else str(bound)), float(sum_so_far)
