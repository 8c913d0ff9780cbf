"""checkpoint: a value of a running attempt takes the place of the one before, and only under the fence."""

from tests.support.builders import Desk, forget_scripts, untouched
from tests.support.flowing import checkpoint


async def test_the_last_value_counts(desk: Desk) -> None:
    held = await desk.start()
    assert await checkpoint(desk, held, "~c", b"1") == "saved"
    assert await checkpoint(desk, held, "~c", b"23") == "saved"
    assert await desk.transitions.recall(desk.keys, "a", held.nonce) == ("", {"~c": b"23"})
    assert (await desk.record("a")).step_bytes == 4


async def test_it_counts_among_the_bytes_of_steps(desk: Desk) -> None:
    held = await desk.start()
    assert await checkpoint(desk, held, "~c", b"12345678", most=10) == "saved"
    assert await checkpoint(desk, held, "~c", b"87654321", most=10) == "saved"
    async with untouched(desk.store):
        assert await checkpoint(desk, held, "~c", b"123456789", most=10) == "full"


async def test_only_the_current_attempt_moves_it(desk: Desk) -> None:
    old = await desk.start()
    await checkpoint(desk, old, "~c", b"1")
    await desk.reclaim(old)
    (new,) = await desk.claim("bob")
    async with untouched(desk.store):
        assert await checkpoint(desk, old, "~c", b"2") == "lost"
    await desk.cancel("a")
    async with untouched(desk.store):
        assert await checkpoint(desk, new, "~c", b"2") == "cancelled"


async def test_a_value_is_kept_after_the_server_forgot_the_script(desk: Desk) -> None:
    held = await desk.start()
    await forget_scripts(desk.store)
    assert await checkpoint(desk, held, "~c", b"1") == "saved"
