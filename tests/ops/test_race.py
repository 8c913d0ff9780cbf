"""`race`: one round with real processes, and the sight that it relies on."""

import json
from copy import deepcopy

import pytest
import redis

from tailrace.ops.race.monitor import Monitor, Write
from tailrace.ops.race.track import Round
from tailrace.ops.race.violations import violations
from tailrace.streams.store.connection import Store
from tests.ops.commands import Here, tailrace
from tests.support.builders import Desk


def test_a_frozen_worker_that_comes_back_is_mute() -> None:
    result = tailrace("race", "--seed", "1", "--moment", "0.7", "--json")
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads(result.stdout)
    assert (report["seed"], report["clean"]) == (1, True)
    (race,) = report["rounds"]
    assert race["violations"] == violations(race["history"]) == []
    assert [(e["status"], e["attempt"], e["step"]) for e in race["history"]] == [
        ("queued", None, None),
        ("started", 1, None),
        ("progress", 1, 1),
        ("superseded", 1, None),
        ("started", 2, None),
        *(("progress", 2, step) for step in (1, 2, 3, 4, 5)),
        ("completed", 2, None),
    ]
    assert race["streams"] == [race["history"], race["history"]]
    refused = [(write["worker"], write["step"]) for write in race["writes"] if not write["accepted"]]
    assert refused == [(race["a"], step) for step in (2, 3, 4, 5, None)], "its handler tried everything it had left"
    assert set(race["holders"]) == {race["b"]}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--moment", "9"], "--moment: is 9; the job takes 2.5 s: choose from above 0 to 2.3"),
        (["--rounds", "0"], "--rounds: must be at least 1"),
    ],
)
def test_a_race_that_cannot_be_run_is_refused(words: list[str], sentence: str, here: Here) -> None:
    code, _, err = here("race", *words)
    assert code == 2
    assert sentence in err


def clean_round() -> Round:
    def event(seq: int, status: str, attempt: int | None, worker: str | None) -> dict[str, object]:
        return {"seq": seq, "status": status, "attempt": attempt, "step": None, "workerId": worker}

    history = [
        event(1, "queued", None, None),
        event(2, "started", 1, "a"),
        event(3, "superseded", 1, "a"),
        event(4, "started", 2, "b"),
        event(5, "completed", 2, "b"),
    ]
    return Round(
        job="research.1",
        a="a",
        b="b",
        began=0.0,
        taken=2.0,
        writes=[Write(3.0, "1", "a", 1, "progress", 1)],
        log=history[1:],
        history=history,
        streams=[history, history],
        holders=["b"],
        next_job=[event(1, "queued", None, None), event(2, "started", 1, "a"), event(3, "completed", 1, "a")],
    )


def test_a_clean_round_is_clean() -> None:
    assert clean_round().check() == []


def test_every_flaw_of_a_round_is_told() -> None:
    race = clean_round()
    race.streams[1] = race.history[:-1]
    race.log = race.log[:-1]
    race.holders.append("a")
    race.writes[0].accepted = True
    race.next_job[-1]["workerId"] = "b"
    assert race.check() == [
        "the store holds more than a client sees",
        "live client 2 saw another history",
        "a write of A was accepted after its takeover",
        "the entry went back to A",
        "A did not complete another job",
    ]
    race = clean_round()
    race.history = deepcopy(race.history)
    race.history[3]["workerId"] = "a"
    assert "the job was not started by A and then by B" in race.check()


async def test_the_monitor_sees_attempts_that_fail_and_events_of_any_size(valkey_url: str) -> None:
    async with Store(valkey_url) as store:
        desk = Desk(store, "research")
        await desk.claim()  # so that the server knows the scripts, and each call is seen once
        await desk.beat()
        monitor = Monitor(valkey_url, lambda _, write: None)
        monitor.start()
        try:
            held = await desk.start("a", "ann")
            await desk.report(held, 1, "x" * 10_000)
            assert await desk.fail(held, attempts=2, seconds=60) == "retrying"
            assert await desk.fail(held, attempts=2, seconds=60) == "again"
            held = await desk.start("c", "ann")
            assert await desk.fail(held, "x" * 10_000) == "failed"
            held = await desk.start("b", "bob")
            await desk.reclaim(held)
            assert await desk.fail(held) == "lost"
            with redis.Redis.from_url(valkey_url) as client:
                client.ping()
            assert monitor.wait_for(lambda write: write.job == "b" and write.status == "failed", 20)
        finally:
            monitor.stop()
    found = [(w.job, w.worker, w.attempt, w.status, w.accepted) for w in monitor.writes if w.status != "superseded"]
    assert found[:4] == [
        ("a", "ann", 1, "started", True),
        ("a", "ann", 1, "progress", True),
        ("a", "ann", 1, "retrying", True),
        ("a", "ann", 1, "failed", False),
    ]
    assert ("c", "ann", 1, "failed", True) in found
    assert found[-1] == ("b", "bob", 1, "failed", False)


async def test_the_monitor_tells_accepted_writes_from_refused_ones(valkey_url: str) -> None:
    seen: list[Write] = []
    async with Store(valkey_url) as store:
        desk = Desk(store, "research")
        await desk.claim()  # so that the server knows the scripts, and each call is seen once
        await desk.beat()
        monitor = Monitor(valkey_url, lambda _, write: seen.append(write))
        monitor.start()
        try:
            held = await desk.start("a", "ann")
            await desk.report(held, 1, 'two "words"\n\x01é')
            await desk.report_together(held, 3, ["left", "right"])
            await desk.reclaim(held)
            await desk.report_together(held, 5, [4, 5])
            await desk.complete(held)
            with redis.Redis.from_url(valkey_url) as client:
                client.ping()
            assert monitor.wait_for(lambda write: write.status == "completed", 20)
        finally:
            monitor.stop()
    assert monitor.writes == seen
    assert [(write.status, write.step, write.accepted) for write in seen] == [
        ("started", None, True),
        ("progress", 'two "words"\n\x01é', True),
        ("progress", "left", True),
        ("progress", "right", True),
        ("superseded", None, True),
        ("progress", 4, False),
        ("progress", 5, False),
        ("completed", None, False),
    ]
    assert {(write.job, write.worker, write.attempt) for write in seen} == {("a", "ann", 1)}
