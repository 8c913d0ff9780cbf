"""Ten minutes of every platform: sampled by the gateway, told without a trip to the store."""

import httpx2
import pytest

from gateway import trends
from gateway.trends import SAMPLES, Sampler, line_of
from streams.connection import Store
from streams.policies import Platforms
from streams.transitions import Transitions
from tests.gateway import keyrings
from tests.support.builders import Desk, untouched
from tests.support.eventually import eventually


def test_what_ended_is_the_difference_of_two_looks() -> None:
    samples = [{"kurly": (3, 10)}, {"kurly": (2, 11)}, {"kurly": (0, 15)}]
    assert line_of("kurly", samples) == {"depth": [3, 2, 0], "ended": [None, 1, 4]}


def test_a_gap_is_not_a_crowd_and_an_emptied_store_begins_anew() -> None:
    samples = [{"kurly": (3, 10)}, {}, {"kurly": (0, 90)}, {"kurly": (1, 2)}, {"kurly": (1, 3)}]
    assert line_of("kurly", samples) == {"depth": [3, None, 0, 1, 1], "ended": [None, None, None, None, 1]}
    assert line_of("ably", samples) == {"depth": [None] * 5, "ended": [None] * 5}
    assert line_of("ably", []) == {"depth": [], "ended": []}


def test_no_more_than_ten_minutes_are_told() -> None:
    samples = [{"kurly": (n, 2 * n)} for n in range(SAMPLES + 1)]
    line = line_of("kurly", samples)
    assert line["depth"] == list(range(1, SAMPLES + 1))
    assert line["ended"] == [2] * SAMPLES


async def test_a_look_takes_every_platform_and_leaves_no_trace(
    desk: Desk, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trends, "AT_ONCE", 3)
    await desk.submit("a", "b")
    (held,) = await desk.claim()
    await desk.complete(held)
    sampler = Sampler(Transitions(store), Platforms())
    async with untouched(store):
        look = await sampler.look()
    assert set(look) == set(Platforms())
    assert (look["research"], look["kurly"]) == ((1, 1), (0, 0))


async def test_a_store_that_is_away_is_a_gap() -> None:
    async with Store("redis://127.0.0.1:1") as nobody:
        assert await Sampler(Transitions(nobody), Platforms()).look() == {}


async def test_the_gateway_samples_from_its_first_moment(http: httpx2.AsyncClient) -> None:
    async def told() -> bool:
        data = (await http.get("/api/trends")).json()["data"]
        assert data["everySeconds"] == 10
        assert set(data["platforms"]) == set(Platforms())
        lines = data["platforms"]["research"]
        return 1 <= len(lines["depth"]) == len(lines["ended"]) <= SAMPLES

    await eventually("there is a first sample", told)


async def test_a_key_of_one_platform_sees_the_line_of_no_other(locked: httpx2.AsyncClient) -> None:
    headers = keyrings.shown(keyrings.SHOPS)
    platforms = (await locked.get("/api/trends", headers=headers)).json()["data"]["platforms"]
    assert set(platforms) == {"ably", "kurly"}
