"""The only ways a job may change: one method for each Lua file, of the same name.

Each method sends one call and repeats nothing by itself; every call may be repeated by whoever made it, because
it carries what makes it idempotent: the job's key, a nonce, a running number. `commit` runs many at once.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from streams.connection import Store
from streams.errors import TailraceError
from streams.functions import Script, build
from streams.keys import PlatformKeys
from streams.messages import Claim, Job, Lease, Look
from streams.policies import Policy
from streams.reading import to_claims, to_look

ARGS_ROOM = 8 * 1024  # larger args are kept beside the stream entry, so that its nodes stay small

SETTLING = ("report", "complete", "fail", "release", "claim")
TENDING = ("beat", "observe", "reclaim", "bury", "release")
ACTING = ("cancel",)


class Operation(NamedTuple):
    """One transition to be run: its name, the keys of its job, its arguments in the order of its header."""

    name: str
    keys: tuple[str, ...]
    args: tuple[Any, ...]


class BrokenOperation(TailraceError):
    """A script met something it cannot have written itself: a key of another type, a record without its fields."""


@cache
def script(*names: str) -> Script:
    return build(names, brings_work=names == ("submit",))


class Transitions:
    """The transitions of one store. Platforms are given by their keys."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def run(
        self, names: tuple[str, ...], sheets: Sequence[tuple[PlatformKeys, Sequence[Operation]]]
    ) -> list[Any]:
        """Run operations, platform by platform, in one call; one answer each, in order."""
        keys: list[str] = []
        args: list[Any] = []
        for platform, operations in sheets:
            keys += platform.own
            args.append(len(operations))
            for operation in operations:
                keys += operation.keys
                args.append(operation.name)
                args += operation.args
        answers: list[Any] = await self.store.run(script(*names), keys, args)
        return answers

    async def commit(self, platform: PlatformKeys, operations: Sequence[Operation]) -> list[Any]:
        """Settle what many attempts have to say and claim what comes next, in one call."""
        return await self.run(SETTLING, [(platform, operations)])

    async def submit(self, jobs: Sequence[tuple[Job, str]]) -> list[list[str]]:
        """Accept jobs of one platform, each with its fingerprint: `accepted <state>`, `again <state>` or `conflict`."""
        platform = PlatformKeys(jobs[0][0].platform)
        operations = [submit(platform, job, fingerprint) for job, fingerprint in jobs]
        answers = await self.run(("submit",), [(platform, operations)])
        return [[word.decode() for word in checked(answer)] for answer in answers]

    async def claim(
        self, platform: PlatformKeys, owner: str, deadline_seconds: float, policy: Policy, nonces: Sequence[str]
    ) -> list[Claim]:
        operation = claim(owner, deadline_seconds, policy, nonces)
        return to_claims(checked((await self.commit(platform, [operation]))[0]))

    async def report(self, platform: PlatformKeys, key: str, nonce: str, number: int, event: bytes) -> str:
        return await self._word(SETTLING, platform, report(platform, key, nonce, number, event))

    async def complete(self, platform: PlatformKeys, key: str, nonce: str, event: bytes) -> str:
        return await self._word(SETTLING, platform, complete(platform, key, nonce, event))

    async def fail(self, platform: PlatformKeys, key: str, nonce: str, event: bytes) -> str:
        return await self._word(SETTLING, platform, fail(platform, key, nonce, event))

    async def release(self, platform: PlatformKeys, key: str, nonce: str) -> str:
        return await self._word(SETTLING, platform, release(platform, key, nonce))

    async def cancel(self, platform: PlatformKeys, key: str, more: bytes = b"") -> str:
        operation = Operation("cancel", (platform.record(key), platform.log(key)), (key, more))
        return await self._word(ACTING, platform, operation)

    async def beat(
        self, held: Sequence[tuple[PlatformKeys, Sequence[str]]], owner: str
    ) -> list[tuple[list[str], list[tuple[str, str]]]]:
        """Beat on platforms, in one call. For each: nonces lost, and (key, nonce) of jobs owned but not run."""
        sheets = [(keys, [Operation("beat", (), (owner, " ".join(nonces)))]) for keys, nonces in held]
        news = []
        for answer in await self.run(TENDING, sheets):
            lost, stray = ([word.decode() for word in words] for words in checked(answer))
            news.append((lost, list(zip(stray[::2], stray[1::2], strict=True))))
        return news

    async def observe(self, platforms: Sequence[PlatformKeys]) -> list[Look]:
        """See who beats and who runs what on platforms, in one call."""
        answers = await self.run(TENDING, [(keys, [Operation("observe", (), ())]) for keys in platforms])
        return [to_look(checked(answer)) for answer in answers]

    async def reclaim(self, platform: PlatformKeys, lease: Lease, counter: str, max_crashes: int) -> str:
        args = (lease.key, lease.nonce, lease.owner, counter, max_crashes)
        operation = Operation("reclaim", (platform.record(lease.key), platform.log(lease.key)), args)
        return await self._word(TENDING, platform, operation)

    async def bury(self, platform: PlatformKeys, owner: str, counter: str) -> str:
        return await self._word(TENDING, platform, Operation("bury", (), (owner, counter)))

    async def _word(self, names: tuple[str, ...], platform: PlatformKeys, operation: Operation) -> str:
        return word((await self.run(names, [(platform, [operation])]))[0])


def submit(platform: PlatformKeys, job: Job, fingerprint: str) -> Operation:
    keys = (platform.record(job.key), platform.args(job.key))
    return Operation("submit", keys, (job.key, job.band, job.kind, job.args, fingerprint, ARGS_ROOM))


def claim(owner: str, deadline_seconds: float, policy: Policy, nonces: Sequence[str]) -> Operation:
    rules = (int(deadline_seconds * 1000), policy.overall, policy.max_crashes)
    return Operation("claim", (), (owner, *rules, " ".join(nonces)))


def report(platform: PlatformKeys, key: str, nonce: str, number: int, event: bytes) -> Operation:
    return Operation("report", (platform.log(key),), (key, nonce, number, event))


def complete(platform: PlatformKeys, key: str, nonce: str, event: bytes) -> Operation:
    return Operation("complete", (platform.record(key), platform.log(key)), (key, nonce, event))


def fail(platform: PlatformKeys, key: str, nonce: str, event: bytes) -> Operation:
    return Operation("fail", (platform.record(key), platform.log(key)), (key, nonce, event))


def release(platform: PlatformKeys, key: str, nonce: str) -> Operation:
    return Operation("release", (platform.record(key), platform.log(key)), (key, nonce))


def checked(answer: Any) -> Any:
    """The answer itself, or an error when its operation broke."""
    if isinstance(answer, list) and answer and answer[0] == b"error":
        raise BrokenOperation(answer[1].decode(errors="replace"))
    return answer


def word(answer: Any) -> str:
    text: bytes = checked(answer)
    return text.decode()
