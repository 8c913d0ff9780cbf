"""Tables that fit into a terminal: ids and names stay whole, other columns grow narrow, then the least leave.

rich draws the table; the widths are ours because rich drops no column, cuts ids where room is short, and narrows
columns below their `min_width` first, so that the table ends up wider than the terminal.
"""

import re
from collections.abc import Sequence

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from tailrace.ops.terminal import PIPE_WIDTH, STYLES, console, plain, say, style_of

GAP = 2  # between two columns
HEADING = 4  # this much of a heading is always shown
SHORT = 10  # a text of this length is not broken into words
WORD = 24  # a word of a column that may be cut stays whole up to here: a time, a type of error
RIGHT = {
    *("seq", "attempt", "elapsed", "lag", "memory", "oldest", "workers", "jobs"),
    *("waiting", "running", "delayed", "awaiting", "completed", "failed", "cancelled"),
}
_FILLING = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$")  # in front of the codes that end a colour


class Rows:
    """The rows of a table, before it is fitted to the terminal."""

    def __init__(
        self,
        columns: Sequence[str],
        whole: Sequence[str] = (),
        leaving: Sequence[str] = (),
        steady: Sequence[str] = (),
    ) -> None:
        """`whole`: columns whose words are never cut, because people copy them. `steady`: columns that are never
        narrowed, heading included: a number or a short time reads badly in pieces. `leaving`: which go first."""
        self.columns = columns
        self._steady = steady
        self.rows: list[list[Text]] = []
        self._whole = whole
        self._leaving = leaving

    def add(self, *cells: object) -> None:
        """A row; a word that names a state is in its colour."""
        self.rows.append(
            [cell if isinstance(cell, Text) else Text(plain(cell or ""), style_of(cell)) for cell in cells]
        )

    def show(self) -> None:
        """Print it on stdout, without the spaces that fill the last column."""
        out = console()
        made, left_out = self.fitted(out.width)
        out.width = PIPE_WIDTH  # a table that is still too wide is wrapped by the terminal: what is copied stays whole
        with out.capture() as captured:
            out.print(made)
        for line in captured.get().splitlines():
            print(_FILLING.sub(r"\1", line))
        if left_out:
            say(f"no room for {', '.join(left_out)}: see --json, or make the terminal wider")

    def fitted(self, room: int) -> tuple[Table, list[str]]:
        """The table, and the columns there was no room for. Where it cannot be helped it is wider than the room."""
        least = [self._least(index) for index in range(len(self.columns))]
        kept = list(range(len(self.columns)))
        left_out = []
        for name in self._leaving:
            if taken(least, kept) <= room:
                break
            kept.remove(self.columns.index(name))
            left_out.append(name)
        widths = [max(map(cell_len, (name, *self._texts(index)))) for index, name in enumerate(self.columns)]
        while taken(widths, kept) > room:
            narrower = [index for index in kept if widths[index] > least[index]]
            if not narrower:
                break
            widths[max(narrower, key=lambda index: widths[index])] -= 1
        made = Table(box=None, pad_edge=False, header_style="dim")
        for index in kept:
            name = self.columns[index]
            made.add_column(name, justify="right" if name in RIGHT else "left", width=widths[index])
        for row in self.rows:
            made.add_row(*(row[index] for index in kept))
        return made, left_out

    def _least(self, index: int) -> int:
        name = self.columns[index]
        if name in self._steady:
            return max(map(cell_len, (name, *self._texts(index))))
        longest = max((cell_len(part) for text in self._texts(index) for part in parts_of(text)), default=0)
        if name in self._whole:
            return max(longest, cell_len(name))
        return max(min(longest, WORD), min(cell_len(name), HEADING))

    def _texts(self, index: int) -> list[str]:
        return [row[index].plain for row in self.rows]


def number(count: int, state: str = "") -> Text:
    """A number of jobs in the colour of their state; 0 is dim."""
    return Text(str(count), STYLES.get(state, "") if count else "dim")


def parts_of(text: str) -> list[str]:
    """The parts of a text that are not broken: words, and the whole of a short text."""
    return [text] if cell_len(text) <= SHORT else text.split()


def taken(widths: Sequence[int], kept: Sequence[int]) -> int:
    return sum(widths[index] for index in kept) + GAP * (len(kept) - 1)
