"""Which command to try next, as it is typed: on the same data folder as the one that tells it."""

import shlex
from pathlib import Path

DEFAULT_DATA = Path(".tailrace")


def command(words: str, data: Path) -> str:
    """`words` are ready for a shell. The folder is said only where it is not the default."""
    place = "" if data == DEFAULT_DATA else f" --data {shlex.quote(str(data))}"
    from tailrace.streams.process.launch import PROGRAM  # not above: help imports no package

    return f"{PROGRAM} {words}{place}"
