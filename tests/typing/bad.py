"""What mypy must refuse: each line with an `expect` names the error it must give."""

from msgspec import Struct

from consumers import Attempt, Handlers

handles = Handlers()


class Wanted(Struct):
    count: int


@handles("plain")  # expect: type-var
def plain(attempt: Attempt[Wanted]) -> int:
    return 1


@handles("no attempt")  # expect: type-var
async def nothing() -> None: ...


@handles("typed")
async def typed(attempt: Attempt[Wanted]) -> None:
    attempt.args.size  # expect: attr-defined
    await attempt.progress(1.5)  # expect: arg-type
    await attempt.progress(1, of="five")  # expect: arg-type
    attempt.progress(1)  # expect: unused-coroutine
