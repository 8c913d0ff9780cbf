"""beat: a consumer says that it lives, and hears what it has lost."""

from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import BeatReply
from tailrace.streams.transitions import Transitions
from tests.support.builders import Desk, differences, dump, forget_scripts


async def test_each_beat_moves_the_counter_of_its_owner_alone(desk: Desk) -> None:
    await desk.beat("ann")
    await desk.beat("ann")
    await desk.beat("bob")
    assert (await desk.look()).beats == {"ann": "2", "bob": "1"}


async def test_a_beat_changes_nothing_but_the_counters(desk: Desk) -> None:
    held = await desk.start()
    before = await dump(desk.store)
    assert await desk.beat("ann", [held]) == ([], [])
    after = await dump(desk.store)
    assert differences(before, after) == [desk.keys["beats"]]


async def test_an_owner_hears_which_of_its_attempts_are_lost(desk: Desk) -> None:
    await desk.submit("a", "b", "c")
    kept, reclaimed, ended = await desk.claim("ann", slots=3)
    await desk.reclaim(reclaimed)
    await desk.complete(ended)
    lost, stray = await desk.beat("ann", [kept, reclaimed, ended])
    assert sorted(lost) == [reclaimed.nonce, ended.nonce]
    assert stray == []


async def test_an_attempt_stays_lost_after_somebody_else_claimed_its_job(desk: Desk) -> None:
    held = await desk.start("a", "ann")
    await desk.reclaim(held)
    (again,) = await desk.claim("bob")
    assert await desk.beat("ann", [held]) == ([held.nonce], [])
    assert await desk.beat("bob", [again]) == ([], [])


async def test_an_owner_hears_which_jobs_it_owns_and_does_not_run(desk: Desk) -> None:
    await desk.submit("a", "b")
    first, second = await desk.claim("ann", slots=2)
    assert await desk.beat("ann", [first]) == ([], [("b", second.nonce)])


async def test_jobs_of_others_are_not_the_owners_strays(desk: Desk) -> None:
    await desk.start("a", "ann")
    assert await desk.beat("bob") == ([], [])
    assert await desk.beat("an") == ([], [])  # a name that begins alike is another name


async def test_one_call_beats_on_several_platforms(desk: Desk, shop: Desk) -> None:
    held = await desk.start("a")
    other = await shop.start("b")
    sheets = [(desk.keys, [held.nonce]), (shop.keys, [])]
    news = await Transitions(desk.store).beat(sheets, "ann")
    assert news == [BeatReply([], [], [], 0), BeatReply([], [("b", other.nonce)], [], 0)]
    assert (await desk.look()).beats == (await shop.look()).beats == {"ann": "1"}


async def test_a_beat_counts_after_the_server_forgot_the_script(desk: Desk) -> None:
    await desk.beat("ann")
    await forget_scripts(desk.store)
    assert await desk.beat("ann") == ([], [])
    assert (await desk.look()).beats == {"ann": "2"}


async def test_what_a_consumer_tells_of_itself_stays_until_it_tells_something_else(desk: Desk, shop: Desk) -> None:
    sheets: list[tuple[PlatformKeys, list[str]]] = [(desk.keys, []), (shop.keys, [])]
    await desk.transitions.beat(sheets, "ann", b'{"host":"one"}')
    await desk.transitions.beat(sheets, "ann")
    for each in (desk, shop):
        assert await each.store.command("HGETALL", each.keys["consumers"]) == [b"ann", b'{"host":"one"}']
    await desk.transitions.beat(sheets, "ann", b'{"host":"two"}')
    assert await desk.store.command("HGET", desk.keys["consumers"], "ann") == b'{"host":"two"}'
    assert (await desk.look()).beats == {"ann": "3"}


async def test_a_beat_counts_even_if_nothing_can_be_told(desk: Desk) -> None:
    await desk.store.command("SET", desk.keys["consumers"], "corrupt")
    await desk.transitions.beat([(desk.keys, [])], "ann", b"{}")
    assert (await desk.look()).beats == {"ann": "1"}
