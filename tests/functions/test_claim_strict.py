"""claim: strict order of a platform, and platforms of one lane that run one at a time together."""

import pytest
from msgspec.structs import replace

from tailrace.streams.keys import BANDS
from tailrace.streams.messages import Claim
from tailrace.streams.replies import to_claims
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tests.functions.claims import keys_of
from tests.functions.last_chances import ask, lose_twice
from tests.support.builders import Desk, in_lane
from tests.support.eventually import eventually

HOUR = 3600.0


@pytest.fixture
def strict(store: Store) -> Desk:
    return Desk(store, max_running=1, order="strict")


async def put_off(desk: Desk, held: Claim, how: str, seconds: float = HOUR) -> None:
    if how == "delay":
        assert await desk.delay(held, seconds) == "ok"
    else:
        assert await desk.fail(held, attempts=9, seconds=seconds, order="strict") == "retrying"


@pytest.mark.parametrize("how", ["fail", "delay"])
async def test_nothing_starts_before_a_job_that_waits_for_another_attempt(strict: Desk, how: str) -> None:
    await strict.submit("a", band="low")
    (held,) = await strict.claim()
    await put_off(strict, held, how)
    await strict.submit("b")
    await strict.submit("c", band="urgent")
    await strict.submit("pushed", first=True)
    assert await strict.claim("bob") == []
    await strict.past_due("a")
    (again,) = await strict.claim("bob", 9)
    assert (again.key, again.number) == ("a", 2)
    await strict.complete(again)
    assert keys_of(await strict.claim("bob")) == ["pushed"]


@pytest.mark.parametrize("how", ["release", "reclaim"])
async def test_a_recovered_job_goes_before_every_priority(strict: Desk, how: str) -> None:
    await strict.submit("a", band="low")
    (held,) = await strict.claim()
    await strict.submit("c", band="urgent")
    await getattr(strict, how)(held)
    assert keys_of(await strict.claim("bob")) == ["a"]


async def test_one_that_was_submitted_with_a_delay_holds_up_no_other(strict: Desk) -> None:
    await strict.submit("later", delay_seconds=HOUR)
    await strict.submit("b")
    assert keys_of(await strict.claim()) == ["b"]


async def test_by_default_others_pass_a_job_that_waits_for_its_retry(shop: Desk) -> None:
    await shop.submit("a", "b")
    (held,) = await shop.claim()
    await shop.fail(held, attempts=9, seconds=HOUR)
    assert keys_of(await shop.claim()) == ["b"]


async def test_the_others_go_on_and_their_consumers_wake_when_the_one_before_them_is_cancelled(strict: Desk) -> None:
    await strict.submit("a", "b")
    (held,) = await strict.claim()
    await put_off(strict, held, "fail")
    assert await strict.claim("bob") == []
    assert await strict.idle() == ["bob"]
    assert await strict.cancel("a") == "ok"
    assert await strict.called() == ["bob"]
    assert keys_of(await strict.claim("bob")) == ["b"]
    assert await strict.leftovers() == []


@pytest.mark.parametrize("end", ["fail", "complete", "starts"])
async def test_an_end_leaves_nothing_behind_that_holds_up_others(strict: Desk, end: str) -> None:
    await strict.submit("a", "b")
    (held,) = await strict.claim()
    await put_off(strict, held, "fail", 0)
    (held,) = await strict.claim()
    if end == "starts":
        strict.policy = replace(strict.policy, attempts=1, max_starts=2)
        assert await strict.delay(held, 0) == "failed"
    else:
        await getattr(strict, end)(held)
    assert keys_of(await strict.claim()) == ["b"]
    assert await strict.leftovers() == []


async def test_a_job_that_is_gone_holds_up_no_other(strict: Desk) -> None:
    await strict.submit("a", "b")
    (held,) = await strict.claim()
    await put_off(strict, held, "fail")
    await strict.store.command("DEL", strict.keys.record("a"))
    assert keys_of(await strict.claim()) == ["b"]


async def test_the_one_before_all_others_starts_although_the_groups_were_destroyed(strict: Desk) -> None:
    await strict.submit("a", "b")
    (held,) = await strict.claim()
    await put_off(strict, held, "fail")
    await strict.destroy_groups()
    assert await strict.claim() == []
    await strict.past_due("a")
    (again,) = await strict.claim()
    assert again.key == "a"
    await strict.complete(again)
    assert keys_of(await strict.claim()) == ["b"]


async def test_where_several_run_at_a_time_all_wait_for_those_before_them(store: Store) -> None:
    desk = Desk(store, max_running=3, order="strict")
    await desk.submit("a", "b", "c", "d", "e")
    first, second, third = await desk.claim("ann", 3)
    await put_off(desk, first, "fail")
    await put_off(desk, second, "fail")
    assert await desk.claim("bob", 9) == []
    await desk.past_due("b")
    assert keys_of(await desk.claim("bob", 9)) == ["b"], "and a still rests"
    await desk.past_due("a")
    await desk.complete(third)
    await desk.asleep("cid")
    assert keys_of(await desk.claim("bob", 1)) == ["a"]
    assert await desk.called() == ["cid"], "another job may start now"
    assert keys_of(await desk.claim("cid", 9)) == ["d"]


async def test_a_platform_that_is_strict_no_longer_forgets_who_was_first(strict: Desk) -> None:
    await strict.submit("a", "b")
    (held,) = await strict.claim()
    await put_off(strict, held, "fail")
    strict.policy = replace(strict.policy, order="block")
    (other,) = await strict.claim()
    assert other.key == "b"
    await strict.complete(other)
    await strict.past_due("a")
    (again,) = await strict.claim()
    assert await strict.complete(again) == "ok"
    assert await strict.leftovers() == []


def lane(store: Store, *names: str, max_running: int = 1) -> list[Desk]:
    desks = [Desk(in_lane(store, *names), name, max_running=max_running) for name in names]
    for desk in desks:
        desk.siblings = tuple(name for name in names if name != desk.keys.platform)
    return desks


async def test_platforms_of_a_lane_run_one_at_a_time_over_all_owners(store: Store) -> None:
    pages, products = lane(store, "pages", "products")
    await pages.submit("a")
    await products.submit("b")
    (held,) = await pages.claim("ann")
    assert await products.claim("bob") == []
    await pages.complete(held)
    (held,) = await products.claim("bob")
    await pages.submit("c")
    assert await pages.claim("ann") == []
    await products.release(held)
    assert keys_of(await pages.claim("ann")) == ["c"]


@pytest.mark.parametrize("end", ["complete", "fail", "delay", "release", "reclaim"])
async def test_whatever_frees_the_slot_of_a_lane_calls_a_consumer_of_each_of_its_platforms(
    store: Store, end: str
) -> None:
    pages, products, prices = lane(store, "pages", "products", "prices")
    await pages.submit("a")
    await products.submit("b")
    (held,) = await pages.claim("ann")
    assert await products.claim("bob") == []
    await prices.asleep("cid")
    await (pages.delay(held, HOUR) if end == "delay" else getattr(pages, end)(held))
    assert (await products.called(), await prices.called()) == (["bob"], ["cid"])


async def end_and_claim(desk: Desk, held: Claim, owner: str) -> list[Claim]:
    """End a job and claim the next in one call, as a consumer does."""
    batch = [desk.completing(held), desk.claiming(owner, desk.nonces(owner, 1))]
    return to_claims((await desk.transitions.commit(desk.keys, batch))[1])


async def test_the_platform_of_a_lane_that_waits_longest_has_the_next_turn(store: Store) -> None:
    """A consumer that ends one job and claims the next in one call does not keep the lane for its own platform."""
    desks = lane(store, "pages", "products", "prices")
    pages, products, prices = desks
    for desk in desks:
        await desk.submit("a", "b")
    (held,) = await pages.claim("ann")
    assert await prices.claim("cid") == []
    assert await products.claim("bob") == []
    assert await end_and_claim(pages, held, "ann") == []
    assert await products.claim("bob") == [], "prices waits longer"
    (held,) = await prices.claim("cid")
    assert await end_and_claim(prices, held, "cid") == []
    (held,) = await products.claim("bob")
    assert await end_and_claim(products, held, "bob") == []
    (held,) = await pages.claim("ann")
    assert held.key == "b"


async def test_where_no_other_platform_of_a_lane_waits_a_consumer_goes_on_at_once(store: Store) -> None:
    pages, products = lane(store, "pages", "products")
    await pages.submit("a", "b")
    (held,) = await pages.claim("ann")
    assert await products.claim("bob") == [], "there is nothing, so it has no turn to wait for"
    assert keys_of(await end_and_claim(pages, held, "ann")) == ["b"]


async def test_a_turn_that_no_consumer_comes_for_passes_within_a_moment(store: Store) -> None:
    pages, products = lane(store, "pages", "products")
    await pages.submit("a", "b", "c")
    await products.submit("x")
    (held,) = await pages.claim("ann")
    assert await products.claim("bob") == []  # and never again
    await pages.complete(held)
    (answer,) = await pages.transitions.commit(pages.keys, [pages.claiming("ann", pages.nonces("ann", 1))])
    assert (to_claims(answer), int(answer[0])) == ([], 250)

    async def goes_on() -> list[Claim]:
        return await pages.claim("ann")

    held = (await eventually("pages goes on", goes_on) or [held])[0]
    assert held.key == "b"
    assert keys_of(await end_and_claim(pages, held, "ann")) == ["c"], "it is waited for once"


async def test_a_lane_of_two_lets_two_run(store: Store) -> None:
    pages, products = lane(store, "pages", "products", max_running=2)
    await pages.submit("a", "b", "c")
    await products.submit("x")
    assert keys_of(await pages.claim("ann", 1)) == ["a"]
    assert keys_of(await products.claim("bob", 9)) == ["x"]
    assert await pages.claim("ann", 9) == []


async def test_a_platform_that_left_its_lane_wakes_the_others_no_longer(store: Store) -> None:
    pages, products = lane(store, "pages", "products")
    held = await pages.start("a")
    await pages.complete(held)
    pages.siblings = ()
    held = await pages.start("b")
    await products.asleep("bob")
    await pages.complete(held)
    assert await products.called() == []
    assert (await pages.record("b")).state is State.COMPLETED
    assert [await pages.line(band) for band in BANDS] == [[], [], [], []]


async def test_a_busy_consumer_sleeps_while_another_becomes_empty_for_the_first_job(store: Store) -> None:
    """The job waits for a process that runs nothing else: a consumer that cannot take it must not ask again at once."""
    desk = Desk(store, order="strict")
    for owner in ("ann", "bob"):
        await desk.beat(owner)
    await lose_twice(desk, "suspect")
    await desk.submit("behind")
    assert await ask(desk, "ann", 3, "some") == ("empty", [])
    (answer,) = await desk.transitions.commit(desk.keys, [desk.claiming("bob", desk.nonces("bob", 3))])
    assert answer == [b"", b""]
    assert await ask(desk, "ann", 3, "locked") == ("alone", ["suspect"])
    assert await store.command("LLEN", desk.keys.bell("bob")) == 1
    assert await ask(desk, "bob", 3, "some") == ("", ["behind"])


async def test_the_next_job_starts_at_once_when_the_one_before_it_ends_because_its_entry_is_gone(strict: Desk) -> None:
    held = await strict.start("a")
    await strict.release(held)
    await strict.submit("b")
    (entry,) = await strict.store.command("XRANGE", strict.keys["jobs_normal"], "-", "+", "COUNT", 1)
    await strict.store.command("XDEL", strict.keys["jobs_normal"], entry[0])
    (answer,) = await strict.transitions.commit(strict.keys, [strict.claiming("bob", strict.nonces("bob", 1))])
    assert answer == [b"0", b""], "bob is to look again at once"
    assert (await strict.record("a")).state is State.FAILED
    assert keys_of(await strict.claim("bob")) == ["b"]


async def test_a_job_with_a_corrupt_args_key_ends_failed_and_the_next_one_starts(strict: Desk) -> None:
    await strict.submit("a", args=b"1" * 10_000)
    await strict.release((await strict.claim())[0])
    await strict.submit("b")
    await strict.store.command("DEL", strict.keys.args("a"))
    await strict.store.command("LPUSH", strict.keys.args("a"), "corrupt")
    (answer,) = await strict.transitions.commit(strict.keys, [strict.claiming("bob", strict.nonces("bob", 1))])
    assert answer == [b"0", b""], "bob is to look again at once"
    last = (await strict.history("a"))[-1]
    assert last.error is not None
    assert (last.status, last.attempt, last.error.type) == ("failed", 1, "CorruptJob")
    assert keys_of(await strict.claim("bob")) == ["b"]
    assert await strict.leftovers() == []
