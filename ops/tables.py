"""How a table fits into a terminal: ids and names stay whole, other columns grow narrow, then the least leave."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

GAP = 2  # between two columns
HEADING = 4  # so much of a heading is always there
WORD = 24  # a word of a column that may be cut stays whole up to here: a time, a type of error
RIGHT = {"seq", "attempt", "elapsed"}


class Rows:
    """What is to be shown, before anybody knows how wide the terminal is."""

    def __init__(self, columns: Sequence[str], whole: Sequence[str], leaving: Sequence[str]) -> None:
        """`whole`: columns whose words are never cut, for people copy them. `leaving`: who goes first."""
        self.columns = columns
        self.rows: list[list[Text]] = []
        self._whole = whole
        self._leaving = leaving

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
        longest = max((cell_len(word) for text in self._texts(index) for word in text.split()), default=0)
        return max(longest if name in self._whole else min(longest, WORD), min(cell_len(name), HEADING))

    def _texts(self, index: int) -> list[str]:
        return [row[index].plain for row in self.rows]


def taken(widths: Sequence[int], kept: Sequence[int]) -> int:
    return sum(widths[index] for index in kept) + GAP * (len(kept) - 1)
