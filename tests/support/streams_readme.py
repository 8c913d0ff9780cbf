"""The tables of streams/README.md."""

from pathlib import Path

README = (Path(__file__).parents[2] / "streams" / "README.md").read_text(encoding="utf-8")
NONE = "\N{EN DASH}"


def table(title: str) -> dict[str, list[str]]:
    """The rows of the table under a title, by their first cell."""
    section = README.split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return {first.strip(): [cell.strip() for cell in rest] for first, *rest in rows[2:]}
