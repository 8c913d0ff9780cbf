"""What an attempt says of its own job, each in a call of its own; a consumer says it in commits."""

from collections.abc import Sequence

from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Claim
from tailrace.streams.operations import Again, call
from tailrace.streams.policies import MAX_EVENTS, MAX_STEP_BYTES, Policy, rules_of
from tailrace.streams.replies import to_claims, to_steps
from tailrace.streams.transitions import Transitions


class AttemptTransitions(Transitions):
    """Every transition of a running job as a method."""

    async def claim(
        self, platform: PlatformKeys, owner: str, deadline_seconds: float, policy: Policy, nonces: Sequence[str]
    ) -> list[Claim]:
        operation = call.claim(
            owner=owner,
            deadline_ms=int(deadline_seconds * 1000),
            company="locked",
            nonces=" ".join(nonces),
            **rules_of("claim", policy),
        )
        return to_claims(await self.one(platform, operation))

    async def report(
        self, platform: PlatformKeys, key: str, nonce: str, number: int, events: bytes, max_events: int = MAX_EVENTS
    ) -> str:
        operation = call.report(platform, key=key, nonce=nonce, number=number, most=max_events, events=events)
        return await self.word(platform, operation)

    async def save(self, platform: PlatformKeys, key: str, nonce: str, name: str, value: bytes) -> str:
        operation = call.save(platform, key=key, nonce=nonce, most=MAX_STEP_BYTES, name=name, value=value)
        return await self.word(platform, operation)

    async def recall(
        self, platform: PlatformKeys, key: str, nonce: str, cursor: str = "0"
    ) -> tuple[str, dict[str, bytes]] | None:
        """Where the next part begins, if there is one, and steps by name; None: it is not this attempt's job."""
        operation = call.recall(platform, key=key, nonce=nonce, cursor=cursor)
        return to_steps(await self.one(platform, operation))

    async def complete(self, platform: PlatformKeys, key: str, nonce: str, event: bytes) -> str:
        return await self.word(platform, call.complete(platform, key=key, nonce=nonce, event=event))

    async def delay(self, platform: PlatformKeys, key: str, nonce: str, again: Again, *, hold: bool = False) -> str:
        operation = call.delay(platform, key=key, nonce=nonce, hold=int(hold), **again.rest)
        return await self.word(platform, operation)

    async def release(self, platform: PlatformKeys, key: str, nonce: str, max_starts: int) -> str:
        operation = call.release(platform, key=key, nonce=nonce, max_starts=max_starts)
        return await self.word(platform, operation)
