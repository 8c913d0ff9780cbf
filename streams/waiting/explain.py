"""Looks at the line of a platform for a job that waits, and explains why it does."""

from collections.abc import Sequence
from contextlib import suppress

from tailrace.streams.history.events import decode_event
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Record
from tailrace.streams.operations import BrokenOperation
from tailrace.streams.policies import Platforms
from tailrace.streams.process.logs import get_logger
from tailrace.streams.states import State, Status
from tailrace.streams.store.connection import ServerRefusal
from tailrace.streams.transitions import Transitions
from tailrace.streams.views.presence import Presence
from tailrace.streams.waiting.awaited import why_awaiting
from tailrace.streams.waiting.reasons import Case, WhyWaiting, explain, serving

log = get_logger()


class WaitExplainer:
    """Why jobs wait, on the platforms of one store."""

    def __init__(self, transitions: Transitions, platforms: Platforms, presence: Presence) -> None:
        self._transitions = transitions
        self._platforms = platforms
        self._presence = presence

    async def explain(
        self, keys: PlatformKeys, record: Record, due_ms: float | None, events: Sequence[bytes]
    ) -> WhyWaiting | None:
        """Why a job waits; None when it does not, or the reason is not known. `events` are the last of its history."""
        if record.state is State.AWAITING:
            return WhyWaiting(None, False, (why_awaiting(record),))
        if record.state not in {State.WAITING, State.DELAYED}:
            return None
        policy = self._platforms[keys.platform]
        try:
            seen = await self._presence.glance()
            consumers = None if seen is None else [each for each in seen if keys.platform in each.platforms]
            siblings = self._platforms.siblings(keys.platform)
            line = await self._transitions.line(keys, record.key, policy, siblings, serving(consumers))
            return explain(
                Case(
                    record=record,
                    due_ms=due_ms if record.state is State.DELAYED else None,
                    retrying=is_retrying(events),
                    policy=policy,
                    line=line,
                    consumers=consumers,
                )
            )
        except (BrokenOperation, ServerRefusal, ValueError, OverflowError) as error:
            # A key of the line was changed by hand, or holds text where a number belongs: the job itself is still told.
            log.warning("line_broken", platform=keys.platform, error=repr(error))
            return None


def is_retrying(events: Sequence[bytes]) -> bool:
    """Whether a delayed job waits because its last attempt failed."""
    for raw in reversed(events):
        with suppress(ValueError):
            return decode_event(raw).status is Status.RETRYING
    return False
