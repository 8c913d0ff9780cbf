"""`docs`: the guides and references, which ship inside the package.

setup.py runs this file by itself to write the long description: the standard library is all that it imports above.
"""

import argparse
import re
import sys
from pathlib import Path

ROOMS = ("consumers", "producers", "gateway", "ops", "streams")
HOME = Path(__file__).resolve().parent.parent  # of the rooms: the checkout, or the installed package
RELATIVE_LINK = re.compile(r"(!?)\[([^]]+)\]\((?!\w+:)([^)#]*)(#[^)]*)?\)")


def topics() -> dict[str, Path]:
    """The files by the names that the command takes: `handlers` is consumers/handlers.md, `consumers` its README."""
    files = [path for room in ROOMS for path in sorted((HOME / room).glob("*.md"))]
    return {path.parent.name if path.stem == "README" else path.stem: path for path in files}


def without_relative_links(text: str, folder: Path = HOME) -> str:
    """The text with the command that shows a file in place of each link to it, and without pictures."""
    names = {path: name for name, path in topics().items()}

    def written(link: re.Match[str]) -> str:
        picture, words, file, _ = link.groups()
        name = names.get((folder / file).resolve()) if file else None
        return "" if picture else f"{words} (`tailrace docs {name}`)" if name else words

    return RELATIVE_LINK.sub(written, text)


def run(options: argparse.Namespace) -> int:
    known = topics()
    if options.topic is None:
        for name, path in known.items():
            with path.open(encoding="utf-8") as lines:
                print(f"{name:11}{next(lines).removeprefix('# ').strip()}")
        return 0
    if options.topic not in known:
        from tailrace.ops.hints import meant
        from tailrace.streams.errors import WrongField

        hint = meant(options.topic, known) or "; `tailrace docs` lists all"
        raise WrongField("TOPIC", f"there is no guide {options.topic}{hint}")
    path = known[options.topic]
    text = without_relative_links(path.read_text(encoding="utf-8"), path.parent)
    if sys.stdout.isatty():
        from rich.markdown import Markdown

        from tailrace.ops.terminal import console

        console().print(Markdown(text))
    else:
        print(text, end="")
    return 0
