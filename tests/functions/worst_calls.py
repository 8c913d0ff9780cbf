"""The calls with most to do: each scene sets a platform up, and answers the call that is to be measured."""

from collections.abc import Awaitable, Callable
from typing import Any

from tailrace.consumers.attempts.flows import JOIN_PAGE
from tailrace.consumers.heart.heartbeat import MOST_HELD
from tailrace.consumers.reader import MOST
from tailrace.producers.producer import BATCH, WITH_OPTIONS
from tailrace.streams.flows.relay import BATCH as RELAY_BATCH
from tailrace.streams.flows.relay import Relay, arriving
from tailrace.streams.flows.spawning import pages
from tailrace.streams.operations import Operation, call
from tailrace.streams.options import Dedupe
from tailrace.streams.policies import Policy
from tailrace.streams.schedules import Move, mark_of
from tailrace.streams.store.commit import MOST_WORK, WORK
from tailrace.streams.transitions import MEND_BATCH, MOST_PLATFORMS, RECLAIM_BATCH, TICK_BATCH, Tick, share
from tests.support.builders import Desk
from tests.support.crowd import FILL
from tests.support.flowing import child_of, ended, join, spawn, waiting_parent


async def take_over(desk: Desk) -> Awaitable[Any]:
    jobs = [desk.job(f"job-{n}", order_key=f"o{n}", limit_key=f"l{n}") for n in range(100)]
    await desk.transitions.submit([(job, "f") for job in jobs])
    while await desk.claim("ann", 30):
        pass
    await desk.asleep(*(f"idle-{n}" for n in range(20)))
    leases = await desk.transitions.holdings(desk.keys, "ann")
    assert len(leases) == RECLAIM_BATCH
    return desk.transitions.reclaim(desk.keys, leases, "0", Policy(max_crashes=1))


async def forget_failed(desk: Desk) -> Awaitable[Any]:
    expires: dict[str, Any] = {"expires_at": "2099-01-01T00:00:00Z"}
    jobs = [desk.job(f"job-{n}", order_key=f"o{n}", dedupe=Dedupe(f"d{n}"), **expires) for n in range(100)]
    await desk.transitions.submit([(job, "f") for job in jobs])
    while claims := await desk.claim(slots=30):
        for held in claims:
            await desk.fail(held)
    return desk.transitions.forget([(desk.keys, Policy(keep_failed_seconds=0))])


async def forget_completed(desk: Desk) -> Awaitable[Any]:
    await desk.submit(*(f"job-{n}" for n in range(100)))
    for held in await desk.claim(slots=100):
        await desk.complete(held)
    return desk.transitions.forget([(desk.keys, Policy(keep_completed_seconds=0))])


async def forget_past_many_that_are_kept(desk: Desk) -> Awaitable[Any]:
    words = [word for n in range(5000) for word in (n, f"own-{n}")]
    for name in ("ended_failed", "ended_cancelled"):
        await desk.store.command("ZADD", desk.keys[name], *words)
    await desk.store.command("ZADD", desk.keys["ended_kept"], *words)
    await desk.store.command("ZINTERSTORE", desk.keys["ended_kept"], 1, desk.keys["ended_kept"], "WEIGHTS", 10**13)
    return desk.transitions.forget([(desk.keys, Policy(keep_failed=2))])


async def forget_after_the_clock_was_ahead(desk: Desk) -> Awaitable[Any]:
    keys = [f"job-{n}" for n in range(500)]
    await desk.store.commands([("HSET", desk.keys.record(key), "ended_ms", 10**13) for key in keys])
    await desk.store.command("RPUSH", desk.keys["ended_completed"], *keys)
    return desk.transitions.forget([(desk.keys, Policy())])


async def mend_running(desk: Desk) -> Awaitable[Any]:
    await desk.store.command("EVAL", FILL, 0, desk.keys.prefix, 500, 5)
    return desk.transitions.mend([(desk.keys, "")])


async def mend_without_leases(desk: Desk) -> Awaitable[Any]:
    mend = await mend_running(desk)
    await desk.store.command("DEL", desk.keys["leases"])
    return mend


async def mend_many_platforms(desk: Desk) -> Awaitable[Any]:
    desks = [Desk(desk.store, f"p{n}") for n in range(MOST_PLATFORMS)]
    for each in desks:
        await desk.store.command("EVAL", FILL, 0, each.keys.prefix, 30, 1)
    return desk.transitions.mend([(each.keys, "") for each in desks], share(MEND_BATCH, len(desks)))


async def enlist(desk: Desk) -> Awaitable[Any]:
    await desk.store.command("EVAL", FILL, 0, desk.keys.prefix, 2000, 300)
    return desk.transitions.enlist([(desk.keys, 0)])


async def fall_due_and_expire(desk: Desk) -> None:
    due, expired = [f"due-{n}" for n in range(100)], [f"expired-{n}" for n in range(100)]
    await desk.submit(*due, delay_seconds=3600, order_key="o", limit_key="l")
    await desk.past_due(*due)
    await desk.submit(*expired, expires_at="2001-01-01T00:00:00Z", order_key="e", limit_key="x")


async def wake(desk: Desk) -> Awaitable[Any]:
    await fall_due_and_expire(desk)
    return desk.transitions.wake([(desk.keys, desk.policy)])


async def claim_where_much_is_due(desk: Desk) -> Awaitable[Any]:
    await fall_due_and_expire(desk)
    return desk.claim(slots=MOST)


async def claim_after_the_clock_was_set_back(desk: Desk) -> Awaitable[Any]:
    await desk.submit(*(f"job-{n}" for n in range(500)), delay_seconds=3600)
    await desk.store.command("HSET", desk.keys["control"], "latest_ms", 10**13)
    return desk.claim(slots=MOST)


async def claim_released(desk: Desk) -> Awaitable[Any]:
    await desk.submit(*(f"job-{n}" for n in range(200)))
    for held in await desk.claim("bob", 200):
        await desk.release(held)
    return desk.claim(slots=MOST)


async def claim_what_cannot_start(desk: Desk) -> Awaitable[Any]:
    await desk.submit(*(f"job-{n}" for n in range(300)), order_key="o", limit_key="l")
    await desk.claim()
    return desk.claim(slots=MOST)


async def settle_failures_and_claim(desk: Desk) -> Awaitable[Any]:
    await desk.submit(*(f"job-{n}" for n in range(200)), args=b'"%b"' % (b"x" * 8000), limit_key="l")
    failing: list[Operation] = []
    while len(failing) < MOST_WORK // WORK["fail"]:
        failing += [desk.failing(held) for held in await desk.claim()]
    return desk.transitions.commit(desk.keys, [*failing, desk.claiming("ann", desk.nonces("ann", MOST))])


async def settle_completions_and_claim(desk: Desk) -> Awaitable[Any]:
    await desk.submit(*(f"job-{n}" for n in range(200)))
    ending = [desk.completing(held) for held in await desk.claim(slots=MOST_WORK)]
    return desk.transitions.commit(desk.keys, [*ending, desk.claiming("ann", desk.nonces("ann", MOST))])


async def report_and_claim(desk: Desk) -> Awaitable[Any]:
    await desk.submit(*(f"job-{n}" for n in range(200)))
    told = [desk.reporting(held, 1) for held in await desk.claim(slots=int(MOST_WORK / WORK["report"]))]
    return desk.transitions.commit(desk.keys, [*told, desk.claiming("ann", desk.nonces("ann", MOST))])


async def submit_plain(desk: Desk) -> Awaitable[Any]:
    return desk.transitions.submit([(desk.job(f"job-{n}"), "f") for n in range(BATCH)])


async def submit_with_options(desk: Desk) -> Awaitable[Any]:
    options: dict[str, Any] = {"delay_seconds": 3600, "order_key": "o", "limit_key": "l", "keep_seconds": 9.0}
    count = BATCH // WITH_OPTIONS
    jobs = [desk.job(f"job-{n}", priority="low", dedupe=Dedupe(f"d{n}", "debounce"), **options) for n in range(count)]
    return desk.transitions.submit([(job, "f") for job in jobs])


async def spawn_here(desk: Desk) -> Awaitable[Any]:
    held = await desk.start("parent")
    children = [child_of(f"shop.c{n}") for n in range(1000)]
    return spawn(desk, held, *next(pages(children)))


async def spawn_with_options(desk: Desk) -> Awaitable[Any]:
    held = await desk.start("parent")
    options: dict[str, Any] = {"delay_seconds": 3600, "order_key": "o", "limit_key": "l", "keep_seconds": 9.0}
    children = [child_of(f"shop.c{n}", priority="low", attempts=2, **options) for n in range(1000)]
    return spawn(desk, held, *next(pages(children)))


async def join_a_page(desk: Desk) -> Awaitable[Any]:
    held = await desk.start("parent")
    ids = [f"kurly.c{n}" for n in range(JOIN_PAGE)]
    for page in pages([child_of(child) for child in ids]):
        await spawn(desk, held, *page)
    return join(desk, held, *ids)


async def arrive_at_many_parents(desk: Desk) -> Awaitable[Any]:
    for n in range(RELAY_BATCH):
        await waiting_parent(desk, f"kurly.c{n}", key=f"p{n}")
    await desk.asleep(*(f"idle-{n}" for n in range(20)))
    arrivals = [arriving(desk.keys, f"shop.p{n}", f"kurly.c{n}", ended()) for n in range(RELAY_BATCH)]
    return desk.transitions.run([(desk.keys, arrivals)])


async def cancel_children(desk: Desk) -> Awaitable[Any]:
    held = await desk.start("parent")
    ids = [f"shop.c{n}" for n in range(RELAY_BATCH)]
    await spawn(desk, held, *(child_of(child, order_key=f"o-{child}", limit_key="l") for child in ids))
    return desk.transitions.run([(desk.keys, [call.cancel(desk.keys, key=child[5:], more=b"") for child in ids])])


async def read_the_outbox(desk: Desk) -> Awaitable[Any]:
    held = await desk.start("parent")
    for page in pages([child_of(f"kurly.c{n}") for n in range(200)]):
        await spawn(desk, held, *page)
    return Relay(desk.transitions).read(desk.keys)


async def beat(desk: Desk) -> Awaitable[Any]:
    await desk.store.command("EVAL", FILL, 0, desk.keys.prefix, MOST_HELD + 200, 1)
    owner = "research.host.0.0123456789abcdef"
    nonces = [word.decode() for word in await desk.store.command("SMEMBERS", desk.keys.holds(owner))]
    return desk.transitions.beat([(desk.keys, nonces[:MOST_HELD])], owner)


async def tick(desk: Desk) -> Awaitable[Any]:
    definition = b'{"name":"n"}'
    await desk.transitions.schedule(desk.keys, "n", "", definition, 0)
    moves = [Move(n, n, n + 1) for n in range(TICK_BATCH)]
    options: dict[str, Any] = {"delay_seconds": 3600, "order_key": "o", "limit_key": "l", "keep_seconds": 9.0}
    ticks = [
        Tick("n", mark_of(definition), move, desk.job(f"n-{move.tick_ms}", priority="low", **options), "f")
        for move in moves
    ]
    return desk.transitions.tick(desk.keys, ticks)


async def tally_many_platforms(desk: Desk) -> Awaitable[Any]:
    desks = [Desk(desk.store, f"p{n}") for n in range(MOST_PLATFORMS)]
    for each in desks:
        await each.submit("a", "b")
        await each.complete((await each.claim())[0])
    return desk.transitions.tally([each.keys for each in desks])


Worst = Callable[[Desk], Awaitable[Awaitable[Any]]]
WORST: list[Worst] = [
    spawn_here,
    spawn_with_options,
    join_a_page,
    arrive_at_many_parents,
    cancel_children,
    read_the_outbox,
    take_over,
    forget_failed,
    forget_completed,
    forget_past_many_that_are_kept,
    forget_after_the_clock_was_ahead,
    mend_running,
    mend_without_leases,
    mend_many_platforms,
    enlist,
    beat,
    tick,
    tally_many_platforms,
    wake,
    claim_where_much_is_due,
    claim_after_the_clock_was_set_back,
    claim_released,
    claim_what_cannot_start,
    settle_failures_and_claim,
    settle_completions_and_claim,
    report_and_claim,
    submit_plain,
    submit_with_options,
]
