"""Policies as the store keeps them: read, written, and followed by every process that goes by them.

The policy of a platform is a key of that platform. Which platforms there are is one key for all: the name of each with
a mark, which is another one after each change. A writer puts a mark that begins with `?` first and its final one last:
a follower looks again at every look until then, also when the writer died in between.
"""

import hashlib
import logging
import secrets
from collections.abc import Callable, Collection, Iterable, MutableMapping

import anyio
import msgspec
from msgspec import Struct

from tailrace.streams.errors import TailraceError, WrongField
from tailrace.streams.operations import AuditNote
from tailrace.streams.policies import Policy
from tailrace.streams.replies import pairs
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Transitions

LOOK_SECONDS = 1.0
FIELDS = ("version", "rules", "declared")
UNDER_WAY = "?"

log = logging.getLogger("tailrace.policies")  # not structlog: a command that configures no logs warns on stderr

_decode = msgspec.json.Decoder(Policy).decode
_encode = msgspec.json.Encoder().encode


class KeptPolicy(Struct, frozen=True):
    """The policy of a platform, how often it was written, and what a configuration file last said of it."""

    version: int
    policy: Policy
    declared: str = ""


def digest(policy: Policy, said: Iterable[str]) -> str:
    """A digest of what a file says about a platform: of its fields, as the policy made of them has them.

    Other fields do not count: a version that knows one more, or has another default, reads the same from the same file.
    """
    fields = {name: getattr(policy, name) for name in sorted(said)}
    return hashlib.sha1(_encode(fields), usedforsecurity=False).hexdigest()


async def read_policies(store: Store, names: Iterable[str]) -> dict[str, KeptPolicy]:
    """The stored policies of these platforms, without unreadable ones: written by hand or by a newer version."""
    asked = list(names)
    answers = await store.commands([("HMGET", store.keys(name)["policy"], *FIELDS) for name in asked])
    found = {}
    for name, (version, rules, declared) in zip(asked, answers, strict=True):
        if version is None:
            continue
        try:
            found[name] = KeptPolicy(int(version), _decode(rules or b""), (declared or b"").decode())
        except (ValueError, WrongField) as error:  # msgspec's errors are ValueErrors
            log.warning("the policy of %s in the store cannot be read, and does not count: %s", name, error)
    return found


async def read_names(store: Store) -> dict[str, str]:
    """Every platform that was ever configured here, with its mark."""
    return pairs(await store.command("HGETALL", store.keyspace.platforms))


async def write_policy(
    transitions: Transitions,
    platform: str,
    policy: Policy,
    before: KeptPolicy | None,
    declared: str = "",
    note: AuditNote | None = None,
) -> bool:
    """Write a policy over the one that was read, and keep who asked; False: there is another one by now.

    Raises `WrongField` where it would move the keys of the platform: its jobs would not be found any more.
    """
    tag = policy.placement or (policy.lane if transitions.store.clustered else None)
    if tag != transitions.store.keyspace.tags.get(platform):
        field = "placement" if policy.placement else "lane"
        raise WrongField(
            field, "decides where the keys of a platform are: say it in TAILRACE_CONFIG before its first job"
        )
    store, mark = transitions.store, secrets.token_hex(8)
    await store.command("HSET", store.keyspace.platforms, platform, UNDER_WAY + mark)
    version = before.version if before else 0
    word = await transitions.configure(store.keys(platform), version, _encode(policy), declared, note)
    await store.command("HSET", store.keyspace.platforms, platform, mark)
    return word != "changed"


class PolicyWatch:
    """Keeps the policies of a process as the store has them."""

    def __init__(
        self,
        store: Store,
        policies: MutableMapping[str, Policy],
        changed: Callable[[str], None] = lambda platform: None,
        only: Collection[str] | None = None,
        left_out: Collection[str] = (),
    ) -> None:
        """`changed` is called after each change.

        With `only` it follows these platforms, else every one that was ever configured but those `left_out`.
        """
        self._store = store
        self._policies = policies
        self._changed = changed
        self._only = only
        self._left_out = left_out
        self._seen: dict[str, str] = {}  # platform -> its mark or its version, as last seen

    async def run(self) -> None:
        while True:
            try:
                await self.look()
            except TailraceError as error:  # other tasks report that the store is away
                log.debug("the policies cannot be read now: %s", error)
            await anyio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Take over what has changed since the last look."""
        marks = await (read_names(self._store) if self._only is None else self._versions(self._only))
        news = [name for name, mark in marks.items() if mark.startswith(UNDER_WAY) or self._seen.get(name) != mark]
        if not news:
            return
        for name, kept in (await read_policies(self._store, set(news).difference(self._left_out))).items():
            if self._policies.get(name) != kept.policy:
                self._policies[name] = kept.policy
                log.info("the policy of %s is now version %d", name, kept.version)
            self._changed(name)  # also if this process has changed it itself
        self._seen.update({name: marks[name] for name in news})

    async def _versions(self, names: Collection[str]) -> dict[str, str]:
        versions = await self._store.commands([("HGET", self._store.keys(name)["policy"], "version") for name in names])
        return {name: version.decode() for name, version in zip(names, versions, strict=True) if version}
