"""The code of our guides: each Python block begins with a comment that names its file."""

import re
from pathlib import Path

from tailrace.ops.bootstrap import CHECKOUT

BLOCK = re.compile(r"^```(python|toml)\n# ([\w./]+)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def text_of(guide: str) -> str:
    return (CHECKOUT / guide).read_text(encoding="utf-8")


def files_of(guide: str) -> dict[str, str]:
    """The files of a guide by their name."""
    return {name: code for _, name, code in BLOCK.findall(text_of(guide))}


def write(folder: Path, *guides: str) -> None:
    for guide in guides:
        for name, code in files_of(guide).items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(code)
