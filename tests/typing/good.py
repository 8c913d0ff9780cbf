"""What mypy must accept: handlers as users write them."""

from typing import Any

from msgspec import Struct

from consumers import Attempt, Handlers

handles = Handlers()


class Wanted(Struct):
    count: int


class Found(Struct):
    total: int


@handles("typed")
async def typed(attempt: Attempt[Wanted]) -> Found:
    await attempt.progress(1, of=attempt.args.count, message="one", data={"any": ["json"]})
    await attempt.progress("named step")
    key: str = attempt.idempotency_key("pay")
    return Found(attempt.args.count + attempt.number + len(key) + len(attempt.job.id))


@handles("loose")
async def loose(attempt: Attempt[dict[str, Any]]) -> dict[str, Any]:
    return {"fence": attempt.fence, **attempt.args}
