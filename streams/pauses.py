"""Pausing a platform, and the note that says who paused it and when."""

from typing import NamedTuple

from tailrace.streams.errors import WrongField
from tailrace.streams.history.events import iso
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.operations import AuditNote
from tailrace.streams.options import at_ms
from tailrace.streams.store.server import read_clock
from tailrace.streams.transitions import Transitions


class Paused(NamedTuple):
    """A paused platform: who paused it first, and since when."""

    already: bool
    by: str | None
    since: str | None


async def pause_platform(
    transitions: Transitions, keys: PlatformKeys, by: str | None, kept: AuditNote | None = None
) -> Paused:
    """Start no more jobs of a platform. One that is paused already keeps its note."""
    word = await transitions.pause(keys, pause_note(by, iso(await read_clock(transitions.store, keys))), kept)
    note = await transitions.store.command("HGET", keys["control"], "paused")
    return Paused(word == "again", *read_pause(note))


def pause_note(by: str | None, since: str) -> str:
    """The stored note about who paused a platform and when."""
    return f"{since} {by}" if by else since


def read_pause(note: bytes | None) -> tuple[str | None, str | None]:
    """Decode the note of a pause; any other text is taken for the name."""
    text = (note or b"").decode(errors="replace")
    since, _, by = text.partition(" ")
    try:
        return (by or None, since) if at_ms(since, "since") else (text or None, None)
    except WrongField:
        return text or None, None
