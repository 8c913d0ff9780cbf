"""No text of a handler ends a process: what cannot be written is the answer to that call alone."""

import asyncio
from typing import Any

import pytest
from msgspec import Struct, to_builtins

from tailrace.consumers import Attempt, Delay, GiveUp, Handlers, SyncAttempt
from tailrace.consumers.outcomes import failure_of
from tailrace.streams.messages import encode
from tailrace.streams.operations import call
from tests.consumers.conftest import Bench, serving
from tests.support.builders import Desk
from tests.support.committing import committing

HALF = "half a pair: \ud800"
LONG = "x" * 1_100_000


class Liar(str):
    """Text that hides what is in it."""

    def isascii(self) -> bool:
        return True


class Naming(type):
    """Of a class that cannot tell its own name."""

    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("no name")


class Nameless(Exception, metaclass=Naming):
    pass


class Halved(type):
    __name__ = HALF


class HalfNamed(Exception, metaclass=Halved):
    pass


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Late(Delay):
    """A delay whose length was changed after it was checked."""

    def __init__(self, seconds: Any) -> None:
        super().__init__(1)
        self.seconds = seconds


class Odd(Struct):
    which: str
    what: str = ""


mine = Handlers()


@mine("fine")
async def fine(attempt: Attempt[Any]) -> str:
    return await attempt.step("a\x00 b", lambda: "fine\x00")


STEPS = {
    "half": (HALF, 1),
    "liar": (Liar(HALF), 1),
    "result-half": ("name", HALF),
    "result-long": ("name", LONG),
    "result-object": ("name", object()),
}


@mine("step")
async def step(attempt: Attempt[Odd]) -> Any:
    name, result = STEPS[attempt.args.which]
    return await attempt.step(name, lambda: result)


REPORTS: dict[str, dict[str, Any]] = {
    "half": {"step": HALF},
    "liar": {"step": Liar(HALF)},
    "message-half": {"step": 1, "message": HALF},
    "message-liar": {"step": 1, "message": Liar(HALF)},
    "message-long": {"step": 1, "message": LONG},
    "data-half": {"step": 1, "data": {HALF: HALF}},
}


@mine("report")
async def report(attempt: Attempt[Odd]) -> None:
    await attempt.progress(**REPORTS[attempt.args.which])


RAISED = {
    "half": LookupError(HALF),
    "long": GiveUp(LONG),
    "nameless": Nameless("nameless"),
    "half-named": HalfNamed(HALF),
    "mute": Mute(),
    "late-words": Late("soon"),
    "late-nan": Late(float("nan")),
}


@mine("raise")
async def raise_it(attempt: Attempt[Odd]) -> None:
    raise RAISED[attempt.args.which]


@mine("return")
async def return_it(attempt: Attempt[Odd]) -> Any:
    return {"half": HALF, "long": LONG, "liar": Liar(HALF), "object": object()}[attempt.args.which]


def plain(attempt: SyncAttempt[Odd]) -> Any:
    what, which = attempt.args.what, attempt.args.which
    if what == "report":
        attempt.progress(**REPORTS[which])
    elif what == "raise":
        raise RAISED[which]
    return {"half": HALF, "long": LONG}.get(which)


mine("thread", run_in="thread")(plain)
mine("process", run_in="process")(plain)

RETURNED = ("half", "long")
ODD = [
    *(("step", Odd(which)) for which in STEPS),
    *(("report", Odd(which)) for which in REPORTS),
    *(("raise", Odd(which)) for which in RAISED),
    *(("return", Odd(which)) for which in (*RETURNED, "liar", "object")),
    *(
        (place, Odd(which, what))
        for place in ("thread", "process")
        for what, cases in (("report", REPORTS), ("raise", RAISED), ("return", RETURNED))
        for which in cases
    ),
]


async def test_whatever_a_handler_says_only_its_own_attempt_fails(bench: Bench) -> None:
    async with serving(bench.store, mine):
        jobs = [(kind, args, await bench.submit(kind, to_builtins(args), attempts=1)) for kind, args in ODD]
        for kind, args, job in jobs:
            last = (await bench.end_of(job))[-1]
            assert last.status == "failed", (kind, args, last)
            assert last.error, (kind, args)
            assert last.error.type not in {"WorkerProcessDied", "WorkerLost"}, (kind, args, last.error)
        assert (await bench.end_of(await bench.submit("fine")))[-1].result == "fine\x00"


def test_an_exception_that_cannot_be_described_is_described() -> None:
    for error in RAISED.values():
        assert encode(failure_of(error))


async def test_an_error_of_an_odd_type_is_bounded() -> None:
    failure = failure_of(type("E" * 100_000, (Exception,), {})())
    assert len(failure.type) <= 200


@pytest.mark.parametrize("odd", [HALF, object(), None])
async def test_an_operation_that_cannot_be_packed_is_answered_alone(bench: Bench, odd: Any) -> None:
    desk = Desk(bench.store, "many")
    first, second = await desk.start("a"), await desk.start("b")
    async with committing(desk) as committer:
        answers = [
            committer.ask(call.save(desk.keys, key=first.key, nonce=first.nonce, most=100, name=odd, value=b"1")),
            committer.ask(call.save(desk.keys, key=first.key, nonce=first.nonce, most=100, name="good", value=b"1")),
            committer.ask(call.save(desk.keys, key=second.key, nonce=second.nonce, most=100, name="good", value=b"1")),
        ]
        async with asyncio.timeout(10):
            refused, *others = await asyncio.gather(*answers)
    assert refused[0] == b"error"
    assert others == [b"saved", b"saved"]


async def test_two_steps_of_one_name_do_not_run_side_by_side(bench: Bench) -> None:
    mine = Handlers()
    calls = []

    async def slow(name: str) -> str:
        calls.append(name)
        await asyncio.sleep(0.05)
        return name

    @mine("twice", backoff=lambda failures: 0.01)
    async def twice(attempt: Attempt[Any]) -> Any:
        both = await asyncio.gather(
            attempt.step("same", slow, "first"), attempt.step("same", slow, "second"), return_exceptions=True
        )
        others = await asyncio.gather(*(attempt.step(f"step {number}", slow, str(number)) for number in range(3)))
        if attempt.number == 1:
            raise RuntimeError("once more")
        return [*map(str, both), *others]

    async with serving(bench.store, mine):
        last = (await bench.end_of(await bench.submit("twice")))[-1]
    assert calls == ["first", "0", "1", "2"]
    refusal = "step 'same' is used twice in this attempt; give each step its own name, such as 'same 2'"
    assert last.result == ["first", refusal, "0", "1", "2"]
