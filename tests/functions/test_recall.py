"""recall: a later attempt knows what the steps before it gave, and nobody else is told."""

from tailrace.streams.operations import call
from tailrace.streams.replies import to_steps
from tests.support.builders import NOBODY, Desk, forget_scripts


async def test_a_later_attempt_knows_what_was_saved(desk: Desk) -> None:
    held = await desk.start()
    for name, value in (("one", b"1"), ("two", b'{"a": 2}')):
        await desk.transitions.save(desk.keys, "a", held.nonce, name, value)
    await desk.reclaim(held)
    (held,) = await desk.claim("bob")
    assert await desk.transitions.recall(desk.keys, "a", held.nonce) == ("", {"one": b"1", "two": b'{"a": 2}'})


async def test_what_was_saved_outlives_the_end_and_is_there_when_the_job_is_reopened(desk: Desk) -> None:
    held = await desk.start()
    await desk.transitions.save(desk.keys, "a", held.nonce, "one", b"1")
    await desk.fail(held)
    assert await desk.transitions.recall(desk.keys, "a", held.nonce) is None
    await desk.transitions.reopen(desk.keys, "a")
    (held,) = await desk.claim()
    assert await desk.transitions.recall(desk.keys, "a", held.nonce) == ("", {"one": b"1"})


async def test_nobody_else_is_told(desk: Desk) -> None:
    old = await desk.start()
    await desk.release(old)
    await desk.claim("bob")
    for nonce in (old.nonce, NOBODY):
        assert await desk.transitions.recall(desk.keys, "a", nonce) is None


async def test_a_dropped_job_leaves_no_steps(desk: Desk) -> None:
    held = await desk.start()
    await desk.transitions.save(desk.keys, "a", held.nonce, "one", b"1")
    await desk.fail(held)
    assert await desk.transitions.drop(desk.keys, "a") == "ok"
    assert await desk.store.command("EXISTS", desk.keys.steps("a")) == 0


async def test_steps_are_told_after_the_server_forgot_the_script(desk: Desk) -> None:
    held = await desk.start()
    await forget_scripts(desk.store)
    assert await desk.transitions.recall(desk.keys, "a", held.nonce) == ("", {})


async def test_steps_are_told_in_parts_of_about_a_megabyte(desk: Desk) -> None:
    held = await desk.start()
    value = b'"' + b"x" * 400_000 + b'"'
    saved = {f"step-{number}": value for number in range(12)} | {f"small-{number}": b"1" for number in range(3000)}
    for name, result in saved.items():
        await desk.transitions.save(desk.keys, "a", held.nonce, name, result)
    cursor, found, calls = "0", dict[str, bytes](), 0
    while cursor:
        other = call.recall(desk.keys, key="a", nonce=held.nonce, cursor="0")
        answers = await desk.transitions.commit(
            desk.keys, [call.recall(desk.keys, key="a", nonce=held.nonce, cursor=cursor), other]
        )
        assert sum(len(word) for answer in answers for word in answer) < 3 * 1024 * 1024
        part = to_steps(answers[0])
        assert part
        cursor, steps = part
        found |= steps
        calls += 1
    assert found == saved
    assert calls >= 4
