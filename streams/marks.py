"""Marks: what a job holds beside its place in line, as a record and a lease carry it: `name=value` words."""


def marks_of(text: str | None) -> dict[str, str]:
    """Marks by name: `order` and `limit` keys, `dedupe`, `keep`, and those of a lease: `alone`, `strict`, `cancel`."""
    return dict(word.split("=", 1) for word in (text or "").split() if "=" in word)
