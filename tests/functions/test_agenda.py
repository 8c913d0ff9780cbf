"""agenda: what is due, by the store's own clock, and when to look again."""

from tailrace.streams.keys import PlatformKeys
from tailrace.streams.operations import BrokenOperation
from tailrace.streams.schedules import Agenda, Due
from tailrace.streams.transitions import DEFINITION_BYTES, TICKS
from tests.support.builders import Desk, forget_scripts, untouched

LATER = 4_000_000_000_000  # in a hundred years


async def look(desk: Desk, passed: int = 0) -> Agenda:
    (agenda,) = await desk.transitions.agenda([(desk.keys, passed)])
    assert isinstance(agenda, Agenda)
    return agenda


async def test_an_empty_platform_has_nothing_due(desk: Desk) -> None:
    async with untouched(desk.store):
        agenda = await look(desk)
    assert (agenda.due, agenda.next_ms) == ([], None)
    seconds, _ = await desk.store.command("TIME")
    assert abs(int(seconds) - agenda.now_ms / 1000) < 60


async def test_what_is_due_comes_first_to_last_and_the_next_tick_is_told(desk: Desk) -> None:
    for name, tick in (("b", 2000), ("a", 1000), ("later", LATER)):
        await desk.transitions.schedule(desk.keys, name, "", name.encode(), tick)
    await look(desk)  # notes the time of the clock
    async with untouched(desk.store):
        agenda = await look(desk)
    assert agenda.due == [Due("a", 1000, b"a"), Due("b", 2000, b"b")]
    assert agenda.next_ms == LATER


async def test_a_look_is_bounded_in_number(desk: Desk) -> None:
    for number in range(TICKS + 1):
        await desk.transitions.schedule(desk.keys, f"n{number:03}", "", b"{}", 1000)
    agenda = await look(desk)
    assert (len(agenda.due), agenda.next_ms) == (TICKS, 1000)


async def test_a_look_is_bounded_in_bytes_and_tells_at_least_one(desk: Desk) -> None:
    for name in "abc":
        await desk.transitions.schedule(desk.keys, name, "", b"x" * (DEFINITION_BYTES // 2 + 1), 1000)
    assert [due.name for due in (await look(desk)).due] == ["a"]


async def test_a_look_can_pass_over_those_that_its_caller_cannot_read(desk: Desk) -> None:
    for name, tick in (("a", 1000), ("b", 2000), ("c", 3000), ("later", LATER)):
        await desk.transitions.schedule(desk.keys, name, "", b"{}", tick)
    agenda = await look(desk, passed=2)
    assert ([due.name for due in agenda.due], agenda.next_ms) == (["c"], LATER)
    agenda = await look(desk, passed=3)
    assert (agenda.due, agenda.next_ms) == ([], LATER)


async def test_many_platforms_are_seen_in_one_call_and_a_corrupt_one_hides_no_other(desk: Desk) -> None:
    corrupt = PlatformKeys("corrupt")
    await desk.store.command("SET", corrupt["ticks"], "corrupt")
    await desk.transitions.schedule(desk.keys, "n", "", b"{}", 1000)
    broken, agenda = await desk.transitions.agenda([(corrupt, 0), (desk.keys, 0)])
    assert isinstance(broken, BrokenOperation)
    assert isinstance(agenda, Agenda)
    assert [due.name for due in agenda.due] == ["n"]


async def test_a_tick_without_a_definition_is_told_as_it_is(desk: Desk) -> None:
    await desk.store.command("ZADD", desk.keys["ticks"], 1000, "n")
    assert (await look(desk)).due == [Due("n", 1000, b"")]


async def test_the_agenda_is_seen_after_the_server_forgot_the_script(desk: Desk) -> None:
    await forget_scripts(desk.store)
    assert (await look(desk)).due == []
