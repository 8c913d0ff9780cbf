"""`doctor`: a fit store and jobs with a way forward get a clean bill; each ailment is named, with the next step."""

from pathlib import Path

import pytest

from tailrace.streams.keys import GROUP
from tailrace.streams.states import State
from tests.ops.commands import Examine, Here, tailrace
from tests.support.builders import Desk
from tests.support.deployment import Deployment


async def test_jobs_that_wait_and_run_under_a_living_consumer_are_fine(standing: Deployment, here: Here) -> None:
    jobs = [await standing.submit("hwahae", steps=1, seconds=600) for _ in range(3)]
    await standing.started(jobs[0])
    result = tailrace("doctor", REDIS_URL=standing.url)
    assert result.returncode == 0, result.stdout
    assert "✗" not in result.stdout
    assert "✓ hwahae       1 running, 2 waiting: every job has a way forward" in result.stdout.splitlines()
    code, _, _ = await here.beside("doctor", "--repair", REDIS_URL=standing.url)
    assert code == 0
    assert [event.attempt for event in await standing.history(jobs[0])][-1] == 1, "a living job is left alone"


async def test_jobs_that_nobody_serves_name_the_command_that_would(desk: Desk, valkey_url: str) -> None:
    await Desk(desk.store, "hwahae").submit("a")
    result = tailrace("doctor", REDIS_URL=valkey_url)
    assert result.returncode == 1
    assert "✗ hwahae       it has jobs, but no consumer serves it\n" in result.stdout
    assert "-> python3 -m ops consume hwahae\n" in result.stdout


async def test_a_silent_owner_is_only_advice_while_others_serve_its_platform(
    deployment: Deployment, here: Here
) -> None:
    await Desk(deployment.store, "research").start("a", "gone")
    await deployment.consumer("research")
    pace = {"TAILRACE_BEAT_SECONDS": "0.3", "TAILRACE_DEADLINE_SECONDS": "2"}
    code, said, _ = await here.beside("doctor", REDIS_URL=deployment.url, **pace)
    assert code == 0
    assert "! research     gone is silent; its jobs go to others once one of them has seen that for 10 s\n" in said


async def test_a_waiting_job_whose_entry_is_gone_is_found(desk: Desk, troubles: Examine) -> None:
    await desk.submit("a", "b")
    assert await troubles() == []
    await desk.store.command("XDEL", desk.keys.jobs("normal"), (await desk.record("a")).entry)
    (found,) = await troubles()
    assert (found.job, found.says) == (
        "a",
        "its entry is gone from the queue, and its args with it: it can only end failed (EntryLost); submit it again",
    )
    assert found.next.startswith("python3 -m ops doctor --repair --data /")


async def test_a_waiting_job_that_was_handed_out_to_nobody_is_found(desk: Desk, troubles: Examine) -> None:
    await desk.claim()  # makes the group
    await desk.start("first")
    await desk.submit("a")
    await desk.store.command(
        "XREADGROUP", "GROUP", GROUP, "somebody", "COUNT", 1, "STREAMS", desk.keys.jobs("normal"), ">"
    )
    (found,) = await troubles()
    assert (found.job, found.says) == ("a", "its entry was handed out, but no consumer runs it")
    assert await troubles(repair=True) == []
    assert [held.key for held in await desk.claim("bob")] == ["a"]


async def test_jobs_whose_pending_entries_were_acknowledged_are_fine(desk: Desk, troubles: Examine) -> None:
    """Transitions hold an entry by force."""
    await desk.submit("a", "b", "c")
    a, _, c = await desk.claim("ann", 3)
    await desk.release(a)
    await desk.fail(c, attempts=3, seconds=600)
    assert await troubles() == []
    for key in "abc":
        await desk.store.command("XACK", desk.keys.jobs("normal"), GROUP, (await desk.record(key)).entry)
    assert await troubles() == []


async def test_jobs_that_no_list_names_are_put_back_in_line(desk: Desk, troubles: Examine) -> None:
    await desk.submit("a", "b", args=b'"%b"' % (b"x" * 9000))
    await desk.submit("c", "small")
    await desk.submit("later", delay_seconds=600)
    line = desk.keys.jobs("normal")
    await desk.store.command("XREADGROUP", "GROUP", GROUP, "somebody", "COUNT", 1, "STREAMS", line, ">")
    for key in ("b", "small", "later"):
        await desk.store.command("XDEL", line, (await desk.record(key)).entry)
    await desk.store.command("ZREM", desk.keys["due"], "later")
    found = await troubles()
    assert {finding.job for finding in found} == {"a", "b", "small", "later"}
    assert all("doctor --repair" in finding.next for finding in found)
    assert await troubles(repair=True) == []
    assert await troubles() == []
    assert await desk.story("small") == ["queued", "failed"]
    started = [*await desk.claim("ann", 9), *await desk.claim("ann", 9)]
    assert sorted(held.key for held in started) == ["a", "b", "c", "later"]


async def test_jobs_are_fine_when_the_group_was_destroyed(desk: Desk, troubles: Examine) -> None:
    held = await desk.start("a")
    await desk.submit("b")
    await desk.destroy_groups()
    assert await troubles() == []
    await desk.release(held)
    assert await troubles() == []


async def test_a_running_job_without_a_lease_is_found(desk: Desk, troubles: Examine) -> None:
    held = await desk.start("a")
    assert await troubles() == []
    await desk.store.command("HDEL", desk.keys["leases"], held.nonce)
    (found,) = await troubles()
    assert (found.job, found.says) == ("a", "it runs, but no consumer holds its lease: none will take it over")
    assert await troubles(repair=True) == []
    assert [again.number for again in await desk.claim()] == [2]


async def test_a_lease_that_nobody_runs_under_is_found_and_given_back(desk: Desk, troubles: Examine) -> None:
    lost = await desk.start("a")
    kept = await desk.start("b")
    await desk.store.command("DEL", desk.keys.record("a"))
    found = await troubles()
    assert {(f.job, f.says) for f in found} == {
        ("a", "a lease is held for it, but no attempt runs under it"),
        ("a", "it is in the queue normal, but no such job is kept"),
    }
    assert await troubles(repair=True) == []
    assert [lease.nonce for lease in (await desk.look()).leases] == [kept.nonce]
    assert lost.nonce != kept.nonce
    assert (await desk.record("b")).state is State.RUNNING


async def test_a_job_that_may_start_beside_an_idle_consumer_that_is_not_called_is_found(
    desk: Desk, troubles: Examine
) -> None:
    await desk.submit("a", "b")
    assert await troubles() == [], "no consumer waits for work"
    await desk.asleep("ann")
    (found,) = await troubles()
    assert (found.job, found.says) == ("a", "it may start and consumers are idle, but none of them was called")
    assert await troubles(repair=True) == []
    assert await desk.called() == ["ann"]
    await desk.store.command("DEL", desk.keys["called"])
    await desk.asleep("ann")
    await desk.store.command("ZADD", desk.keys["called"], 1, "bob")
    assert await troubles() == [], "a heart calls others if it does not come"
    await desk.store.command("DEL", desk.keys["called"])
    await desk.transitions.pause(desk.keys, "ann")
    assert await troubles() == []


async def test_a_released_job_beside_an_idle_consumer_that_is_not_called_is_found(
    desk: Desk, troubles: Examine
) -> None:
    await desk.release(await desk.start("a"))
    await desk.asleep("ann")
    assert [found.job for found in await troubles()] == ["a"]


async def test_a_job_that_a_closed_rate_holds_up_is_fine(
    desk: Desk, troubles: Examine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "tailrace.toml"
    config.write_text("[platforms.research]\noverall = 2\nrate = 1\nrate_seconds = 60")
    monkeypatch.setenv("TAILRACE_CONFIG", str(config))
    await desk.submit("a", "b")
    limited = Desk(desk.store, "research", max_running=2, rate=1, rate_seconds=60)
    (held,) = await limited.claim("ann", 2)
    assert await limited.idle() == ["ann"]
    assert await troubles() == []
    await desk.store.command("DEL", desk.keys["starts"])
    assert [found.job for found in await troubles()] == ["b"]
    await desk.submit("c")
    await limited.claim("bob", 1)
    await desk.store.command("DEL", desk.keys["starts"], desk.keys["called"])
    assert await troubles() == [], "as many run as may"
    assert held.key == "a"


async def test_a_place_at_the_front_without_a_waiting_job_is_found(desk: Desk, troubles: Examine) -> None:
    await desk.store.command("ZADD", desk.keys.front("normal"), 1, "ghost")
    (found,) = await troubles()
    assert (found.job, found.says) == ("ghost", "it is at the front of the queue, but does not wait")
    assert await troubles(repair=True) == []
    assert await desk.store.command("EXISTS", desk.keys.front("normal")) == 0


async def test_a_lease_that_cannot_be_read_is_found(desk: Desk, troubles: Examine) -> None:
    await desk.store.command("HSET", desk.keys["leases"], "n9", "rubbish")
    (found,) = await troubles()
    assert found.says == "the lease n9 cannot be read: it only takes up room"
    assert await troubles(repair=True) == []
    assert not (await desk.look()).leases


async def test_a_delayed_job_needs_a_time_and_its_entry(desk: Desk, troubles: Examine) -> None:
    await desk.submit("a", "b", delay_seconds=600)
    await desk.fail(await desk.start("c"), attempts=3, seconds=600)
    await desk.delay(await desk.start("d"), 600)
    assert await troubles() == []
    await desk.store.command("ZREM", desk.keys["due"], "a")
    await desk.store.command("XDEL", desk.keys.jobs("normal"), (await desk.record("b")).entry)
    assert {(found.job, found.says) for found in await troubles()} == {
        ("a", "it is delayed, but no time is set for it: nothing will wake it"),
        ("b", "its entry is gone from the queue"),
    }


async def test_jobs_parked_behind_their_order_are_fine_while_somebody_is_before_them(
    desk: Desk, troubles: Examine
) -> None:
    await desk.submit("a", "b", "c", order_key="cart")
    (held,) = await desk.claim("ann", 3)
    assert await troubles() == []
    await desk.fail(held, attempts=3, seconds=600)  # those behind it wait with it
    await desk.claim("ann", 3)
    assert await troubles() == []
    await desk.store.command("ZREM", desk.keys.order("cart"), "a")
    await desk.store.command("ZREM", desk.keys.front("normal"), "b")
    (found,) = await troubles()
    assert (found.job, found.says) == ("b", "it waits for its turn in the order cart, but no job is before it")
    await desk.store.command("ZADD", desk.keys.order("cart"), 0, "ghost")
    assert {found.job for found in await troubles()} == {"b", "c"}, "a job that is not kept lets no other pass"
    assert await troubles(repair=True) == []


async def test_an_order_held_by_a_job_that_does_not_run_is_found(desk: Desk, troubles: Examine) -> None:
    await desk.submit("a", order_key="cart")
    await desk.claim()
    assert await troubles() == []
    await desk.store.command("HSET", desk.keys["orders"], "cart", "gone")
    (found,) = await troubles()
    assert (found.job, found.says) == ("gone", "it holds the order cart, but does not run")
    assert await troubles(repair=True) == []
    assert await desk.store.command("EXISTS", desk.keys["orders"]) == 0


async def test_jobs_parked_for_a_limit_key_are_fine_while_somebody_holds_it(desk: Desk, troubles: Examine) -> None:
    limited = Desk(desk.store, "research", max_running_per_key=1)
    await limited.submit("a", "b", limit_key="shop")
    await limited.claim("ann", 2)
    assert (await limited.record("b")).state is State.WAITING
    assert await troubles() == []
    await desk.store.command("HDEL", desk.keys["limits"], "shop")
    assert {(found.job, found.says) for found in await troubles()} == {
        ("b", "it waits for its limit key shop, but no job holds it"),
        ("", "limit key shop counts 0 running, but 1 run"),
    }
    await desk.store.command("ZADD", desk.keys["alarms"], 1, "*shop")
    assert {found.job for found in await troubles()} == {""}, "an alarm will bring it back"
    assert await troubles(repair=True) == []


async def test_a_limit_key_that_counts_too_many_is_found(desk: Desk, troubles: Examine) -> None:
    limited = Desk(desk.store, "research", max_running_per_key=5)
    await limited.submit("a", limit_key="shop")
    await limited.claim()
    await desk.store.command("HSET", desk.keys["limits"], "shop", 3, "other", 1)
    assert sorted(found.says for found in await troubles()) == [
        "limit key other counts 1 running, but 0 run",
        "limit key shop counts 3 running, but 1 run",
    ]
    assert await troubles(repair=True) == []
    assert await desk.store.command("HGETALL", desk.keys["limits"]) == [b"shop", b"1"]


async def test_a_paused_platform_is_told_as_a_note(desk: Desk, here: Here, valkey_url: str) -> None:
    await desk.transitions.pause(desk.keys, "2026-11-16T05:00:00.000Z ann")
    code, said, _ = await here.beside("doctor", REDIS_URL=valkey_url)
    assert code == 0
    assert "! research     is paused by ann since 2026-11-16T05:00:00.000Z: nothing starts\n" in said
    assert "-> python3 -m ops resume research\n" in said
    _, elsewhere, _ = await here.beside("doctor", "--data", "/else", REDIS_URL=valkey_url)
    assert "-> python3 -m ops resume research --data /else\n" in elsewhere


async def test_jobs_of_a_paused_platform_have_a_way_forward_once_it_is_resumed(
    standing: Deployment, here: Here
) -> None:
    desk = Desk(standing.store, "kurly")
    await desk.transitions.pause(desk.keys, "2026-11-16T05:00:00.000Z ann")
    await standing.submit("kurly")
    _, said, _ = await here.beside("doctor", REDIS_URL=standing.url)
    assert "! kurly        is paused by ann" in said
    assert "✓ kurly        1 waiting: every job has a way forward once the platform is resumed\n" in said


async def test_corrupt_records_are_found_and_a_foreign_key_is_passed_over(desk: Desk, troubles: Examine) -> None:
    await desk.store.command("HSET", desk.keys.record("a"), "state", "dancing")
    await desk.store.command("HSET", desk.keys.record("c"), "state", "waiting", "entry", "1-1")
    await desk.store.command("HSET", "tr:{Not A Platform}:job:a", "state", "waiting")
    await desk.store.command("SET", desk.keys.record("b"), "a string")
    found = await troubles()
    assert {trouble.job for trouble in found} == {"a", "c"}
    assert all(trouble.says.startswith("its record cannot be read") for trouble in found)
    assert await troubles(repair=True) == []
    assert (await desk.record("a")).state is State.FAILED


async def test_a_job_in_motion_is_no_trouble(desk: Desk, troubles: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first look finds between two steps of a job is gone at the second."""
    held = await desk.start("a")
    lease = await desk.store.command("HGET", desk.keys["leases"], held.nonce)
    await desk.store.command("HDEL", desk.keys["leases"], held.nonce)

    async def settle(seconds: float) -> None:
        await desk.store.command("HSET", desk.keys["leases"], held.nonce, lease)

    monkeypatch.setattr("tailrace.ops.doctor.way_forward.anyio.sleep", settle)
    assert await troubles() == []


async def test_jobs_of_a_platform_that_is_not_declared_are_found_too(desk: Desk, here: Here, valkey_url: str) -> None:
    await Desk(desk.store, "coupang").submit("a")
    code, said, _ = await here.beside("doctor", REDIS_URL=valkey_url)
    assert code == 1
    assert "-> TAILRACE_PLATFORMS=coupang python3 -m ops consume coupang" in said
