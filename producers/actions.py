"""ActionResult on jobs and platforms: what is asked for, what the store decides, and the refusal as an error."""

from typing import Any

from msgspec import Struct

from tailrace.producers.producer import new_key
from tailrace.streams.errors import JobNotFound, NoConsumer, WrongField, WrongState
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import encode
from tailrace.streams.pauses import Paused, pause_platform
from tailrace.streams.states import State
from tailrace.streams.transitions import Transitions
from tailrace.streams.views.dead_letters import Match, Swept, sweep_dead

LONGEST_NAME, LONGEST_REASON = 100, 300  # characters


class ActionResult(Struct, frozen=True):
    """What became of a job: its state, or `cancelling` while its attempt is asked to stop, or `dropped`."""

    id: str
    status: str


class Actions:
    """Every way in which a person or a program acts on jobs. Each raises `JobNotFound` or `WrongState`."""

    def __init__(self, transitions: Transitions) -> None:
        self._transitions = transitions

    async def cancel(
        self, platform: PlatformKeys, key: str, *, by: str | None = None, reason: str | None = None
    ) -> ActionResult:
        """End a job that does not run, or ask its attempt to stop."""
        word = await self._transitions.cancel(platform, key, note(by, reason))
        if word == "cancelling":
            return ActionResult(platform.id(key), word)
        if word in {"ok", "again"}:
            return ActionResult(platform.id(key), State.CANCELLED)
        raise refusal(platform, key, word, "there is nothing left to cancel")

    async def retry(self, platform: PlatformKeys, key: str, *, by: str | None = None) -> ActionResult:
        """Give a failed or cancelled job another life."""
        word = await self._transitions.reopen(platform, key, note(by))
        if word != "ok":
            raise refusal(platform, key, word, "only a failed or a cancelled job can be retried")
        return ActionResult(platform.id(key), State.WAITING)

    async def drop(self, platform: PlatformKeys, key: str) -> ActionResult:
        """Remove a failed or cancelled job with its history."""
        word = await self._transitions.drop(platform, key)
        if word != "ok":
            raise refusal(platform, key, word, "only a failed or a cancelled job can be dropped")
        return ActionResult(platform.id(key), "dropped")

    async def pause(self, platform: PlatformKeys, *, by: str | None = None) -> Paused:
        """Start no more jobs of a platform; attempts that run go on."""
        return await pause_platform(self._transitions, platform, checked(by, "by", LONGEST_NAME))

    async def resume(self, platform: PlatformKeys) -> bool:
        """Start the jobs of a platform again; whether it was paused."""
        return await self._transitions.resume(platform) != "again"

    async def restart(self, platform: PlatformKeys) -> list[str]:
        """Ask the consumers of a platform to drain and start again; their names. Raises `NoConsumer`."""
        request = new_key()
        (beats,) = await self._transitions.observe([platform])
        while beats and await self._transitions.restart(platform, request, beats) is None:
            (beats,) = await self._transitions.observe([platform])  # another consumer has started since
        if not beats:
            raise NoConsumer(platform.platform)
        return sorted(beats)

    async def replay(
        self, platform: PlatformKeys, match: Match, *, limit: int | None = None, by: str | None = None
    ) -> Swept:
        """Give all failed jobs that match another life, oldest first."""
        more = note(by)

        async def reopen(key: str) -> str:
            return await self._transitions.reopen(platform, key, more)

        return await sweep_dead(self._transitions.store, platform, match, reopen, limit)


def note(by: str | None = None, reason: str | None = None) -> bytes:
    """Who acts and why, as an event carries it: JSON members with a leading comma."""
    said: dict[str, Any] = {"by": checked(by, "by", LONGEST_NAME), "reason": checked(reason, "reason", LONGEST_REASON)}
    told = {name: text for name, text in said.items() if text is not None}
    return b"," + encode(told)[1:-1] if told else b""


def checked(text: str | None, field: str, longest: int) -> str | None:
    if text is None:
        return None
    if not 1 <= len(text) <= longest:
        raise WrongField(field, f"must have 1 to {longest} characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise WrongField(field, "is not UTF-8") from None
    return text


def refusal(platform: PlatformKeys, key: str, word: str, why: str) -> JobNotFound | WrongState:
    return JobNotFound(platform.id(key)) if word == "missing" else WrongState(platform.id(key), word, why)
