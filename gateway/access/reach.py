"""Looks up the jobs and platforms that a request names, among those that its caller may reach.

A key that is limited to platforms has an application of its own, whose reach ends with them: to it the others are not
there.
"""

from msgspec.structs import replace

from tailrace.gateway.problems import Code, Refusal
from tailrace.streams.errors import Forbidden, JobNotFound, WrongField
from tailrace.streams.keys import Keyspace, PlatformKeys, split_id
from tailrace.streams.policies import Platforms


class Narrowed(Platforms):
    """The platforms of one key. To it the others are not there."""

    def __init__(self, policies: Platforms, names: frozenset[str]) -> None:
        super().__init__()
        self._all, self._names = policies, names
        self.renew()

    def renew(self) -> None:
        """Take over what has changed."""
        policies, names = self._all, self._names
        own = {name: policy for name, policy in policies.items() if name in names}
        # A lane may have the name of a platform. If that one is hidden, the lane is called by the first of ours in it.
        hidden = policies.keys() - own.keys()
        lanes = {policy.lane: name for name, policy in reversed(own.items())}
        self.update(
            {
                name: replace(policy, lane=lanes[policy.lane]) if policy.lane in hidden else policy
                for name, policy in own.items()
            }
        )

    def known(self, name: str) -> str:
        if name not in self:
            raise Forbidden(f"this key is limited to {', '.join(self)}")
        return name


class Reach:
    """The keys in the store of every platform that a caller may reach."""

    def __init__(self, keyspace: Keyspace, platforms: Platforms) -> None:
        self._keys = keyspace.platform
        self._platforms = platforms

    def find(self, job_id: str) -> tuple[PlatformKeys, str] | None:
        """The keys of a job's platform and its own key; None: this cannot be the id of a kept job."""
        try:
            platform, key = split_id(job_id)
        except WrongField:
            return None
        return (self._keys(platform), key) if platform in self._platforms else None

    def job(self, job_id: str) -> tuple[PlatformKeys, str]:
        """The keys of the job, as `find`. Raises `JobNotFound`."""
        job = self.find(job_id)
        if job is None:
            raise JobNotFound(job_id[:100])
        return job

    def platform(self, name: str) -> PlatformKeys:
        """Raises a `Refusal` for a platform that is not declared, or that the key is not for."""
        if name not in self._platforms:
            known = ", ".join(self._platforms)
            raise Refusal(Code.PLATFORM_NOT_FOUND, f"platform {name[:100]!r} is not declared; known are {known}")
        return self._keys(name)
