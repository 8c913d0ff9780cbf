"""The figures of `bench`, how they compare with the raw ones, and how they are written."""

from collections.abc import Iterable

from msgspec import Struct, structs


class Figure(Struct, frozen=True, omit_defaults=True):
    """One measured figure: a value, or the spread of many values."""

    name: str  # which; the word before a dot is the measure's
    what: str  # how it was measured, in a few words
    unit: str
    value: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    beside: str = ""  # the raw figure to compare it with
    of_raw: float | None = None  # its share of that


def rate(name: str, what: str, unit: str, count: int, seconds: float, *, beside: str = "") -> Figure:
    return Figure(name, what, unit, value=round(count / seconds, 1), beside=beside)


def spread(name: str, what: str, unit: str, values: Iterable[float]) -> Figure:
    """The spread of values: each percentile is one of them, the smallest that this share does not exceed."""
    ordered = sorted(values)
    p50, p90, p99 = (round(ordered[max(0, -(-len(ordered) * part // 100) - 1)], 3) for part in (50, 90, 99))
    return Figure(name, what, unit, p50=p50, p90=p90, p99=p99)


def compare(figures: Iterable[Figure]) -> list[Figure]:
    """The figures, each with its share of the raw one it stands beside, where that was measured too."""
    found = {figure.name: figure for figure in figures}
    compared = []
    for figure in found.values():
        raw = found.get(figure.beside)
        if raw and raw.value and figure.value is not None:
            figure = structs.replace(figure, of_raw=round(figure.value / raw.value, 3))
        compared.append(figure)
    return compared


def written(figure: Figure) -> str:
    """For people, so that numbers stand under each other."""
    if figure.value is None:
        return f"{figure.p50:>9,.2f} {figure.unit}  (p90 {figure.p90:,.2f}, p99 {figure.p99:,.2f})"
    digits = 2 if figure.value < 100 else 0
    return f"{figure.value:>9,.{digits}f} {figure.unit}"
