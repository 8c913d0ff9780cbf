"""Checks of fields, declared once in their types; a refusal is the name of a field and a sentence."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec import Meta, Struct, inspect

from tailrace.streams.errors import WrongField

NAMES = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}
MOST_SHOWN = 60  # characters of a wrong word
FEW = 12  # fields that a sentence lists

COUNTED = {"str": "character", "array": "item", "object": "field"}
BOUNDS = {">=": "{} or more", "<=": "{} or less", ">": "above {}", "<": "below {}"}

_PLACE = re.compile(r"(?P<text>.*) - at `(?:key` in `)?\$\.?(?P<path>.*)`", re.DOTALL)
_OTHER_TYPE = re.compile(r"Expected `(?P<wanted>[^`]+)`, got `(?P<got>[^`]+)`")
_LENGTH = re.compile(r"Expected `(?P<kind>\w+)` of length (?P<bound><=|>=) (?P<count>\d+)")
_BOUND = re.compile(r"Expected `(?:int|float)` (?P<bound><=|>=|<|>) (?P<limit>\S+)")
_FIELD = re.compile(r"Object (?P<what>missing required|contains unknown) field `(?P<name>.*)`", re.DOTALL)


def allowed(check: Callable[[Any], object], refusal: str, **schema: Any) -> Meta:
    """Annotate a field with its check: `check_fields` refuses with this sentence; OpenAPI shows `schema`."""
    return Meta(extra={"check": check, "refusal": refusal}, extra_json_schema=schema)


def between(least: float, most: float, refusal: str = "") -> Meta:
    """The range of a number."""
    sentence = refusal or f"must be from {least} to {most}"
    return allowed(lambda value: least <= value <= most, sentence, minimum=least, maximum=most)


def check_fields(said: Struct, root: str = "") -> None:
    """Refuse a value that its field's type does not allow. Raises `WrongField` with the path from `root`."""
    for name, check, refusal in _checks(type(said)):
        value = getattr(said, name)
        if value is not None and not _fits(check, value):
            raise WrongField(root + name, refusal, value)


def _fits(check: Callable[[Any], object], value: Any) -> object:
    try:
        return check(value)
    except TypeError:  # from Python a value may have any type
        return False


@cache
def _checks(kind: type[Struct]) -> tuple[tuple[str, Callable[[Any], object], str], ...]:
    return tuple(
        (field.name, *rule) for field in msgspec.structs.fields(kind) for rule in _rules(inspect.type_info(field.type))
    )


def _rules(kind: inspect.Type) -> Iterator[tuple[Callable[[Any], object], str]]:
    if isinstance(kind, inspect.UnionType):
        for each in kind.types:
            yield from _rules(each)
    elif isinstance(kind, inspect.LiteralType):
        yield kind.values.__contains__, f"must be one of {', '.join(map(str, kind.values))}"
    elif isinstance(kind, inspect.Metadata) and kind.extra:
        yield kind.extra["check"], kind.extra["refusal"]


def field_of(error: msgspec.ValidationError, root: str, shape: Any = None) -> tuple[str, str]:
    """The field a validation error is about, as a path from `root`, and what is wrong with it.

    `shape` is the type that did not fit: the sentence lists the words that it allows.
    """
    text, inner = str(error), ""
    if found := _PLACE.fullmatch(text):
        text, inner = found["text"], found["path"]
    if named := _FIELD.fullmatch(text):
        inner = f"{inner}.{named['name']}" if inner else named["name"]
    return ".".join(filter(None, (root, inner))), _sentence(text, inner, shape)


def sentence_of(error: msgspec.ValidationError, shape: Any = None) -> str:
    """A validation error as one sentence, with the field in front if it is about one."""
    return ": ".join(filter(None, field_of(error, "", shape)))


def _sentence(text: str, inner: str, shape: Any) -> str:
    if found := _FIELD.fullmatch(text):
        return "is missing" if found["what"].startswith("missing") else f"is not a known field{_hint(inner, shape)}"
    if found := _OTHER_TYPE.fullmatch(text):
        return f"must be {_names(found['wanted'])}, not {_names(found['got'])}"
    if found := _LENGTH.fullmatch(text):
        return _length(found["kind"], found["bound"], int(found["count"]))
    if found := _BOUND.fullmatch(text):
        return f"must be {BOUNDS[found['bound']].format(found['limit'].removesuffix('.0'))}"
    if text.startswith("Invalid enum value "):
        words = _choices(inspect.type_info(shape), inner.split(".")) if shape else ()
        given = text.removeprefix("Invalid enum value ")[:MOST_SHOWN]
        return f"must be one of {', '.join(map(str, words))}, not {given}" if words else f"is an unknown word, {given}"
    if text == "Number out of range":
        return "is a number beyond all bounds"
    return text.replace("`", "'")


def _hint(path: str, shape: Any) -> str:
    """The known field that is most like the last one of a path; all of them if they are few."""
    from difflib import get_close_matches  # for errors only

    *above, name = path.split(".")
    known = _fields(inspect.type_info(shape), above) if shape else ()
    if likely := get_close_matches(name[:MOST_SHOWN], known, 1):
        return f"; did you mean {likely[0]}?"
    return f"; known are {', '.join(known)}" if 0 < len(known) <= FEW else ""


def _fields(kind: inspect.Type, names: Sequence[str]) -> Sequence[str]:
    """The names of the fields of the struct at this path."""
    if isinstance(kind, inspect.UnionType):
        return next((found for each in kind.types if (found := _fields(each, names))), ())
    if isinstance(kind, inspect.Metadata):
        return _fields(kind.type, names)
    if not isinstance(kind, inspect.StructType):
        return ()
    if not names:
        return tuple(field.encode_name for field in kind.fields)
    return next((_fields(field.type, names[1:]) for field in kind.fields if field.encode_name == names[0]), ())


def _names(types: str) -> str:
    return " or ".join(NAMES.get(name, name) for name in types.split(" | "))


def _length(kind: str, bound: str, count: int) -> str:
    if bound == ">=" and count == 1:
        return "must not be empty"
    unit = COUNTED.get(kind, "item") + ("" if count == 1 else "s")
    return f"must have at least {count} {unit}" if bound == ">=" else f"may have at most {count} {unit}"


def _choices(kind: inspect.Type, names: Sequence[str]) -> Sequence[Any]:
    """The words that the field of this path may be."""
    if isinstance(kind, inspect.UnionType):
        return next((found for each in kind.types if (found := _choices(each, names))), ())
    if isinstance(kind, inspect.Metadata):
        return _choices(kind.type, names)
    if isinstance(kind, inspect.StructType) and names:
        return next((_choices(field.type, names[1:]) for field in kind.fields if field.encode_name == names[0]), ())
    if isinstance(kind, inspect.LiteralType):
        return kind.values
    return tuple(member.value for member in kind.cls) if isinstance(kind, inspect.EnumType) else ()
