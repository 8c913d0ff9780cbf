"""Hints: the next command as it is typed, on the same data folder, and the word most like a mistyped one.

Nothing is imported above that help does not need.
"""

import shlex
from collections.abc import Iterable
from pathlib import Path

DEFAULT_DATA = Path(".tailrace")


def command(words: str, data: Path) -> str:
    """`words` are ready for a shell. The folder is said only where it is not the default."""
    from tailrace.streams.process.launch import PROGRAM

    place = "" if data == DEFAULT_DATA else f" --data {shlex.quote(str(data))}"
    return f"{PROGRAM} {words}{place}"


def meant(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?` for the known word that is most like this one, else nothing."""
    from difflib import get_close_matches

    found = get_close_matches(word.lower(), list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""
