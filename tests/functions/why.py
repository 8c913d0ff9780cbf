"""Ask why a job waits."""

from collections.abc import Awaitable, Callable

from tailrace.streams.policies import Platforms
from tailrace.streams.replies import read_job
from tailrace.streams.views.presence import Presence
from tailrace.streams.waiting.explain import WaitExplainer
from tailrace.streams.waiting.reasons import WhyWaiting
from tests.support.builders import Desk

Why = Callable[[str], Awaitable[WhyWaiting]]


def watching(desk: Desk) -> WaitExplainer:
    platforms = Platforms({desk.keys.platform: desk.policy})
    return WaitExplainer(desk.transitions, platforms, Presence(desk.transitions, platforms))


def asking(desk: Desk) -> Why:
    """Ask about jobs of a platform, which a consumer serves."""
    explainer = watching(desk)

    async def why(key: str) -> WhyWaiting:
        record, events = await read_job(desk.store, desk.keys, key, first=-2)
        due = await desk.store.command("ZSCORE", desk.keys["due"], key)
        waiting = await explainer.explain(desk.keys, record, None if due is None else float(due), events)
        assert waiting is not None
        return waiting

    return why


async def served(desk: Desk) -> Why:
    await desk.beat("ann")
    return asking(desk)
