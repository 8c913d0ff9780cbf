"""Changes policies while the system runs, and writes the policies of a configuration file into the store."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tailrace.producers.actions import audit_note
from tailrace.producers.platforms import BUILT_IN
from tailrace.producers.settings import StreamsSettings
from tailrace.streams.errors import WrongField
from tailrace.streams.policies import Platforms, Policy
from tailrace.streams.store.connection import Store
from tailrace.streams.store.kept_policies import KeptPolicy, PolicyWatch, read_policies, write_policy
from tailrace.streams.store.server import count_replicas
from tailrace.streams.transitions import Transitions
from tailrace.streams.validation import field_of

Difference = dict[str, tuple[Any, Any]]  # field -> before, after


class Policies:
    """The policies of declared platforms, in the store and in this process."""

    def __init__(self, transitions: Transitions, platforms: Platforms) -> None:
        self._transitions = transitions
        self._platforms = platforms

    async def get(self, platform: str) -> Policy:
        """The policy in the store, else the one declared here."""
        return (await self._read(platform))[1]

    async def change(self, platform: str, fields: Mapping[str, Any], *, by: str | None = None) -> Policy:
        """Change some rules of a platform; returns the new policy. Consumers and gateways follow it within two seconds.

        Raises `WrongField` if a field is wrong or contradicts another: then nothing changes.
        """
        self._platforms.known(platform)
        while True:
            kept, before = await self._read(platform)
            policy = changed(before, fields)
            if kept and kept.policy == policy:
                break
            await self._check_replicas(platform, before, policy)
            note = audit_note("configure", by, changed=difference(before, policy))
            if await write_policy(self._transitions, platform, policy, kept, note=note):
                break
        self._platforms[platform] = policy
        return policy

    async def apply(self, platform: str, policy: Policy, declared: str, *, by: str | None = None) -> Difference:
        """Give a platform the policy of a file, with its digest `declared`; returns the difference."""
        while True:
            kept, before = await self._read(platform)
            if kept and kept.declared == declared and kept.policy == policy:
                return {}
            await self._check_replicas(platform, before, policy)
            note = audit_note("apply", by, changed=difference(before, policy))
            if await write_policy(self._transitions, platform, policy, kept, declared, note):
                self._platforms[platform] = policy
                return difference(before if kept else None, policy)

    async def begin(self, settings: StreamsSettings) -> None:
        """Write the policies of this process's settings into the store, and follow those that count there.

        A platform that the store does not know is written, unless it comes with Tailrace: every process knows those.
        What a file says counts if it is not what a file said last: a start with the same file leaves a change that was
        made at run time as it is.
        """
        there = await read_policies(self._transitions.store, self._platforms)
        for platform in list(self._platforms):
            policy, kept = self._platforms[platform], there.get(platform)
            declared = settings.configured.get(platform, "")
            if policy != BUILT_IN.get(platform) if kept is None else declared and kept.declared != declared:
                await write_policy(self._transitions, platform, policy, kept, declared)
            elif kept:
                self._platforms[platform] = kept.policy

    async def _check_replicas(self, platform: str, before: Policy, after: Policy) -> None:
        """Refuse answers that wait for replicas where there are too few: every submission would fail."""
        store = self._transitions.store
        if after.durability == before.durability or after.durability != "replicated":
            return
        there = await count_replicas(await store.node_of(platform))
        if there < store.terms.replicas:
            raise WrongField(
                "durability",
                f"replicated needs TAILRACE_REPLICAS ({store.terms.replicas}) replicas; the store of {platform} has "
                f"{there}; connect more, or lower TAILRACE_REPLICAS",
            )

    async def _read(self, platform: str) -> tuple[KeptPolicy | None, Policy]:
        kept = (await read_policies(self._transitions.store, [platform])).get(platform)
        return kept, kept.policy if kept else self._platforms[platform]


def watch_all(
    store: Store, settings: StreamsSettings, changed: Callable[[str], None] = lambda platform: None
) -> PolicyWatch:
    """Keeps the platforms of a process as the store has them, those included that its own settings do not name.

    Where the built-in platforms are left out, they stay out although another process serves them.
    """
    left_out = frozenset() if settings.builtins else BUILT_IN.keys() - settings.platforms.keys()
    return PolicyWatch(store, settings.platforms, changed, left_out=left_out)


def changed(policy: Policy, fields: Mapping[str, Any]) -> Policy:
    """The policy with some fields changed. Raises `WrongField` naming the one that is wrong."""
    try:
        return msgspec.convert({**msgspec.to_builtins(policy), **fields}, Policy)
    except msgspec.ValidationError as error:
        raise WrongField(*field_of(error, "", Policy)) from None


def difference(before: Policy | None, after: Policy) -> Difference:
    """The fields that differ, each as it was and as it is; all that are not by default, if there was none."""
    old = msgspec.to_builtins(before or Policy())
    return {name: (old[name], value) for name, value in msgspec.to_builtins(after).items() if old[name] != value}
