"""A claim and its answer."""

from tailrace.streams.messages import Claim
from tailrace.streams.replies import to_claims
from tests.support.builders import Desk


async def ask(desk: Desk, slots: int = 9, owner: str = "ann") -> tuple[list[Claim], int | None]:
    """A claim, and in how many milliseconds it says to come again."""
    (answer,) = await desk.transitions.commit(desk.keys, [desk.claiming(owner, desk.nonces(owner, slots))])
    return to_claims(answer), int(answer[0]) if answer[0] else None


def keys_of(claims: list[Claim]) -> list[str]:
    return [held.key for held in claims]
