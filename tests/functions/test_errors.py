"""errors: the failed jobs of a platform, counted by the type of their error."""

from tailrace.streams.messages import Errors, OfType, encode
from tailrace.streams.operations import Again, BrokenOperation
from tests.support.builders import Desk, forget_scripts, untouched


async def fail_as(desk: Desk, error: str, *keys: str) -> None:
    """Jobs that end failed with this type of error, one after the other."""
    for key in keys:
        held = await desk.start(key)
        more = b"," + encode({"error": {"type": error, "message": f'"error":{{"type":"Fake"}} {key}'}})[1:-1]
        await desk.transitions.fail(desk.keys, key, held.nonce, Again(0, 0, 100), more)


async def errors(desk: Desk, most: int = 100) -> Errors:
    (found,) = await desk.transitions.errors([desk.keys], most)
    assert not isinstance(found, BrokenOperation)
    return found


async def counts(desk: Desk) -> dict[str, int]:
    return {group.type: group.count for group in (await errors(desk)).types}


async def test_an_unused_platform_has_no_failed_jobs(desk: Desk) -> None:
    assert await errors(desk) == Errors(0, ())


async def test_failed_jobs_are_counted_by_type_with_the_newest_of_each(desk: Desk) -> None:
    await fail_as(desk, "ValueError", "z", "a")
    await fail_as(desk, "KeyError", "k")
    await fail_as(desk, "ValueError", "m")
    assert await errors(desk) == Errors(4, (OfType("KeyError", 1, "k"), OfType("ValueError", 3, "m")))


async def test_a_type_that_begins_like_another_is_a_group_of_its_own(desk: Desk) -> None:
    for error in ("A", "AB", "A B", "A1", "Ähnlich"):
        await fail_as(desk, error, f"of-{ord(error[-1])}-{len(error)}")
    assert await counts(desk) == dict.fromkeys(("A", "AB", "A B", "A1", "Ähnlich"), 1)


async def test_no_type_of_error_breaks_the_count(desk: Desk) -> None:
    """A type is text of a handler: a quote or a tab ends it, and a very long one is cut between two characters."""
    for key, error in enumerate(("", 'a"b', "a\tb", "ü" * 400, "x" * 400)):
        await fail_as(desk, error, f"job-{key}")
    assert await counts(desk) == {"": 1, "a": 2, "ü" * 24: 1, "x" * 50: 1}
    for key in range(5):
        assert await desk.transitions.drop(desk.keys, f"job-{key}") == "ok"
    assert await errors(desk) == Errors(0, ())
    assert await desk.store.command("EXISTS", desk.keys["ended_errors"]) == 0


async def test_what_the_store_itself_ends_has_its_type_too(desk: Desk) -> None:
    held = await desk.start("lost")
    for _ in range(2):
        await desk.reclaim(held)
        (held,) = await desk.claim()
    assert await desk.reclaim(held) == "failed"
    await desk.submit("late", expires_at="2020-01-01T00:00:00Z")
    await desk.transitions.wake([(desk.keys, desk.policy)])
    assert await counts(desk) == {"Expired": 1, "WorkerLost": 1}


async def test_a_job_that_is_reopened_or_forgotten_is_counted_no_longer(desk: Desk) -> None:
    await fail_as(desk, "ValueError", "a", "b", "c")
    await desk.transitions.reopen(desk.keys, "c")
    assert await counts(desk) == {"ValueError": 2}
    (held,) = await desk.claim()
    await desk.fail(held)
    assert await errors(desk) == Errors(3, (OfType("ValueError", 3, "c"),))
    forgetful = Desk(desk.store, desk.keys.platform, keep_failed_seconds=0)
    (forgotten,) = await desk.transitions.forget([(desk.keys, forgetful.policy)])
    assert forgotten.removed == 3
    assert await errors(desk) == Errors(0, ())
    assert await desk.store.command("EXISTS", desk.keys["ended_errors"]) == 0


async def test_a_job_with_its_own_time_to_be_kept_is_counted_until_then(desk: Desk) -> None:
    await desk.submit("a", keep_seconds=0)
    (held,) = await desk.claim()
    await desk.fail(held)
    assert await counts(desk) == {"ValueError": 1}
    await desk.transitions.forget([(desk.keys, desk.policy)])
    assert await desk.store.command("EXISTS", desk.keys["ended_errors"]) == 0


async def test_no_more_types_than_asked_for_and_the_total_is_of_all(desk: Desk) -> None:
    for number in range(5):
        await fail_as(desk, f"Error{number}", f"job-{number}")
    found = await errors(desk, most=3)
    assert found.failed == 5
    assert [group.type for group in found.types] == ["Error0", "Error1", "Error2"]


async def test_it_leaves_no_trace_and_a_corrupt_platform_hides_no_other(desk: Desk, shop: Desk) -> None:
    await fail_as(desk, "ValueError", "a")
    await shop.store.command("SET", shop.keys["ended_errors"], "corrupt")
    await forget_scripts(desk.store)
    async with untouched(desk.store):
        corrupt, found = await desk.transitions.errors([shop.keys, desk.keys], 10)
    assert isinstance(corrupt, BrokenOperation)
    assert found == Errors(1, (OfType("ValueError", 1, "a"),))
