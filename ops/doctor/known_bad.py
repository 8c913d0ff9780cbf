"""Versions of servers that are known to lose data or to crash by what Tailrace does, as their release notes tell."""

from collections.abc import Iterator

from msgspec import Struct

from tailrace.ops.doctor.finding import Finding, advice, wrong

Version = tuple[int, ...]


class Defect(Struct, frozen=True):
    """A defect of one line of releases: from its first version up to the one that has the remedy."""

    server: str
    since: Version
    fixed: Version
    does: str
    loses: bool = (
        False  # whether ordinary work loses jobs or crashes the server; else only an attacker with a login can
    )


SCRIPTS = "a user who may run scripts can run code on the server (CVE-2025-49844)"
ERRORS = "a user who may run scripts can write into the answers to others (CVE-2025-67733)"
HALF_WRITTEN = (
    "after a crash that cut the append-only file within a script, what is written next is lost at another restart"
)

DEFECTS: tuple[Defect, ...] = (
    Defect("redis", (7, 0, 0), (7, 0, 5), "to take over a job whose entry was deleted can crash it", loses=True),
    Defect("redis", (7, 0, 0), (7, 0, 11), "it may not sync its append-only file: a crash loses more", loses=True),
    Defect("redis", (7, 0, 0), (7, 0, 12), "rules about keys of a user can damage its memory (CVE-2023-36824)"),
    Defect("redis", (7, 2, 0), (7, 2, 5), "scripts cannot pass numbers such as 200,000,000 to commands"),
    Defect("redis", (7, 2, 0), (7, 2, 11), SCRIPTS),
    Defect("redis", (7, 4, 0), (7, 4, 6), SCRIPTS),
    Defect("redis", (8, 0, 0), (8, 0, 4), SCRIPTS),
    Defect("redis", (8, 2, 0), (8, 2, 2), SCRIPTS),
    Defect("valkey", (7, 2, 0), (7, 2, 11), SCRIPTS),
    Defect("valkey", (8, 0, 0), (8, 0, 6), SCRIPTS),
    Defect("valkey", (8, 1, 0), (8, 1, 4), SCRIPTS),
    Defect("valkey", (7, 2, 0), (7, 2, 12), ERRORS),
    Defect("valkey", (8, 0, 0), (8, 0, 7), ERRORS),
    Defect("valkey", (8, 1, 0), (8, 1, 6), ERRORS),
    Defect("valkey", (9, 0, 0), (9, 0, 2), ERRORS),
    Defect("valkey", (7, 2, 0), (7, 2, 15), HALF_WRITTEN, loses=True),
    Defect("valkey", (8, 0, 0), (8, 0, 11), HALF_WRITTEN, loses=True),
    Defect("valkey", (8, 1, 0), (8, 1, 10), HALF_WRITTEN, loses=True),
    Defect("valkey", (9, 0, 0), (9, 0, 6), HALF_WRITTEN, loses=True),
)


def check_version(server: str, version: str) -> Iterator[Finding]:
    """The known defects of this version, each with the one that is free of it."""
    parts = version.split(".")
    if not all(part.isascii() and part.isdigit() for part in parts):
        return
    number = tuple(map(int, parts))
    for defect in DEFECTS:
        if defect.server == server and defect.since <= number < defect.fixed:
            says = f"{server} {version}: {defect.does}"
            upgrade = f"upgrade to {server} {'.'.join(map(str, defect.fixed))}, or see that your distribution mended it"
            yield (wrong if defect.loses else advice)("version", says, upgrade)
