"""Operations: built by name, so that no argument is forgotten, misspelt or put in the wrong place."""

import pytest

from tailrace.streams.functions import functions
from tailrace.streams.keys import JOB_KEYS, PlatformKeys
from tailrace.streams.operations import Again, Operation, call

KEYS = PlatformKeys("kurly")


def test_arguments_are_put_in_the_order_of_the_header() -> None:
    operation = call.complete(KEYS, event=b"e", nonce="n", key="a")
    assert operation == Operation("complete", (KEYS.record("a"), KEYS.log("a")), ("a", "n", b"e"))
    assert operation.named == {"key": "a", "nonce": "n", "event": b"e"}


def test_a_transition_of_a_whole_platform_takes_no_keys() -> None:
    assert call.pause(by="ann") == Operation("pause", (), ("ann",))
    assert call.resume() == Operation("resume", (), ())


def test_a_missing_argument_is_named() -> None:
    with pytest.raises(TypeError, match=r"complete\(\) missing 1 required keyword-only argument: 'event'"):
        call.complete(KEYS, key="a", nonce="n")


def test_an_unknown_argument_is_named() -> None:
    with pytest.raises(TypeError, match=r"resume\(\) got an unexpected keyword argument 'by'"):
        call.resume(by="ann")


def test_positions_are_refused() -> None:
    with pytest.raises(TypeError, match="positional argument"):
        call.complete(KEYS, "a", "n", b"e")


@pytest.mark.parametrize("name", functions())
def test_each_transition_can_be_built_from_its_header(name: str) -> None:
    function = functions()[name]
    args = {arg: f"<{arg}>" for arg in function.args}
    operation = getattr(call, name)(*([KEYS] if function.job_keys else []), **args)
    assert operation.named == args
    assert operation.keys == tuple(getattr(KEYS, key)("<key>") for key in function.job_keys)
    assert set(function.job_keys) <= set(JOB_KEYS)


def test_failures_and_delays_share_what_they_say_of_the_time_until_then() -> None:
    assert Again(1.5, 3, 100, "skip").rest == {"max_starts": 100, "delay_ms": 1500, "order": "skip"}
