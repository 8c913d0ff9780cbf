"""save: what a step gave is kept once, and only for the attempt that owns the job."""

from tests.support.builders import NOBODY, Desk, forget_scripts, untouched


async def test_what_a_step_gave_is_kept(desk: Desk) -> None:
    held = await desk.start()
    assert await desk.transitions.save(desk.keys, "a", held.nonce, "fetch", b"[1,2]") == "saved"
    assert await desk.transitions.recall(desk.keys, "a", held.nonce) == {"fetch": b"[1,2]"}


async def test_the_first_one_counts(desk: Desk) -> None:
    held = await desk.start()
    await desk.transitions.save(desk.keys, "a", held.nonce, "fetch", b"1")
    async with untouched(desk.store):
        assert await desk.transitions.save(desk.keys, "a", held.nonce, "fetch", b"2") == "again"


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
