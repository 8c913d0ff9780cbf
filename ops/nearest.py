"""What a mistyped word may have meant."""

from collections.abc import Iterable


def meant(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?` for the known word that is most like this one, else nothing."""
    from difflib import get_close_matches  # only for a mistake: help does not wait for it

    found = get_close_matches(word.lower(), list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""
