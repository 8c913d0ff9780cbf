"""Actions on jobs and platforms: cancel, retry, signal, drop, pause, resume, restart, replay."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Literal, TypedDict, Unpack, cast, get_args

from msgspec import Struct

from tailrace.producers.producer import new_key
from tailrace.streams.errors import JobNotFound, NoConsumer, StoreError, WorkerShared, WrongField, WrongState
from tailrace.streams.flows.relay import Relay
from tailrace.streams.history.events import members
from tailrace.streams.keys import PlatformKeys, check_word, split_id
from tailrace.streams.messages import encode
from tailrace.streams.operations import AuditNote
from tailrace.streams.options import at_ms
from tailrace.streams.pauses import Paused, pause_platform
from tailrace.streams.policies import Platforms
from tailrace.streams.states import State
from tailrace.streams.transitions import MOST_SIGNALS, Transitions
from tailrace.streams.views.failed_jobs import Match, Swept, sweep_dead
from tailrace.streams.views.flow import failed_child

LONGEST_NAME, LONGEST_REASON = 100, 300  # characters
LARGEST_SIGNAL = 256 * 1024  # bytes of its data


class ActionResult(Struct, frozen=True):
    """The result of an action on a job: its state, or `cancelling` while its attempt is asked to stop, or `dropped`."""

    id: str
    status: str
    failed_child: str | None = None  # the child by which a retried job failed: retry that one, and both run again


SignalStatus = Literal["delivered", "kept", "again"]


class SignalResult(Struct, frozen=True):
    """The result of a signal: `delivered` to a job that awaited it, `kept` for later, `again`: one had come before."""

    id: str
    signal: str
    status: SignalStatus


class Which(TypedDict, total=False):
    """Which failed jobs are meant, and how many at most; a field that is None matches all."""

    kind: str | None
    error: str | None  # the type of it
    ended_by: str | None  # only those that ended by then; ISO 8601 with its offset from UTC
    limit: int | None


class Actions:
    """Every way in which a person or a program acts on jobs and platforms.

    Those on one job raise `JobNotFound` or `WrongState`, those on a platform `WrongField` if it is not declared.
    """

    def __init__(self, transitions: Transitions, platforms: Platforms) -> None:
        self._transitions = transitions
        self._platforms = platforms
        self._relay = Relay(transitions)

    async def cancel(self, job_id: str, *, by: str | None = None, reason: str | None = None) -> ActionResult:
        """End a job that does not run, or ask its attempt to stop: `status` is `cancelled` or `cancelling`."""
        word = await self._transitions.cancel(
            *self._locate(job_id), note(by, reason), audit_note("cancel", by, reason=reason)
        )
        if word == "cancelling":
            return ActionResult(job_id, word)
        if word in {"ok", "again"}:
            await self._deliver(job_id)
            return ActionResult(job_id, State.CANCELLED)
        raise refusal(job_id, word, "there is nothing left to cancel")

    async def retry(self, job_id: str, *, by: str | None = None, reason: str | None = None) -> ActionResult:
        """Run a failed or cancelled job again; its history stays.

        One that failed by a child of its own fails by it again, unless that one has completed since or is not kept any
        more: retry the `failed_child` of the answer, which brings its parents back by itself.
        """
        keys, key = self._locate(job_id)
        child = await failed_child(self._transitions.store, keys, key)
        word = await self._transitions.reopen(keys, key, note(by, reason), audit_note("retry", by, reason=reason))
        if word != "ok":
            raise refusal(job_id, word, "only a failed or a cancelled job can be retried")
        await self._deliver(job_id)
        return ActionResult(job_id, State.WAITING, child)

    async def signal(self, job_id: str, name: str, data: Any = None) -> SignalResult:
        """Send a signal to a job that awaits it, or will: the first one of a name counts.

        Raises `WrongField`, and `WrongState` when the job has ended.
        """
        check_word(name, "name")
        try:
            said = encode(data)
        except (TypeError, ValueError, RecursionError) as error:
            raise WrongField("data", f"cannot be written as JSON: {error}") from None
        if len(said) > LARGEST_SIGNAL:
            raise WrongField("data", f"has {len(said)} bytes; a signal has at most {LARGEST_SIGNAL}")
        keys, key = self._locate(job_id)
        word = await self._transitions.signal(keys, key, name, said)
        if word == "full":
            raise WrongField("name", f"is one signal too many: a job has at most {MOST_SIGNALS}")
        if word not in get_args(SignalStatus):
            raise refusal(job_id, word, "it can receive no signal any more")
        return SignalResult(job_id, name, cast(SignalStatus, word))

    async def _deliver(self, job_id: str) -> None:
        """Deliver news to the children or the parent of a job at once; if that fails, a heart does it later."""
        with suppress(StoreError):
            await self._relay.deliver(self._locate(job_id)[0])

    async def drop(self, job_id: str, *, by: str | None = None) -> ActionResult:
        """Remove a failed or cancelled job with its history."""
        word = await self._transitions.drop(*self._locate(job_id), audit_note("drop", by))
        if word != "ok":
            raise refusal(job_id, word, "only a failed or a cancelled job can be dropped")
        return ActionResult(job_id, "dropped")

    async def pause(self, platform: str, *, by: str | None = None) -> Paused:
        """Start no more jobs of a platform; attempts that run go on."""
        kept = audit_note("pause", by)
        return await pause_platform(self._transitions, self._declared(platform), by, kept)

    async def resume(self, platform: str, *, by: str | None = None) -> bool:
        """Start the jobs of a platform again; whether it was paused."""
        return await self._transitions.resume(self._declared(platform), audit_note("resume", by)) != "again"

    async def restart(
        self, platform: str, *, request: str | None = None, hidden: Iterable[str] = (), by: str | None = None
    ) -> list[str]:
        """Ask the consumers of a platform to drain and start again; their names.

        The same `request` again is not another one. Raises `NoConsumer` if there is none to ask, and `WorkerShared` if
        one of them serves a `hidden` platform too.
        """
        keys, request = self._declared(platform), request or new_key()
        while True:
            beats, *others = await self._transitions.observe([keys, *map(self._transitions.store.keys, hidden)])
            if any(owner in other for other in others for owner in beats):
                raise WorkerShared(platform)
            owners = sorted(owner for owner, counter in beats.items() if counter != "0")
            kept = audit_note("restart", by, request) if owners else None
            if await self._transitions.restart(keys, request, owners, kept) is not None:
                break  # else another consumer has started since
        if not owners:
            raise NoConsumer(platform)
        return owners

    async def replay(self, platform: str, *, by: str | None = None, **which: Unpack[Which]) -> Swept:
        """Run failed jobs of a platform again, oldest first."""
        more, kept = note(by), audit_note("replay", by, **which)
        swept = await self._sweep(platform, which, lambda keys, key: self._transitions.reopen(keys, key, more, kept))
        with suppress(StoreError):
            await self._relay.deliver(self._declared(platform))
        return swept

    async def drop_dead(self, platform: str, *, by: str | None = None, **which: Unpack[Which]) -> Swept:
        """Remove failed jobs of a platform with their histories, oldest first."""
        kept = audit_note("drop-all", by, **which)
        return await self._sweep(platform, which, lambda keys, key: self._transitions.drop(keys, key, kept))

    async def _sweep(self, platform: str, which: Which, act: Callable[[PlatformKeys, str], Awaitable[str]]) -> Swept:
        keys = self._declared(platform)
        match = Match(which.get("kind"), which.get("error"), at_ms(which.get("ended_by"), "ended_by"))
        return await sweep_dead(self._transitions.store, keys, match, partial(act, keys), which.get("limit"))

    def _declared(self, platform: str) -> PlatformKeys:
        return self._transitions.store.keys(self._platforms.known(platform))

    def _locate(self, job_id: str) -> tuple[PlatformKeys, str]:
        """The keys of a job's platform, and its own key."""
        platform, key = split_id(job_id)
        return self._transitions.store.keys(platform), key


def note(by: str | None = None, reason: str | None = None) -> bytes:
    """The fields `by` and `reason` of an event."""
    return members(by=checked(by, "by", LONGEST_NAME), reason=checked(reason, "reason", LONGEST_REASON))


def audit_note(act: str, by: str | None, token: str | None = None, **more: Any) -> AuditNote:
    """The entry of the audit for an act: who asked, and further facts."""
    said = {"by": checked(by, "by", LONGEST_NAME), **more}
    return AuditNote(
        act, token or new_key(), encode({name: value for name, value in said.items() if value is not None})
    )


def checked(text: str | None, field: str, longest: int) -> str | None:
    if text is None:
        return None
    if not 1 <= len(text) <= longest:
        raise WrongField(field, f"must have 1 to {longest} characters; it has {len(text)}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise WrongField(field, "is not UTF-8") from None
    return text


def refusal(job_id: str, word: str, why: str) -> JobNotFound | WrongState:
    return JobNotFound(job_id) if word == "missing" else WrongState(job_id, word, why)
