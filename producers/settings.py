"""The settings of every program: its store, its platforms and schedules, from the environment and a file."""

import logging
import re
import tomllib
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any, Self, get_args

import msgspec
from msgspec import Struct

from tailrace.producers.kinds import ALL_KINDS, NO_BUILT_INS, Kinds
from tailrace.producers.platforms import BUILT_IN
from tailrace.streams.errors import BadConfiguration, WrongField
from tailrace.streams.keys import Keyspace
from tailrace.streams.policies import Durability, Platforms
from tailrace.streams.process.settings import Environment, naming
from tailrace.streams.schedules import Schedule
from tailrace.streams.store.addresses import CLUSTER_SCHEMES, SENTINEL_SCHEMES
from tailrace.streams.store.connection import ANSWER_SECONDS, Store
from tailrace.streams.store.kept_policies import digest
from tailrace.streams.store.replication import ReplicaTerms
from tailrace.streams.validation import sentence_of

SCHEMES = ("redis://", "rediss://", "unix://", *SENTINEL_SCHEMES, *CLUSTER_SCHEMES)
TABLES = ("platforms", "schedules")  # the tables of a configuration file
SWITCH = "builtins"  # whether the built-in platforms, kinds and routes are there
NAMESPACE = "namespace"  # the other key of such a file
NEW_NAMES = {"overall": "max_running", "per_process": "max_running_per_process", "key_overall": "max_running_per_key"}

log = logging.getLogger("tailrace.settings")  # not structlog: a command that configures no logs warns on stderr


class StreamsSettings(Struct, frozen=True):
    """The URL of the store, and the declared platforms and schedules."""

    url: str | None  # REDIS_URL, else made of REDIS_HOST and REDIS_PORT; None: not set
    platforms: Platforms  # the built-in ones, TAILRACE_PLATFORMS and those of TAILRACE_CONFIG
    namespace: str = ""  # TAILRACE_NAMESPACE, else that of TAILRACE_CONFIG
    schedules: tuple[Schedule, ...] = ()  # those of TAILRACE_CONFIG
    file: str = ""  # the name of the setting TAILRACE_CONFIG with its value, for later errors about it
    builtins: bool = True  # whether the built-in platforms, kinds and their routes are there
    configured: dict[str, str] = {}  # platform that TAILRACE_CONFIG has a table for -> digest of what that says
    terms: ReplicaTerms = ReplicaTerms()  # TAILRACE_DURABILITY, TAILRACE_REPLICAS, TAILRACE_REPLICAS_MS

    @property
    def kinds(self) -> Kinds:
        """The kinds whose args are known before a consumer has the job."""
        return ALL_KINDS if self.builtins else NO_BUILT_INS

    def keyspace(self, url: str) -> Keyspace:
        """The names of what is kept in the store at this address."""
        with naming(self.file):
            return Keyspace(self.namespace, self.platforms.tags(clustered=url.startswith(CLUSTER_SCHEMES)))

    def open(self, url: str, answer_seconds: float = ANSWER_SECONDS) -> Store:
        """The store at this address, as these settings describe it."""
        return Store(url, self.keyspace(url), answer_seconds=answer_seconds, policies=self.platforms, terms=self.terms)

    @classmethod
    def read(cls, environment: Environment | None = None) -> Self:
        env = environment or Environment()
        path = env.text("TAILRACE_CONFIG")
        file = f"TAILRACE_CONFIG: {path}" if path else ""
        config = _config(path) if path else {}
        builtins = config.get(SWITCH, True)
        if not isinstance(builtins, bool):
            raise BadConfiguration(f"{file}: {SWITCH} is {builtins!r}; it must be true or false")
        with naming("TAILRACE_PLATFORMS"):
            platforms = (BUILT_IN if builtins else Platforms()).declare(env.words("TAILRACE_PLATFORMS"))
        schedules: tuple[Schedule, ...] = ()
        with naming(file):
            tables = _by_new_names(_tables(config, "platforms"))
            platforms = platforms.configure(tables)
            schedules = _schedules(_tables(config, "schedules"), platforms)
            if not platforms:
                raise BadConfiguration(f"{SWITCH} is false and there is no platform; add a table [platforms.NAME]")
        return cls(
            url=_url(env),
            platforms=platforms,
            namespace=_namespace(env, config.get(NAMESPACE, ""), file),
            schedules=schedules,
            file=file,
            builtins=builtins,
            configured={name: digest(platforms[name], table) for name, table in tables.items()},
            terms=ReplicaTerms(
                replicas=env.whole("TAILRACE_REPLICAS", 1, least=1, most=100),
                wait_ms=env.whole("TAILRACE_REPLICAS_MS", 1000, least=1, most=60_000),
                everywhere=env.choice("TAILRACE_DURABILITY", "primary", get_args(Durability)) == "replicated",
            ),
        )


def _namespace(env: Environment, in_file: Any, file: str) -> str:
    given = env.text("TAILRACE_NAMESPACE")
    with naming("TAILRACE_NAMESPACE" if given else f"{file}: {NAMESPACE}"):
        if not isinstance(in_file, str):
            raise BadConfiguration(f"must be text, not {in_file!r}")
        return Keyspace(given or in_file).namespace


def _url(env: Environment) -> str | None:
    url = env.secret("REDIS_URL")
    if env.text("REDIS_PORT") and not env.text("REDIS_HOST"):
        raise BadConfiguration("REDIS_PORT is set without REDIS_HOST; set both, or set REDIS_URL")
    if url is None and (host := env.text("REDIS_HOST")):
        url = f"redis://{_host(host)}:{env.whole('REDIS_PORT', 6379, least=1, most=65535)}"
    if url is not None and not url.startswith(SCHEMES):
        scheme, found, _ = url.partition("://")
        begins = f"begins with {scheme}://" if found else "has no scheme"  # then all of it may be a password
        raise BadConfiguration(f"REDIS_URL {begins}; expected redis://host:port/0, or one of {', '.join(SCHEMES[1:])}")
    return url


def _host(name: str) -> str:
    """A host as a URL takes it. The error does not repeat a wrong one: it may be an address with a password."""
    if re.fullmatch(r"[\w.-]+", name):
        return name
    try:
        return f"[{IPv6Address(name)}]"
    except ValueError:
        raise BadConfiguration("REDIS_HOST is not a host name; put a whole URL into REDIS_URL") from None


def _config(path: str) -> dict[str, Any]:
    try:
        with Path(path).open("rb") as file:
            tables = tomllib.load(file)
    except OSError as error:
        raise BadConfiguration(f"TAILRACE_CONFIG: cannot read {path}: {error.strerror}") from None
    except ValueError as error:  # no TOML, or no UTF-8
        raise BadConfiguration(f"TAILRACE_CONFIG: {path} is not TOML: {error}") from None
    if unknown := tables.keys() - {*TABLES, SWITCH, NAMESPACE}:
        raise BadConfiguration(
            f"TAILRACE_CONFIG: {path} has a table {sorted(unknown)[0]!r}; known are {', '.join(TABLES)} and `namespace`"
        )
    return tables


def _tables(config: dict[str, Any], name: str) -> dict[str, Any]:
    tables = config.get(name, {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise BadConfiguration(f"{name}: write each as a table [{name}.NAME]")
    return tables


def _by_new_names(tables: dict[str, Any]) -> dict[str, Any]:
    """The tables of platforms with the present names of their settings; an old name is read, with a warning."""
    for platform, fields in tables.items():
        for old, new in NEW_NAMES.items():
            if old in fields:
                if new in fields:
                    raise BadConfiguration(f"platform {platform}: {old} is the old name of {new}; remove {old}")
                log.warning("platform %s: %s is the old name of %s; rename it in TAILRACE_CONFIG", platform, old, new)
                fields[new] = fields.pop(old)
    return tables


def _schedules(table: dict[str, Any], platforms: Platforms) -> tuple[Schedule, ...]:
    """The `[schedules.NAME]` tables of a configuration file."""
    found = []
    for name, fields in table.items():
        try:
            schedule = msgspec.convert({**fields, "name": name, "in_file": True}, Schedule)
            platforms.known(schedule.platform)
        except msgspec.ValidationError as error:
            raise BadConfiguration(f"schedule {name}: {sentence_of(error, Schedule)}") from None
        except WrongField as error:
            raise BadConfiguration(f"schedule {name}: {error}") from None
        found.append(schedule)
    return tuple(found)
