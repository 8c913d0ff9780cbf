"""Roles of users of the store: the commands and keys that each must be allowed, and no others.

A user of the store may run scripts, and a script may run what its user may: so a role is kept from an act by a command
that the act needs. A producer cannot claim (XREADGROUP) or take jobs away (XPENDING), a monitor cannot write at all.
"""

import re
from collections.abc import Iterable
from functools import cache
from typing import Final, Literal

from msgspec import Struct

from tailrace.streams.functions import functions, needed_parts, shared
from tailrace.streams.keys import Keyspace

RoleName = Literal["gateway", "consumer", "producer", "operator", "monitor"]

KEYSPACE: Final = Keyspace()

READS: Final = """
EXISTS GET HGET HGETALL HKEYS HLEN HMGET HSCAN LINDEX LLEN LPOS LRANGE PING TIME XINFO|GROUPS XINFO|STREAM XLEN XRANGE
XREAD XREVRANGE ZCARD ZCOUNT ZINTERCARD ZRANGE ZRANK ZSCORE
"""
"""The commands that Python sends by itself to look; those of the scripts are read from the scripts."""

CONNECTING: Final = "INFO SELECT CLUSTER|SLOTS ASKING"  # the last two on clusters
SCRIPTS: Final = "EVAL EVALSHA WAIT"
SESSIONS: Final = "SET GETDEL DEL"
JOBS: Final = ("job", "platforms")

_COMMAND = re.compile(r"(?:call\(|command = { )(?:\w+ and '([A-Z]+)' or )?'([A-Z]+)'(?:, '(?!GROUP')([A-Z]+)')?")


class Role(Struct, frozen=True):
    """The transitions that a role runs, and the other commands that it sends."""

    transitions: tuple[str, ...] | None  # None: all of them
    sends: str = ""
    writes: tuple[str, ...] = JOBS  # keys, by the words of `Keyspace.pattern`
    reads: tuple[str, ...] = ()  # and those that it only looks at


SUBMITTING: Final = ("submit", "cancel", "signal", "note")
ACTING: Final = ("schedule", "unschedule", "reopen", "drop", "pause", "resume", "restart", "configure", "note")
LOOKING: Final = ("tally", "errors", "line")

ROLES: Final[dict[RoleName, Role]] = {
    "gateway": Role(
        (*SUBMITTING, *ACTING, *LOOKING),
        f"HSET {SESSIONS}",
        (*JOBS, "session", "ticket"),
    ),
    "consumer": Role(None, "BLPOP HSET"),
    "producer": Role(SUBMITTING, writes=("job",), reads=("platforms",)),
    "operator": Role(None, "ACL|DRYRUN DBSIZE SCAN HSET HDEL SET DEL", (*JOBS, "incidents", "session")),
    "monitor": Role((), writes=(), reads=JOBS),
}


@cache
def commands(role: RoleName | None = None) -> tuple[str, ...]:
    """Every command that is sent to the store, by a script or by Python, each with its subcommand."""
    if role is None:
        found = commands_of(functions())
        return tuple(sorted({*found, *READS.split(), *SESSIONS.split()}))
    told = ROLES[role]
    found = commands_of(functions() if told.transitions is None else told.transitions)
    return tuple(sorted({*found, *READS.split(), *told.sends.split()}))


def commands_of(transitions: Iterable[str]) -> set[str]:
    """The commands that the scripts of these transitions run."""
    found: set[str] = set()
    for name in transitions:
        function = functions()[name]
        bodies = [function.body, *(shared()[part].body for part in needed_parts(function.uses))]
        for either, *words in _COMMAND.findall("\n".join([shared()["prelude"].body, *bodies])):
            found |= {"|".join(filter(None, words)), *([either] if either else [])}
    return found


def rules(name: RoleName, keyspace: Keyspace = KEYSPACE) -> list[str]:
    """The rules of the user of a role, as ACL SETUSER takes them."""
    role = ROLES[name]
    written = [f"~{keyspace.pattern(word)}" for word in role.writes]
    read = [f"%R~{keyspace.pattern(word)}" for word in role.reads]
    scripts = SCRIPTS if role.transitions != () else ""
    allowed = sorted({*commands(name), *CONNECTING.split(), *scripts.split()})
    return ["resetchannels", "-@all", *written, *read, *(f"+{command.lower()}" for command in allowed)]
