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
NUMBERS = "scripts cannot pass numbers such as 200,000,000 to commands"
HALF_WRITTEN = (
    "after a crash that cut the append-only file within a script, what is written next is lost at another restart"
)

DEFECTS: tuple[Defect, ...] = (
    # Release notes of Redis 7.0.5, 7.0.11 (its change 11973: an fsync is left out when writes stop during a rewrite of
    # the file) and 7.0.12.
    Defect("redis", (7, 0, 0), (7, 0, 5), "a user of XAUTOCLAIM can damage its memory (CVE-2022-35951)"),
    Defect("redis", (7, 0, 0), (7, 0, 11), "it may not sync its append-only file: a crash loses more", loses=True),
    Defect("redis", (7, 0, 0), (7, 0, 12), "rules about keys of a user can damage its memory (CVE-2023-36824)"),
    # Release notes of Redis 7.2.5 (its change 13115). Valkey 7.2.4 was made of Redis 7.2.4; its 7.2.6 is the first tag
    # with that change.
    Defect("redis", (7, 2, 0), (7, 2, 5), NUMBERS),
    Defect("valkey", (7, 2, 4), (7, 2, 6), NUMBERS),
    # Release notes of Redis 7.4.6, 8.0.4, 8.2.2 and Valkey 8.0.6, 8.1.4; for 7.2.11 of both, the change of their images
    # and packages to it. Redis 7.0 has no release with the remedy; distributions mend it under the old number.
    Defect("redis", (7, 2, 0), (7, 2, 11), SCRIPTS),
    Defect("redis", (7, 4, 0), (7, 4, 6), SCRIPTS),
    Defect("redis", (8, 0, 0), (8, 0, 4), SCRIPTS),
    Defect("redis", (8, 2, 0), (8, 2, 2), SCRIPTS),
    Defect("valkey", (7, 2, 0), (7, 2, 11), SCRIPTS),
    Defect("valkey", (8, 0, 0), (8, 0, 6), SCRIPTS),
    Defect("valkey", (8, 1, 0), (8, 1, 4), SCRIPTS),
    # The record of the CVE, which says 9.0.2; the release notes have it at 9.0.3, so that is where it counts as mended.
    Defect("valkey", (7, 2, 0), (7, 2, 12), ERRORS),
    Defect("valkey", (8, 0, 0), (8, 0, 7), ERRORS),
    Defect("valkey", (8, 1, 0), (8, 1, 6), ERRORS),
    Defect("valkey", (9, 0, 0), (9, 0, 3), ERRORS),
    # Release notes of Valkey 7.2.15, 8.0.11 and 8.1.10 (its change 4342). 9.1.2 was tried: nothing is lost. 9.0.6 is
    # inferred: it was released with these after the change, and its notes could be read only in part.
    Defect("valkey", (7, 2, 0), (7, 2, 15), HALF_WRITTEN, loses=True),
    Defect("valkey", (8, 0, 0), (8, 0, 11), HALF_WRITTEN, loses=True),
    Defect("valkey", (8, 1, 0), (8, 1, 10), HALF_WRITTEN, loses=True),
    Defect("valkey", (9, 0, 0), (9, 0, 6), HALF_WRITTEN, loses=True),
    Defect("valkey", (9, 1, 0), (9, 1, 2), HALF_WRITTEN, loses=True),
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
