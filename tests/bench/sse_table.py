"""What `sse.py` found, as a table."""

from collections.abc import Callable, Iterator

import msgspec

JOBS = 50
EVENTS_PER_SECOND = 200
STEADY_CLIENTS = 1000
LATE_MS = 1000.0


class Round(msgspec.Struct):
    """What was heard of some seconds of events, and what it cost."""

    clients: int
    deliveries: int
    expected: int
    seconds: float
    p50_ms: float
    p99_ms: float
    cpu_us: float  # of the gateway, for each delivery
    events_per_second: int = EVENTS_PER_SECOND

    @property
    def rate(self) -> float:
        """Deliveries a second."""
        return self.deliveries / self.seconds

    @property
    def in_time(self) -> bool:
        return self.p99_ms <= LATE_MS and self.deliveries >= 0.99 * self.expected


class Result(msgspec.Struct):
    """One gateway in one story."""

    story: str
    gateway: str
    connect_seconds: float
    memory_per_client: float  # KB
    store_links: int
    rounds: list[Round]


ROWS: dict[str, Callable[[Result], str]] = {
    "clients": lambda each: f"{each.rounds[-1].clients:,}",
    "connected in": lambda each: f"{each.connect_seconds:.1f} s",
    "events that arrived": lambda each: f"{each.rounds[-1].deliveries / max(1, each.rounds[-1].expected):.1%}",
    "deliveries a second": lambda each: f"{each.rounds[-1].rate:,.0f}",
    "delay, half": lambda each: f"{each.rounds[-1].p50_ms:,.1f} ms",
    "delay, p99": lambda each: f"{each.rounds[-1].p99_ms:,.1f} ms",
    "memory for a client": lambda each: f"{each.memory_per_client:.1f} KB",
    "processor for a delivery": lambda each: f"{each.rounds[-1].cpu_us:.1f} µs",
    "connections to the store": lambda each: f"{each.store_links:,}",
}


def best(result: Result) -> Round | None:
    return next((each for each in reversed(result.rounds) if each.in_time), None)


def lines(results: list[Result], clients: int, seconds: float, events: int) -> Iterator[str]:
    within = f"p99 within {LATE_MS / 1000:g} s"
    titles = {
        "viewers": f"{clients:,} clients of {JOBS} jobs, {EVENTS_PER_SECOND} events/s, {seconds:g} s",
        "hot": f"one job, {STEADY_CLIENTS:,} clients, {events:,} events as fast as it goes",
        "clients": f"clients of {JOBS} jobs, {EVENTS_PER_SECOND} events/s, {within}",
        "events": f"events/s, {STEADY_CLIENTS:,} clients of {JOBS} jobs, {within}",
    }
    for story in dict.fromkeys(result.story for result in results):
        told = [result for result in results if result.story == story]
        yield ""
        yield f"{titles[story]:60}" + "".join(f"{each.gateway:>22}" for each in told)
        if story in ("viewers", "hot"):
            for name, cell in ROWS.items():
                yield f"  {name:58}" + "".join(f"{cell(each):>22}" for each in told)
        else:
            yield from steps(told, (lambda each: each.clients) if story == "clients" else lambda e: e.events_per_second)


def steps(told: list[Result], size: Callable[[Round], int]) -> Iterator[str]:
    """A line for each step, and then what each gateway bore at most."""
    for number in dict.fromkeys(size(each) for result in told for each in result.rounds):
        rounds = [next((each for each in result.rounds if size(each) == number), None) for result in told]
        cells = [f"p99 {each.p99_ms:,.0f} ms{'' if each.in_time else ' late'}" if each else "" for each in rounds]
        yield f"  {number:<58,}" + "".join(f"{cell:>22}" for cell in cells)
    found = [best(result) for result in told]
    yield f"  {'the most of them':58}" + "".join(f"{size(each) if each else 0:>22,}" for each in found)
    yield f"  {'deliveries a second':58}" + "".join(f"{each.rate if each else 0:>22,.0f}" for each in found)
    if len(found) == 2 and found[0] and found[1]:
        yield f"  {'times as many':58}{size(found[0]) / size(found[1]):>22.1f}"
