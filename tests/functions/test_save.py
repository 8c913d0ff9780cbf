"""save: what a step gave is kept once, and only for the attempt that owns the job."""

from tailrace.streams.messages import Claim
from tailrace.streams.operations import call, word
from tests.support.builders import NOBODY, Desk, forget_scripts, untouched


async def test_what_a_step_gave_is_kept(desk: Desk) -> None:
    held = await desk.start()
    assert await desk.transitions.save(desk.keys, "a", held.nonce, "fetch", b"[1,2]") == "saved"
    assert await desk.transitions.recall(desk.keys, "a", held.nonce) == ("", {"fetch": b"[1,2]"})


async def test_the_first_one_counts(desk: Desk) -> None:
    held = await desk.start()
    await desk.transitions.save(desk.keys, "a", held.nonce, "fetch", b"1")
    async with untouched(desk.store):
        assert await desk.transitions.save(desk.keys, "a", held.nonce, "fetch", b"2") == "again"


async def test_the_bytes_of_all_steps_of_a_job_are_bounded(desk: Desk) -> None:
    async def save(held: Claim, name: str, value: bytes) -> str:
        saving = call.save(desk.keys, key="a", nonce=held.nonce, most=100, name=name, value=value)
        return word((await desk.transitions.commit(desk.keys, [saving]))[0])

    held = await desk.start()
    assert await save(held, "first", b"x" * 50) == "saved"
    async with untouched(desk.store):
        assert await save(held, "large", b"x" * 50) == "full"
        assert await save(held, "first", b"x" * 50) == "again", "a call that is repeated is answered as before"
    assert await save(held, "small", b"x" * 40) == "saved"
    assert (await desk.record("a")).step_bytes == 100
    await desk.reclaim(held)
    (held,) = await desk.claim("bob")
    async with untouched(desk.store):
        assert await save(held, "more", b"") == "full", "a later attempt begins with what is there"
    assert await desk.transitions.recall(desk.keys, "a", held.nonce) == ("", {"first": b"x" * 50, "small": b"x" * 40})


async def test_nothing_is_kept_for_a_job_whose_record_is_gone(desk: Desk) -> None:
    held = await desk.start()
    await desk.store.command("DEL", desk.keys.record("a"))
    assert await desk.transitions.save(desk.keys, "a", held.nonce, "fetch", b"1") == "lost"
    assert not await desk.store.command("EXISTS", desk.keys.record("a"), desk.keys.steps("a"))


async def test_only_the_current_attempt_saves(desk: Desk) -> None:
    old = await desk.start()
    await desk.reclaim(old)
    (new,) = await desk.claim("bob")
    async with untouched(desk.store):
        for nonce in (old.nonce, NOBODY, ""):
            assert await desk.transitions.save(desk.keys, "a", nonce, "fetch", b"1") == "lost"
    assert await desk.transitions.save(desk.keys, "a", new.nonce, "fetch", b"2") == "saved"
    await desk.complete(new)
    async with untouched(desk.store):
        assert await desk.transitions.save(desk.keys, "a", new.nonce, "later", b"3") == "lost"


async def test_an_attempt_that_is_asked_to_stop_saves_nothing(desk: Desk) -> None:
    held = await desk.start()
    await desk.cancel("a")
    async with untouched(desk.store):
        assert await desk.transitions.save(desk.keys, "a", held.nonce, "fetch", b"1") == "cancelled"


async def test_a_step_is_kept_after_the_server_forgot_the_script(desk: Desk) -> None:
    held = await desk.start()
    await forget_scripts(desk.store)
    assert await desk.transitions.save(desk.keys, "a", held.nonce, "fetch", b"1") == "saved"
