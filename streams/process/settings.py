"""Settings from the environment: read once, checked at once; a wrong one names itself."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tailrace.streams.errors import BadConfiguration


@contextmanager
def naming(setting: str) -> Iterator[None]:
    """Begin the errors raised inside with the name of the setting that is being read."""
    try:
        yield
    except BadConfiguration as error:
        raise BadConfiguration(f"{setting}: {error}") from error


class Environment:
    """Environment variables by type. Empty counts as unset, but not for a secret.

    A secret may also come from the file that `NAME_FILE` names. One that is empty is an error, never none: a variable
    that was not filled in must not switch access control off.
    """

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        self._variables = os.environ if variables is None else variables

    def text(self, name: str, default: str | None = None) -> str | None:
        return self._variables.get(name, "").strip() or default

    def secret(self, name: str) -> str | None:
        file = f"{name}_FILE"
        if file not in self._variables:
            if name not in self._variables:
                return None
            return self._full(name, "a value")
        path = self._full(file, "the path of a file")
        try:
            secret = _stripped(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise BadConfiguration(f"{file}: cannot read {path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise BadConfiguration(f"{file}: {path} is not UTF-8 text") from None
        if not secret:
            raise BadConfiguration(f"{file}: {path} is empty; write the secret into it, or unset {file}")
        return secret

    def _full(self, name: str, expected: str) -> str:
        if value := _stripped(self._variables[name]):
            return value
        raise BadConfiguration(f"{name} is empty; set it to {expected}, or unset it")

    def number(self, name: str, default: float, *, least: float = 0.0) -> float:
        text = self.text(name)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            raise BadConfiguration(f"{name} is {text!r}; it must be a number") from None
        if not least <= value < float("inf"):
            raise BadConfiguration(f"{name} is {text}; it must be at least {least:g}")
        return value

    def whole(self, name: str, default: int, *, least: int = 0, most: int = 1_000_000) -> int:
        text = self.text(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise BadConfiguration(f"{name} is {text!r}; it must be a whole number from {least} to {most}")
        return int(text)

    def words(self, name: str) -> tuple[str, ...]:
        """Comma separated, trimmed, empty parts dropped."""
        return tuple(part for part in (p.strip() for p in (self.text(name) or "").split(",")) if part)

    def choice(self, name: str, default: str, among: tuple[str, ...]) -> str:
        value = (self.text(name) or default).lower()
        if value not in among:
            raise BadConfiguration(f"{name} is {value!r}; it must be one of {', '.join(among)}")
        return value


def _stripped(text: str) -> str:
    """Without white space around it, and without the mark (BOM) that some editors put in front of a file."""
    return text.strip().lstrip("\ufeff").strip()
