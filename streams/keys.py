"""Every name that exists in the store, and the only place where names are put together.

A platform is one hash slot: all its keys carry the hash tag `{platform}`, so each transition touches one slot
and the same code runs on a single server and on a cluster. A job id is `<platform>.<key>`: the id tells the slot.

    tr:{kurly}:leases                 a key of the platform kurly
    tr:shop-staging:{kurly}:leases    the same in the namespace shop-staging
    tr:{b}kurly:leases                the same with the placement b: platforms with one placement share a slot
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct

from tailrace.streams.errors import BadConfiguration, WrongField

ROOT: Final = "tr"
GROUP: Final = "consumers"  # the consumer group of every jobs stream
FRONT: Final = "front"  # the reserved group consumer under which the jobs at the front of the line pend

BANDS: Final = ("urgent", "high", "normal", "low")  # priorities, first to last

PLATFORM_KEYS: Final = (
    *(f"jobs_{band}" for band in BANDS),
    *(f"front_{band}" for band in BANDS),
    "unfinished",
    "suspects",
    "due",
    "alarms",
    "awaiting",
    "leases",
    "beats",
    "consumers",
    "idle",
    "called",
    "events",
    "ended_completed",
    "ended_failed",
    "ended_errors",
    "ended_cancelled",
    "ended_kept",
    "control",
    "starts",
    "limits",
    "orders",
    "schedules",
    "ticks",
    "policy",
    "audit",
    "outbox",
)
"""The keys that a platform has once; all others belong to one job."""

JOB_KEYS: Final = {
    "record": "job",
    "log": "log",
    "args": "args",
    "steps": "steps",
    "children": "children",
    "signals": "signals",
}
"""The keys of a job: the name used by transitions, and the word in the key."""

RESERVED: Final = "~"  # begins the names that the library itself gives among the steps of a job

PLATFORM_FORM: Final = r"[a-z0-9][a-z0-9_-]{0,31}"
KEY_FORM: Final = r"[A-Za-z0-9_-]{1,64}"
WORD_FORM: Final = r"[A-Za-z0-9._-]{1,64}"
LABEL_FORM: Final = r"[A-Za-z0-9._:@/-]{1,64}"

_PLATFORM, _KEY, _WORD = map(re.compile, (PLATFORM_FORM, KEY_FORM, WORD_FORM))


class Keyspace(Struct, frozen=True):
    """The names that one application, or one stage of it, has in a store. Namespaces share nothing."""

    namespace: str = ""  # empty: the store is ours alone
    tags: Mapping[str, str] = {}  # platform -> its hash tag, where that is not its name

    def __post_init__(self) -> None:
        if self.namespace and (not _PLATFORM.fullmatch(self.namespace) or self.namespace in OF_NO_PLATFORM):
            raise BadConfiguration(
                "must have 1 to 32 characters of a-z 0-9 _ -, the first one a letter or a digit, "
                f"and not be {' or '.join(OF_NO_PLATFORM)}; it is {self.namespace!r}"
            )

    def platform(self, name: str) -> "PlatformKeys":
        return _platform(self.namespace, self.tags.get(name), name)

    def ticket(self, digest: str) -> str:
        """A one-use ticket, by its hash; it belongs to no platform."""
        return f"{_start(self.namespace)}ticket:{digest}"

    def session(self, digest: str) -> str:
        """The session of a person who signed in on the page, by the hash of its cookie."""
        return f"{_start(self.namespace)}session:{digest}"

    def incidents(self, receiver: str) -> str:
        """The open incidents that were sent to a receiver of alerts."""
        return f"{_start(self.namespace)}incidents:{receiver}"

    @property
    def platforms(self) -> str:
        """The names of all platforms, each with a mark that changes with its policy."""
        return f"{_start(self.namespace)}platforms"

    def pattern(self, word: str) -> str:
        """A pattern that matches the keys of every `job` and platform, or of one of the words that belong to none."""
        return _start(self.namespace) + {"job": "{*", "platforms": word}.get(word, f"{word}:*")

    @property
    def records(self) -> str:
        """A pattern that matches the record of every job."""
        return f"{_start(self.namespace)}{{*}}*:{JOB_KEYS['record']}:*"


OF_NO_PLATFORM: Final = ("incidents", "platforms", "session", "ticket")  # the words in keys that belong to no platform


def _start(namespace: str) -> str:
    return f"{ROOT}:{namespace}:" if namespace else f"{ROOT}:"


@lru_cache(4096)
def _platform(namespace: str, tag: str | None, name: str) -> "PlatformKeys":
    return PlatformKeys(name, namespace, tag)


class PlatformKeys:
    """The keys of one platform, each built once. `Store.keys` makes them in the namespace of the store."""

    __slots__ = (
        "_args",
        "_children",
        "_log",
        "_record",
        "_signals",
        "_steps",
        "by_name",
        "own",
        "platform",
        "prefix",
        "tag",
    )

    def __init__(self, platform: str, namespace: str = "", tag: str | None = None) -> None:
        self.platform = check_platform(platform)
        self.tag = tag or platform
        self.prefix = f"{_start(namespace)}{{{self.tag}}}{platform if tag else ''}:"
        self.by_name = {name: self.prefix + name.replace("_", ":") for name in PLATFORM_KEYS}
        self.own = tuple(self.by_name.values())  # in the order of PLATFORM_KEYS
        self._record, self._log, self._args, self._steps, self._children, self._signals = (
            f"{self.prefix}{word}:" for word in JOB_KEYS.values()
        )

    def __getitem__(self, name: str) -> str:
        return self.by_name[name]

    def jobs(self, band: str) -> str:
        return self.by_name[f"jobs_{band}"]

    def front(self, band: str) -> str:
        return self.by_name[f"front_{band}"]

    def record(self, key: str) -> str:
        return self._record + key

    def log(self, key: str) -> str:
        return self._log + key

    def args(self, key: str) -> str:
        return self._args + key

    def holds(self, owner: str) -> str:
        """The nonces that an owner holds."""
        return f"{self.prefix}holds:{owner}"

    def order(self, label: str) -> str:
        """The jobs of an order key that have not ended, first to last."""
        return f"{self.prefix}order:{label}"

    def parked(self, label: str) -> str:
        """The jobs that wait until their limit key allows another."""
        return f"{self.prefix}parked:{label}"

    def starts(self, label: str) -> str:
        """The last starts of a limit key."""
        return f"{self.prefix}starts:{label}"

    def dedupe(self, label: str) -> str:
        """The job that all submissions with this dedupe key are."""
        return f"{self.prefix}dedupe:{label}"

    def bell(self, owner: str) -> str:
        """The list by which the store calls a consumer to work."""
        return f"{self.prefix}bell:{owner}"

    def steps(self, key: str) -> str:
        return self._steps + key

    def children(self, key: str) -> str:
        """The jobs that a job spawned, and how they ended."""
        return self._children + key

    def signals(self, key: str) -> str:
        return self._signals + key

    def id(self, key: str) -> str:
        return join_id(self.platform, key)


def expiry_alarm(key: str) -> str:
    """The member of `alarms` at which a job expires."""
    return f"!{key}"


def job_of_record(name: str) -> tuple[str, str]:
    """The platform and the key of a job, from the name of its record."""
    tag, _, rest = name.partition("{")[2].partition("}")
    platform, _, record = rest.partition(":")
    return platform or tag, record.removeprefix(f"{JOB_KEYS['record']}:")


def await_alarm(key: str) -> str:
    """The member of `alarms` that resumes a job whose awaited signal has not come in time."""
    return f"^{key}"


def join_id(platform: str, key: str) -> str:
    return f"{platform}.{key}"


def split_id(job_id: str) -> tuple[str, str]:
    """The platform and the key of a job id. Raises `WrongField` for a text that is not a job id."""
    platform, dot, key = job_id.partition(".")
    if not dot or not _PLATFORM.fullmatch(platform) or not _KEY.fullmatch(key):
        raise WrongField("jobId", "must be <platform>.<key>, as given when the job was accepted", job_id)
    return platform, key


def check_platform(name: str) -> str:
    if not _PLATFORM.fullmatch(name):
        raise WrongField(
            "platform", "must have 1 to 32 characters of a-z 0-9 _ -, the first one a letter or a digit", name
        )
    return name


def check_key(key: str, field: str = "id") -> str:
    if not _KEY.fullmatch(key):
        raise WrongField(field, "must have 1 to 64 characters of A-Z a-z 0-9 _ -", key)
    return key


def check_word(word: str, field: str) -> str:
    """Check a kind or the name of a consumer: records and events hold it as it is. Raises `WrongField`."""
    if not _WORD.fullmatch(word):
        raise WrongField(field, "must have 1 to 64 characters of A-Z a-z 0-9 . _ -", word)
    return word
