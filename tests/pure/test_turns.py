"""turns: whatever a line says, playing it ends, and nobody is in the answer twice or out of nowhere."""

import time
from random import Random

from streams.line import LimitKey, Line, OrderKey, Place, Play, Running, Standing, turns
from streams.policies import Policy


def any_line(dice: Random, policy: Policy) -> Line:
    """A line that need not fit together at all: counts, places and heads are drawn apart from each other."""
    limits, orders = [None, "l", "m", "n"], [None, None, "o", "p"]
    names = [f"j{number}" for number in range(dice.randint(1, 14))]
    standing = {
        key: Standing(key, dice.choice([1.0, 2.0, 3.0]), dice.choice(orders), dice.choice(limits)) for key in names
    }
    known = [*names, "stranger", "r0", "r1"]

    def some(most: int) -> list[str]:
        return [dice.choice(known) for _ in range(dice.randint(0, most))]

    def places(most: int) -> tuple[Place, ...]:
        return tuple((dice.choice([0.0, 1.0, 2.0, float("inf")]), key) for key in some(most))

    running = [
        Running(dice.choice(known), "ann", n, dice.choice(orders), dice.choice(limits)) for n, _ in enumerate(some(4))
    ]
    free = [None] if not policy.key_rate else [None, -5, 0, 1, 7]
    return Line(
        now_ms=1,
        paused=None,
        held_until_ms=0,
        counted_ms=None,
        whole=True,
        runs=dice.choice([0, len(running), 9999]),
        running=tuple(running),
        standing=standing,
        front=tuple((score, key) for score, key in places(6) if key in standing),
        bands={key: dice.random() < 0.5 for key in some(14) if key in standing},
        limits={
            label: LimitKey(dice.choice([-3, 0, 1, 2, 10**9]), dice.choice(free), places(6))
            for label in "lmn"
            if dice.random() < 0.8
        },
        orders={label: OrderKey(dice.choice([None, *known]), places(6)) for label in "op" if dice.random() < 0.8},
        took_ms=(),
    )


def test_whatever_a_line_says_playing_it_ends(dice: Random) -> None:
    for number in range(3000):
        policy = Policy(
            overall=dice.choice([0, 1, 2]), key_overall=dice.choice([0, 1, 2]), key_rate=dice.choice([0, 0, 1, 2])
        )
        line = any_line(dice, policy)
        play = Play(line, policy)
        started = play.run()
        assert play.rounds_left > 0, f"line {number} is not played to its end: {policy} {line}"
        assert len(started) == len(set(started))
        assert set(started) <= line.standing.keys()


def test_a_playing_that_would_never_end_is_given_up(dice: Random) -> None:
    class Circling(Play):
        def _admits(self, job: Standing) -> bool:
            self._coming.append((job.acceptance, job.key))
            return False

    line = any_line(dice, Policy())
    key = next(iter(line.standing))
    play = Circling(
        Line(**{name: getattr(line, name) for name in Line.__struct_fields__} | {"bands": {key: True}}), Policy()
    )
    assert play.run() == []
    assert play.rounds_left == 0


def test_a_thousand_of_one_order_key_are_played_in_a_moment() -> None:
    """A list that is searched or copied for each of them would make it sixty times as long."""
    assert seconds_for(8000) < 30 * seconds_for(1000), "eight times as many take about eight times as long"


def seconds_for(count: int) -> float:
    standing = {f"j{n}": Standing(f"j{n}", float(n), "o") for n in range(count)}
    members = tuple((job.acceptance, key) for key, job in standing.items())[:100]
    bands = dict.fromkeys(standing, False)
    line = Line(1, None, 0, None, True, 0, (), standing, (), bands, {}, {"o": OrderKey(None, members)}, ())
    best = float("inf")
    for _ in range(3):
        begun = time.perf_counter()
        assert turns(line, Policy()) == list(standing)
        best = min(best, time.perf_counter() - begun)
    return best
