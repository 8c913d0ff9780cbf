"""Settings from the environment: read once, checked at once; a wrong one names itself."""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any, Self

import msgspec
from msgspec import Struct

from tailrace.streams.errors import BadConfiguration, WrongField
from tailrace.streams.policies import Platforms
from tailrace.streams.schedules import Schedule
from tailrace.streams.validation import sentence_of

SCHEMES = ("redis://", "rediss://", "unix://")


TABLES = ("platforms", "schedules")  # what a configuration file may hold


@contextmanager
def naming(setting: str) -> Iterator[None]:
    """Put the setting that is being read in front of what is found wrong with it."""
    try:
        yield
    except BadConfiguration as error:
        raise BadConfiguration(f"{setting}: {error}") from error


class Environment:
    """Environment variables by type. Empty counts as unset, but not for a secret.

    A secret may also come from the file that `NAME_FILE` names. One that is empty is an error, never none: a variable
    that was not filled in must not open a door.
    """

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        self._variables = os.environ if variables is None else variables

    def text(self, name: str, default: str | None = None) -> str | None:
        return self._variables.get(name, "").strip() or default

    def secret(self, name: str) -> str | None:
        file = f"{name}_FILE"
        if file not in self._variables:
            if name not in self._variables:
                return None
            return self._full(name, "a value")
        path = self._full(file, "the path of a file")
        try:
            secret = _stripped(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise BadConfiguration(f"{file}: cannot read {path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise BadConfiguration(f"{file}: {path} is not UTF-8 text") from None
        if not secret:
            raise BadConfiguration(f"{file}: {path} is empty; write the secret into it, or unset {file}")
        return secret

    def _full(self, name: str, expected: str) -> str:
        if value := _stripped(self._variables[name]):
            return value
        raise BadConfiguration(f"{name} is empty; set it to {expected}, or unset it")

    def number(self, name: str, default: float, *, least: float = 0.0) -> float:
        text = self.text(name)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            raise BadConfiguration(f"{name} is {text!r}; it must be a number") from None
        if not least <= value < float("inf"):
            raise BadConfiguration(f"{name} is {text}; it must be at least {least:g}")
        return value

    def whole(self, name: str, default: int, *, least: int = 0, most: int = 1_000_000) -> int:
        text = self.text(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise BadConfiguration(f"{name} is {text!r}; it must be a whole number from {least} to {most}")
        return int(text)

    def words(self, name: str) -> tuple[str, ...]:
        """Comma separated, trimmed, empty parts dropped."""
        return tuple(part for part in (p.strip() for p in (self.text(name) or "").split(",")) if part)

    def choice(self, name: str, default: str, among: tuple[str, ...]) -> str:
        value = (self.text(name) or default).lower()
        if value not in among:
            raise BadConfiguration(f"{name} is {value!r}; it must be one of {', '.join(among)}")
        return value


def _stripped(text: str) -> str:
    """Without white space around it, and without the mark (BOM) that some editors put in front of a file."""
    return text.strip().lstrip("\ufeff").strip()


class StreamsSettings(Struct, frozen=True):
    """Where the store is, and which platforms there are."""

    url: str | None  # REDIS_URL, else made of REDIS_HOST and REDIS_PORT; None: nobody said
    platforms: Platforms  # the built-in ones, TAILRACE_PLATFORMS and those of TAILRACE_CONFIG
    schedules: tuple[Schedule, ...] = ()  # those of TAILRACE_CONFIG
    file: str = ""  # the name of the setting TAILRACE_CONFIG with its value, for whoever finds more wrong with it

    @classmethod
    def read(cls, environment: Environment | None = None) -> Self:
        env = environment or Environment()
        with naming("TAILRACE_PLATFORMS"):
            platforms = Platforms().declare(env.words("TAILRACE_PLATFORMS"))
        schedules: tuple[Schedule, ...] = ()
        file = ""
        if path := env.text("TAILRACE_CONFIG"):
            file = f"TAILRACE_CONFIG: {path}"
            config = _config(path)
            with naming(file):
                platforms = platforms.configure(_tables(config, "platforms"))
                schedules = _schedules(_tables(config, "schedules"), platforms)
        return cls(url=_url(env), platforms=platforms, schedules=schedules, file=file)


def _url(env: Environment) -> str | None:
    url = env.secret("REDIS_URL")
    if env.text("REDIS_PORT") and not env.text("REDIS_HOST"):
        raise BadConfiguration(
            "REDIS_PORT is set without REDIS_HOST; say where the store is with both, or with REDIS_URL"
        )
    if url is None and (host := env.text("REDIS_HOST")):
        url = f"redis://{_host(host)}:{env.whole('REDIS_PORT', 6379, least=1, most=65535)}"
    if url is not None and not url.startswith(SCHEMES):
        scheme, found, _ = url.partition("://")
        begins = f"begins with {scheme!r}" if found else "has no scheme"  # then all of it may be a password
        raise BadConfiguration(f"REDIS_URL {begins}; this version serves {', '.join(SCHEMES)}")
    return url


def _host(name: str) -> str:
    """A host as a URL takes it. What is none is not repeated: it may be an address with a password."""
    if re.fullmatch(r"[\w.-]+", name):
        return name
    try:
        return f"[{IPv6Address(name)}]"
    except ValueError:
        raise BadConfiguration("REDIS_HOST is no name of a host; a whole address is given with REDIS_URL") from None


def _config(path: str) -> dict[str, Any]:
    try:
        with Path(path).open("rb") as file:
            tables = tomllib.load(file)
    except OSError as error:
        raise BadConfiguration(f"TAILRACE_CONFIG: cannot read {path}: {error.strerror}") from None
    except ValueError as error:  # no TOML, or no UTF-8
        raise BadConfiguration(f"TAILRACE_CONFIG: {path} is not TOML: {error}") from None
    if unknown := tables.keys() - TABLES:
        raise BadConfiguration(
            f"TAILRACE_CONFIG: {path} has a table {sorted(unknown)[0]!r}; known are {', '.join(TABLES)}"
        )
    return tables


def _tables(config: dict[str, Any], name: str) -> dict[str, Any]:
    tables = config.get(name, {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise BadConfiguration(f"{name}: write each as a table [{name}.NAME]")
    return tables


def _schedules(table: dict[str, Any], platforms: Platforms) -> tuple[Schedule, ...]:
    """The `[schedules.NAME]` tables of a configuration file."""
    found = []
    for name, fields in table.items():
        try:
            schedule = msgspec.convert({**fields, "name": name}, Schedule)
            platforms.known(schedule.platform)
        except msgspec.ValidationError as error:
            raise BadConfiguration(f"schedule {name}: {sentence_of(error, Schedule)}") from None
        except WrongField as error:
            raise BadConfiguration(f"schedule {name}: {error}") from None
        found.append(schedule)
    return tuple(found)
