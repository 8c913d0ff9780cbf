"""configure: a policy is written over the one that its writer has read, or not at all."""

from tailrace.streams.store.connection import Store
from tests.support.builders import Desk, forget_scripts, untouched


async def rules(desk: Desk) -> tuple[str, str, str]:
    found = await desk.store.command("HMGET", desk.keys["policy"], "version", "rules", "declared")
    version, rules, declared = ((each or b"").decode() for each in found)
    return version, rules, declared


async def test_versions_count_from_one(desk: Desk) -> None:
    assert await desk.transitions.configure(desk.keys, 0, b'{"rate":1}') == "1"
    assert await desk.transitions.configure(desk.keys, 1, b'{"rate":2}') == "2"
    assert await rules(desk) == ("2", '{"rate":2}', "")


async def test_a_writer_that_has_not_read_the_last_version_changes_nothing(desk: Desk) -> None:
    await desk.transitions.configure(desk.keys, 0, b"a")
    await desk.transitions.configure(desk.keys, 1, b"b")
    async with untouched(desk.store):
        for before in (0, 1, 3):
            assert await desk.transitions.configure(desk.keys, before, b"c") == "changed"


async def test_the_same_again_after_a_lost_answer_is_one_change(desk: Desk) -> None:
    await desk.transitions.configure(desk.keys, 0, b"a", "file")
    async with untouched(desk.store):
        assert await desk.transitions.configure(desk.keys, 0, b"a", "file") == "1"


async def test_what_a_file_said_stays_when_a_policy_is_changed_by_hand(desk: Desk) -> None:
    await desk.transitions.configure(desk.keys, 0, b"a", "file")
    await desk.transitions.configure(desk.keys, 1, b"b")
    assert await rules(desk) == ("2", "b", "file")


async def test_a_policy_is_written_after_the_server_forgot_the_script(store: Store, desk: Desk) -> None:
    await forget_scripts(store)
    assert await desk.transitions.configure(desk.keys, 0, b"a") == "1"
