"""Ten minutes of every platform: sampled by the gateway, told without a trip to the store."""

import httpx2

from tailrace.gateway.routes.trends import Trend, line_of
from tailrace.gateway.sampler import SAMPLES, Sampler
from tailrace.producers.platforms import BUILT_IN
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Tally, Transitions
from tests.gateway import keyrings
from tests.support.builders import Desk, untouched
from tests.support.eventually import eventually


def test_what_ended_is_the_difference_of_two_looks_by_outcome() -> None:
    samples = [{"kurly": Tally(3, 10, 2, 0)}, {"kurly": Tally(2, 11, 2, 0)}, {"kurly": Tally(0, 12, 5, 1)}]
    assert line_of("kurly", samples) == Trend(
        depth=[3, 2, 0], completed=[None, 1, 1], failed=[None, 0, 3], cancelled=[None, 0, 1]
    )


def test_a_gap_is_not_a_crowd_and_an_emptied_store_begins_again() -> None:
    counts = [(3, 10), None, (0, 90), (1, 2), (1, 3)]
    samples = [{"kurly": Tally(*each, 0, 0)} if each else {} for each in counts]
    line = line_of("kurly", samples)
    assert (line.depth, line.completed) == ([3, None, 0, 1, 1], [None, None, None, None, 1])
    assert line_of("ably", samples) == Trend([None] * 5, [None] * 5, [None] * 5, [None] * 5)
    assert line_of("ably", []) == Trend([], [], [], [])


def test_no_more_than_ten_minutes_are_told() -> None:
    samples = [{"kurly": Tally(n, 2 * n, n, 0)} for n in range(SAMPLES + 1)]
    line = line_of("kurly", samples)
    assert line.depth == list(range(1, SAMPLES + 1))
    assert (line.completed, line.failed, line.cancelled) == ([2] * SAMPLES, [1] * SAMPLES, [0] * SAMPLES)


async def test_a_look_takes_every_platform_and_leaves_no_trace(desk: Desk, store: Store) -> None:
    await desk.submit("a", "b")
    (held,) = await desk.claim()
    await desk.complete(held)
    sampler = Sampler(Transitions(store), BUILT_IN)
    async with untouched(store):
        look = await sampler.look()
    assert set(look) == set(BUILT_IN)
    assert (look["research"], look["kurly"]) == (Tally(1, 1, 0, 0), Tally(0, 0, 0, 0))


async def test_a_store_that_is_away_is_a_gap() -> None:
    async with Store("redis://127.0.0.1:1") as nobody:
        assert await Sampler(Transitions(nobody), BUILT_IN).look() == {}


async def test_the_gateway_samples_from_its_first_moment(http: httpx2.AsyncClient) -> None:
    async def told() -> bool:
        data = (await http.get("/api/trends")).json()["data"]
        assert data["everySeconds"] == 10
        assert set(data["platforms"]) == set(BUILT_IN)
        lines = data["platforms"]["research"]
        lengths = {len(line) for line in lines.values()}
        return len(lengths) == 1 and 1 <= lengths.pop() <= SAMPLES

    await eventually("there is a first sample", told)


async def test_a_key_of_one_platform_sees_the_line_of_no_other(locked: httpx2.AsyncClient) -> None:
    headers = keyrings.shown(keyrings.SHOPS)
    platforms = (await locked.get("/api/trends", headers=headers)).json()["data"]["platforms"]
    assert set(platforms) == {"ably", "kurly"}
