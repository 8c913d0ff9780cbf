"""Retries: a job that fails is tried again, later and later, until its budget is spent; losses have their own."""

import asyncio

import pytest

from tailrace.streams.errors import WrongField
from tailrace.streams.keys import PlatformKeys, split_id
from tailrace.streams.states import State, Status
from tailrace.streams.transitions import Transitions
from tests.life.asking import NO_PAUSE, STEERED, ask, at, happened, pauses, when
from tests.support.builders import tell
from tests.support.checker import unclean
from tests.support.deployment import Deployment
from tests.support.processes import ConsumerProcess, Pace


async def test_a_job_that_fails_twice_is_done_by_its_third_attempt(standing: Deployment) -> None:
    job = await ask(standing, "research", args={"fail_times": 2, "result": 42})
    history = await standing.ended(job)
    assert [tell(event) for event in history] == [
        *("queued", "started 1", "retrying 1", "started 2", "retrying 2"),
        *("started 3", "progress 3 step 1", "completed 3"),
    ]
    first, second = pauses(history)
    assert 0.8 <= first <= 1.2
    assert 1.6 <= second <= 2.4
    for failed, started in ((history[2], history[3]), (history[4], history[5])):
        assert failed.error is not None
        assert failed.error.type == "RuntimeError"
        assert "fail as asked" in failed.error.message
        assert "drill.py" in (failed.error.traceback or "")
        assert at(started.time) >= at(failed.retryAt)
    record = await standing.record(job)
    assert (record.failures, record.crashes, history[-1].result) == (2, 0, 42)


async def test_a_worker_that_dies_while_its_job_rests_changes_nothing(deployment: Deployment) -> None:
    first = await deployment.consumer("kurly")
    job = await ask(deployment, "kurly", args={"fail_times": 2}, backoff_seconds=0.5)
    await happened(deployment, job, Status.RETRYING)
    first.kill_group()
    await deployment.consumer("kurly")
    history = await deployment.ended(job)
    assert [tell(event) for event in history] == [
        *("queued", "started 1", "retrying 1", "started 2", "retrying 2"),
        *("started 3", "progress 3 step 1", "completed 3"),
    ]
    record = await deployment.record(job)
    assert (record.failures, record.crashes) == (2, 0)


async def test_a_job_that_always_fails_ends_once_and_may_have_another_life(standing: Deployment) -> None:
    job = await ask(standing, "material-processing", args={"fail_times": 9}, **NO_PAUSE)
    history = await standing.ended(job)
    assert [event.status for event in history if event.status in (Status.RETRYING, Status.FAILED)] == [
        *(Status.RETRYING, Status.RETRYING, Status.FAILED),
    ]
    assert history[-1].error is not None
    assert history[-1].error.type == "RuntimeError"
    keys, key = PlatformKeys("material-processing"), split_id(job)[1]
    dead = await standing.store.command("ZRANGE", keys["ended_failed"], 0, -1)
    assert dead == [key.encode()]

    assert await Transitions(standing.store).reopen(keys, key, b',"by":"ops"') == "ok"
    await standing.started(job, 6)
    again = await standing.ended(job)
    assert [tell(event) for event in again[len(history) :]] == [
        *("reopened 3", "started 4", "retrying 4", "started 5", "retrying 5", "started 6", "failed 6"),
    ]
    assert again[: len(history)] == history
    assert unclean({job: again}) == []


async def test_a_job_may_have_rules_of_its_own(standing: Deployment) -> None:
    always = {"fail_times": 99}
    once = await ask(standing, "research", args=always, attempts=1)
    fixed = await ask(standing, "research", args=always, backoff="fixed", backoff_seconds=0.1, jitter=0, attempts=4)
    capped = await ask(
        standing, "research", args=always, attempts=5, backoff_seconds=0.1, backoff_cap_seconds=0.25, jitter=0
    )
    spread = await ask(standing, "research", args=always, backoff="fixed", backoff_seconds=0.1, jitter=1, attempts=9)
    histories = await standing.all_ended([once, fixed, capped, spread])
    assert [tell(event) for event in histories[once]] == ["queued", "started 1", "failed 1"]
    assert pauses(histories[fixed]) == [0.1, 0.1, 0.1]
    assert pauses(histories[capped]) == [0.1, 0.2, 0.25, 0.25]
    assert len(set(pauses(histories[spread]))) > 1
    assert all(0 <= pause <= 0.2 for pause in pauses(histories[spread]))


async def test_rules_that_contradict_those_of_the_platform_are_refused_at_the_door(deployment: Deployment) -> None:
    with pytest.raises(WrongField, match=r"^attempts: is 200, above the 100 of max_starts"):
        await ask(deployment, "research", attempts=200)
    with pytest.raises(WrongField, match=r"^backoff_cap_seconds: is 3600, below the 7200 of backoff_seconds; raise it"):
        await ask(deployment, "research", backoff_seconds=7200.0)


STRICT = "default"


@pytest.fixture(scope="module")
async def strict(standing: Deployment, tmp_path_factory: pytest.TempPathFactory) -> ConsumerProcess:
    """A worker of a platform for which it knows stricter rules than those who ask."""
    rules = tmp_path_factory.mktemp("strict") / "rules.toml"
    rules.write_text(f"[platforms.{STRICT}]\nmax_starts = 4\nbackoff_cap_seconds = 1.0\n")
    return await standing.consumer(STRICT, TAILRACE_HANDLERS=STEERED, TAILRACE_CONFIG=str(rules))


async def test_a_platform_that_became_stricter_does_not_stumble_over_its_jobs(
    standing: Deployment, strict: ConsumerProcess
) -> None:
    job = await ask(standing, STRICT, args={"fail_times": 9}, attempts=9, backoff_seconds=5.0, jitter=0.0)
    await standing.started(job, 2)
    assert strict.alive
    assert pauses(await standing.history(job))[0] == 1.0


async def test_a_handler_steers_its_job(standing: Deployment) -> None:
    given_up = await ask(standing, "research", "gives-up")
    own_pace = await ask(standing, "research", "own-pace", attempts=4, jitter=1)
    broken_pace = await ask(standing, "research", "broken-pace", attempts=2, **NO_PAUSE)
    put_off = await ask(standing, "research", "puts-off", args={"seconds": 0.1})
    alone = await ask(standing, "plan-generation", "left-alone", args={"seconds": 0.6})
    await standing.started(alone)
    held = await ask(standing, "plan-generation")
    histories = await standing.all_ended([given_up, own_pace, broken_pace, put_off, alone, held])

    assert [tell(event) for event in histories[given_up]] == ["queued", "started 1", "failed 1"]
    error = histories[given_up][-1].error
    assert error is not None
    assert error.type == "GiveUp"
    assert pauses(histories[own_pace]) == [0.1, 0.2, 0.3]
    assert pauses(histories[broken_pace]) == [0.05]

    assert [tell(event) for event in histories[put_off]] == [
        *("queued", "started 1", "delayed 1", "started 2", "delayed 2", "started 3", "completed 3"),
    ]
    until = at(histories[alone][2].until)
    assert [tell(event) for event in histories[alone]] == [
        *("queued", "started 1", "delayed 1", "started 2", "completed 2"),
    ]
    assert when(histories[held], Status.STARTED)[0] >= until  # no job of this platform started before
    for job in (put_off, alone, held):
        record = await standing.record(job)
        assert (record.failures, record.crashes) == (0, 0)


@pytest.mark.usefixtures("strict")
async def test_a_job_that_circles_ends(standing: Deployment) -> None:
    job = await ask(standing, STRICT, "circles")
    history = await standing.ended(job)
    assert history[-1].error is not None
    assert (history[-1].status, history[-1].attempt, history[-1].reason) == (Status.FAILED, 4, "starts")
    assert history[-1].error.type == "TooManyStarts"


async def test_failures_and_losses_are_counted_apart_and_a_deploy_costs_nothing(deployment: Deployment) -> None:
    hasty = Pace(deadline=0.9, beat=0.3, grace=0.0)
    first = await deployment.consumer("kurly", pace=hasty)
    job = await ask(deployment, "kurly", args={"fail_times": 1, "steps": 3, "seconds": 0.3}, **NO_PAUSE)
    await deployment.reached(job, 1, attempt=2)
    first.kill_group()
    second = await deployment.consumer("kurly", pace=hasty)
    await deployment.reached(job, 1, attempt=3)
    second.interrupt()
    assert await second.ended() == 0
    await deployment.consumer("kurly")
    history = await deployment.ended(job)
    assert [tell(event) for event in history] == [
        *("queued", "started 1", "retrying 1", "started 2", "progress 2 step 1", "superseded 2"),
        *("started 3", "progress 3 step 1", "superseded 3"),
        *("started 4", "progress 4 step 1", "progress 4 step 2", "progress 4 step 3", "completed 4"),
    ]
    assert [event.reason for event in history if event.status is Status.SUPERSEDED] == ["lost", "released"]
    record = await deployment.record(job)
    assert (record.failures, record.crashes) == (1, 1)


async def test_a_job_that_kills_its_workers_ends_and_those_behind_it_are_done(deployment: Deployment) -> None:
    pace = Pace(deadline=0.9, beat=0.3, reap=0.3)
    poison = await ask(deployment, "kurly", args={"exit_at_step": 1})
    good = [await ask(deployment, "kurly") for _ in range(20)]

    async def supervise() -> None:
        """Another worker for each that died."""
        consumer = deployment.start_consumer("kurly", pace=pace)
        while True:
            if not consumer.alive:
                consumer = deployment.start_consumer("kurly", pace=pace)
            await asyncio.sleep(0.05)

    supervisor = asyncio.get_running_loop().create_task(supervise())
    try:
        history = await deployment.ended(poison, seconds=45)
        await deployment.all_ended(good)
    finally:
        supervisor.cancel()
    assert [tell(event) for event in history] == [
        *("queued", "started 1", "superseded 1", "started 2", "superseded 2", "started 3", "failed 3"),
    ]
    assert (history[-1].reason, (await deployment.record(poison)).crashes) == ("lost", 3)
    assert {(await deployment.record(job)).state for job in good} == {State.COMPLETED}
    assert unclean({job: await deployment.history(job) for job in deployment.accepted}) == []
