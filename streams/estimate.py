"""When a job may start, by how long the last ones took; pure."""

from collections.abc import Sequence
from heapq import heapify, heapreplace
from math import ceil
from statistics import fmean

from msgspec import Struct


class Outlook(Struct, frozen=True):
    """What an estimate is made of."""

    now_ms: int
    place: int  # 1: the next to start
    slots: int  # how many may run at a time
    elapsed_ms: tuple[float, ...] = ()  # for how long each running job has run
    took_ms: tuple[float, ...] = ()  # how long the last ones took
    not_before_ms: float = 0
    rate: int = 0  # starts within rate_ms; 0: any number
    rate_ms: float = 0


def expected_start(outlook: Outlook) -> int | None:
    """When the job may start, if those before it take as long as the last ones did; None: nothing tells how long."""
    free_in = 0.0
    if outlook.place > outlook.slots - len(outlook.elapsed_ms):
        if not outlook.took_ms:
            return None
        usual = fmean(outlook.took_ms)
        left = sorted(remaining(elapsed, outlook.took_ms) for elapsed in outlook.elapsed_ms)
        ends = [0.0] * (outlook.slots - len(left)) + left[max(0, len(left) - outlook.slots) :]
        heapify(ends)
        for _ in range(outlook.place - 1):
            heapreplace(ends, ends[0] + usual)
        free_in = ends[0]
    begin = max(outlook.now_ms, outlook.not_before_ms)
    windows = (outlook.place - 1) // outlook.rate if outlook.rate else 0
    return ceil(max(outlook.now_ms + free_in, begin + windows * outlook.rate_ms))


def remaining(elapsed: float, took: Sequence[float]) -> float:
    """How long a running job may still take, by those that took longer; one that beats them all: as long as usual."""
    longer = [each for each in took if each > elapsed]
    return fmean(longer) - elapsed if longer else fmean(took)


def rate_until(now_ms: float, counted_ms: float | None, seconds: float) -> float | None:
    """When a rate allows the next start; None: now. A clock that was set back must not close it for long."""
    if counted_ms is None or abs(now_ms - counted_ms) >= seconds * 1000:
        return None
    return counted_ms + seconds * 1000
