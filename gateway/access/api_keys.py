"""API keys, of which only hashes are kept, each with scopes and, if it is limited, platforms."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, Self

from msgspec import Struct

from tailrace.gateway.problems import Code, Refusal
from tailrace.streams.errors import BadConfiguration

SETTING: Final = "TAILRACE_API_KEYS"
CALLER: Final = "tailrace.caller"  # where a request's scope holds the key that it came with
KEY_MARK: Final = "trk_"  # a new key begins with it, so that logs can mask it and scanners of code find it
LEAST_LENGTH: Final = 16  # of a secret: a shorter one can be guessed

_SECRET = re.compile(r"[!-+\--9;-~]+")  # visible, without the comma and the colon that part entries and their parts
_HASH = re.compile(r"sha256=([0-9a-fA-F]{64})")


class Scope(StrEnum):
    """The scope of a key: what it allows."""

    SUBMIT = "submit"  # submit jobs
    READ = "read"  # see jobs, platforms, workers, live or not
    ACT = "act"  # cancel, retry, drop, pause, resume, replay, schedules
    ADMIN = "admin"  # all of it, and restart


class Key(Struct, frozen=True):
    """One key. Its secret is not kept; its name is made of the hash and is not secret."""

    name: str
    digest: bytes
    scopes: frozenset[Scope] = frozenset(Scope)
    platforms: frozenset[str] | None = None  # None: all of them

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.ADMIN in self.scopes

    def __repr__(self) -> str:
        return f"Key({self.name})"


class Keys:
    """Every key of this deployment. Several at once let clients change from an old key to a new one."""

    def __init__(self, keys: Sequence[Key] = ()) -> None:
        self._keys = tuple(keys)
        self._by_name = {key.name: key for key in self._keys}

    @classmethod
    def read(cls, text: str, platforms: Iterable[str]) -> Self:
        """Read entries `KEY[:scopes[:platforms]]`. An error names a wrong entry by its place, never by its text.

        A text without any entry is an error: the gateway would serve every caller.
        """
        entries = [entry for line in text.splitlines() for part in line.split(",") if (entry := part.strip())]
        if not entries:
            raise BadConfiguration(f"{SETTING} has no key in it; `tailrace keys new` makes one; without keys, unset it")
        known = frozenset(platforms)
        keys = [_key(entry, f"{SETTING}: entry {place}", known) for place, entry in enumerate(entries, 1)]
        if len({key.digest for key in keys}) < len(keys):
            raise BadConfiguration(f"{SETTING}: two entries have the same secret; write it once, with all its scopes")
        return cls(keys)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def limited_to(self) -> set[frozenset[str]]:
        """Every choice of platforms that some key is limited to."""
        return {key.platforms for key in self._keys if key.platforms is not None}

    def find(self, secret: bytes) -> Key | None:
        """The key of a secret. Every key is compared, each in the same time: how long it takes tells nothing."""
        digest = hashlib.sha256(secret).digest()
        found = None
        for key in self._keys:
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found

    def named(self, name: str) -> Key | None:
        return self._by_name.get(name)

    def __repr__(self) -> str:
        return f"{len(self)} keys"


NO_KEYS: Final = Keys()


def new_secret() -> str:
    return KEY_MARK + secrets.token_urlsafe(32)


def entry_of(secret: str) -> str:
    """The entry that names a secret by its hash."""
    return f"sha256={hashlib.sha256(secret.encode()).hexdigest()}"


def _key(entry: str, where: str, known: frozenset[str]) -> Key:
    secret, *rest = entry.split(":")
    if len(rest) > 2:
        raise BadConfiguration(f"{where} has more than three parts; write KEY:scopes:platforms, no colon in KEY")
    if rest and not rest[-1]:  # a variable that was not set would make a key for everything of one for something
        raise BadConfiguration(f"{where} ends with a colon; leave it out, or say what the key is limited to")
    scopes = rest[0].split("+") if rest and rest[0] else []
    if any(word not in set(Scope) for word in scopes):
        raise BadConfiguration(f"{where} has an unknown scope; known are {', '.join(Scope)}, joined by +")
    names = rest[1].split("+") if len(rest) == 2 else []
    if any(name not in known for name in names):
        raise BadConfiguration(f"{where}: a platform in it is not declared; known are {', '.join(sorted(known))}")
    digest = _digest(secret, where)
    name = hashlib.sha256(b"name of " + digest).hexdigest()[:16]
    return Key(name, digest, frozenset(map(Scope, scopes or Scope)), frozenset(names) or None)


def _digest(secret: str, where: str) -> bytes:
    if hashed := _HASH.fullmatch(secret):
        return bytes.fromhex(hashed[1])
    if secret.startswith("sha256="):
        raise BadConfiguration(f"{where}: sha256= is followed by the 64 hexadecimal digits of the secret's hash")
    if len(secret) < LEAST_LENGTH or not _SECRET.fullmatch(secret):
        raise BadConfiguration(
            f"{where}: a key has {LEAST_LENGTH} or more visible ASCII characters, without comma and colon; "
            "`tailrace keys new` makes one"
        )
    return hashlib.sha256(secret.encode()).digest()


def bearer(headers: list[tuple[bytes, bytes]]) -> bytes | None:
    """The secret in the header `Authorization`; None: there is no such header, empty: another scheme."""
    for name, value in headers:
        if name == b"authorization":
            scheme, _, secret = value.partition(b" ")
            return secret.strip() if scheme.lower() == b"bearer" else b""
    return None


def known(key: Key | None, detail: str = "this key is not valid") -> Key:
    if key is None:
        raise unauthorized(detail)
    return key


def unauthorized(detail: str = "this request needs a valid API key") -> Refusal:
    return Refusal(Code.UNAUTHORIZED, detail, {"WWW-Authenticate": "Bearer"})
