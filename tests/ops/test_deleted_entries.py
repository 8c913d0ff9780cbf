"""An entry that was deleted by hand, wherever its job is: doctor says what becomes of the job, and puts it right."""

from argparse import Namespace
from collections.abc import Awaitable, Callable
from pathlib import Path

from tailrace.ops.doctor.doctor import examine
from tailrace.ops.doctor.way_forward import ARGS_GONE, ENTRY_GONE, LAST_ATTEMPT
from tailrace.streams.messages import Claim
from tests.ops.commands import Examine
from tests.support.builders import Desk
from tests.support.flowing import requeue, wait

HOUR = 3600.0
KEPT_BESIDE = b'"%b"' % (b"x" * 9000)  # of more than 8 KB: not in the entry


async def retried(desk: Desk, held: Claim) -> None:
    assert await desk.fail(held, attempts=3, seconds=HOUR) == "retrying"


async def put_off(desk: Desk, held: Claim) -> None:
    assert await desk.delay(held, HOUR) == "ok"


async def asleep(desk: Desk, held: Claim) -> None:
    assert await wait(desk, held, "sleep", "~1", seconds=HOUR) == "ok"


async def awaiting(desk: Desk, held: Claim) -> None:
    assert await wait(desk, held, "signal", "~1", name="go") == "ok"


async def at_the_front(desk: Desk, held: Claim) -> None:
    assert await desk.release(held) == "ok"


async def at_the_end_of_its_line(desk: Desk, held: Claim) -> None:
    assert await requeue(desk, held) == "ok"


async def running(desk: Desk, held: Claim) -> None:
    await desk.report(held, 1)


PLACES = [retried, put_off, asleep, awaiting, at_the_front, at_the_end_of_its_line]
Place = Callable[[Desk, Claim], Awaitable[None]]


async def bring(desk: Desk, *places: Place, args: bytes) -> dict[str, Claim]:
    """Jobs that were started are somewhere else by now, and their entries are deleted."""
    names = [place.__name__ for place in places]
    await desk.submit(*names, args=args)
    held = {claim.key: claim for claim in await desk.claim("ann", len(names))}
    for place in places:
        await place(desk, held[place.__name__])
    entries = [(await desk.record(name)).entry for name in names]
    assert await desk.store.command("XDEL", desk.keys.jobs("normal"), *entries) == len(names)
    return held


async def test_jobs_whose_args_are_kept_beside_their_entries_are_put_back(desk: Desk, troubles: Examine) -> None:
    held = await bring(desk, *PLACES, running, args=KEPT_BESIDE)
    names = {place.__name__ for place in PLACES}
    assert {(each.job, each.says) for each in await troubles()} == {(name, ENTRY_GONE) for name in names}
    assert await troubles(repair=True) == []
    assert await desk.reclaim(held["running"]) == "reclaimed"
    await desk.past_due("retried", "put_off", "asleep")
    again = [*await desk.claim("bob", 9), *await desk.claim("bob", 9)]
    assert {claim.key for claim in again} == {*names, "running"}
    assert {(claim.number, claim.args) for claim in again} == {(2, KEPT_BESIDE)}
    assert [await desk.complete(claim) for claim in again] == ["ok"] * len(again)
    assert (await desk.line(), await desk.pending(), await desk.leftovers()) == ([], [], [])


async def test_jobs_whose_args_were_in_their_entries_alone_are_named_and_end_failed(
    desk: Desk, troubles: Examine
) -> None:
    await bring(desk, *PLACES, args=b"{}")
    names = {place.__name__ for place in PLACES}
    assert {(each.job, each.says) for each in await troubles()} == {(name, ARGS_GONE) for name in names}
    assert await troubles(repair=True) == []
    for name in names:
        last = (await desk.history(name))[-1]
        assert (last.status, last.error and last.error.type) == ("failed", "EntryLost")
    assert (await desk.line(), await desk.pending(), await desk.front()) == ([], [], [])


async def test_a_running_job_without_its_args_is_advice_and_may_still_complete(
    desk: Desk, troubles: Examine, tmp_path: Path
) -> None:
    held = await bring(desk, running, args=b"{}")
    assert await troubles(repair=True) == []
    findings = await examine(Namespace(data=tmp_path, repair=False, json=True))
    assert [(each.level, each.job) for each in findings if each.says == LAST_ATTEMPT] == [("advice", "running")]
    assert await desk.complete(held["running"]) == "ok"
