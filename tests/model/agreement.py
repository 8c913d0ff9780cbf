"""What always holds: the store shows what the model says, read as a client and an observer would read it."""

from typing import NamedTuple

from tailrace.streams.replies import read_jobs
from tests.model.model import NOT_READ, ModelPlatform
from tests.model.play import Show
from tests.support.builders import Desk

USED_BANDS = ("high", "normal")


class Side(NamedTuple):
    """One platform twice: as it is and as it must be."""

    desk: Desk
    model: ModelPlatform


async def check_leases(side: Side) -> None:
    """Who is said to run a job runs it, and no more of them than may (I6)."""
    desk, model = side
    look = await desk.look()
    assert {owner: int(counter) for owner, counter in look.beats.items()} == model.beats
    leases = {lease.nonce: (lease.key, lease.owner) for lease in look.leases}
    assert leases == {nonce: (job.key, job.owner) for nonce, job in model.running().items()}
    assert not model.max_running or len(leases) <= model.max_running
    for owner in model.beats:
        listed = await desk.store.command("SMEMBERS", desk.keys.holds(owner))
        assert sorted(listed) == sorted(nonce.encode() for nonce, (_, holder) in leases.items() if holder == owner)


async def check_calls(side: Side) -> None:
    """No job that may start waits beside an idle consumer: one was called, and can hear it (I17)."""
    desk, model = side
    called = await desk.called()
    if model.may_start() and await desk.idle():
        assert called
    assert all([await desk.rings(owner) for owner in called])


async def check_lines(side: Side) -> None:
    """Every job that has not ended stands in its line (I4), and pends if it was handed out."""
    desk, model = side
    for band in USED_BANDS:
        line = model.line(band)
        entries = await desk.store.command("XRANGE", desk.keys.jobs(band), "-", "+")
        assert [fields[1].decode() for _, fields in entries] == [job.key for job in line]
        handed_out = [entry.decode() for (entry, _), job in zip(entries, line, strict=True) if model.pends(job)]
        if handed_out or model.read_to[band] != NOT_READ:
            assert [entry for entry, _ in await desk.pending(band)] == handed_out


async def check_jobs(side: Side, show: Show, ends: dict[tuple[str, int], bytes]) -> None:
    """No job is missing (I4), its visible history is the right one (I2), and how each of its lives ended stays (I3)."""
    desk, model = side
    found = await read_jobs(desk.store, [(desk.keys, key, 1) for key in model.jobs])
    for job, kept in zip(model.jobs.values(), found, strict=True):
        assert kept, f"{job.key} was accepted and has vanished"
        record, log = kept
        assert (record.state, record.attempt) == (job.state, job.attempt)
        assert (record.failures, record.crashes) == (job.failures, job.crashes)
        shown = show(record.id, log)
        assert [(head.attempt, head.status, head.step) for head, _ in shown] == job.told
        assert [head.seq for head, _ in shown] == list(range(1, len(job.told) + 1))
        if job.state.ended:
            end = shown[-1][1]
            assert ends.setdefault((record.id, job.lives), end) == end
