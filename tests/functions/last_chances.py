"""Jobs on their last chance, and claims that say which jobs run beside them."""

from tailrace.streams.messages import Claim
from tailrace.streams.replies import to_claims
from tests.support.builders import Desk


async def ask(desk: Desk, owner: str, slots: int, company: str) -> tuple[str, list[str]]:
    """What the store says to a claim, and the jobs that it gives."""
    desk.company = company
    (answer,) = await desk.transitions.commit(desk.keys, [desk.claiming(owner, desk.nonces(owner, slots))])
    return answer[1].decode(), [held.key for held in to_claims(answer)]


async def lose_twice(desk: Desk, *keys: str) -> None:
    """Bring jobs to their last chance."""
    await desk.submit(*keys)
    for _ in range(2):
        running: list[Claim] = []
        while len(running) < len(keys):
            running += await desk.claim("gone", len(keys))
        for held in running:
            assert await desk.reclaim(held) == "reclaimed"
