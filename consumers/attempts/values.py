"""Values that the store keeps for later attempts: JSON, typed by the annotation of the function that gave them."""

import functools
import typing
from collections.abc import Awaitable, Callable, Coroutine
from types import MethodType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from tailrace.consumers.attempts.reports import unwritable
from tailrace.streams.messages import encode

LARGEST_VALUE = 256 * 1024  # what the store keeps is read again by each later attempt

AWAITED = (Awaitable, Coroutine)
NOTHING_SAID = (typing.NoReturn, typing.Never)

_types: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # by function: annotations are slow to read


def to_value(what: str, given: Any) -> bytes:
    """The JSON of `given`. Raises a `TypeError` or a `ValueError` that names it with `what`."""
    try:
        value = encode(given)
    except Exception as error:  # encoding runs code of the value's own types
        raise unwritable(what, error) from error
    if len(value) > LARGEST_VALUE:
        raise ValueError(
            f"{what} has {len(value)} bytes; at most 256 KB are kept: store it elsewhere, and keep a reference to it"
        )
    return value


def from_value(what: str, value: bytes, type: Any) -> Any:
    """The value as this type. Raises a `TypeError` that says `what` does not fit."""
    try:
        return msgspec.json.decode(value, type=type)
    except msgspec.ValidationError as error:
        raise TypeError(f"{what} does not fit its type {shown(type)}: {error}") from None


def returned_by(function: Callable[..., Any]) -> Any:
    """The type that a function's annotation promises, awaited if need be; `Any` where it says nothing."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, MethodType):
        function = function.__func__
    elif not hasattr(function, "__code__"):
        function = type(function).__call__
    try:
        if (known := _types.get(function)) is None:
            known = _types[function] = _read(function)
    except TypeError:  # a function written in C
        return Any
    return known


def _read(function: Callable[..., Any]) -> Any:
    hint = getattr(function, "__annotations__", {}).get("return", Any)
    if isinstance(hint, str):
        try:
            names = getattr(function, "__globals__", {})
            hint = typing.get_type_hints(SimpleNamespace(__annotations__={"return": hint}), names)["return"]
        except NameError as error:
            name = getattr(function, "__qualname__", function)
            raise ValueError(f"the annotation of what {name} returns cannot be read: {error}") from None
    if typing.get_origin(hint) in AWAITED:
        hint = typing.get_args(hint)[-1]
    return Any if hint in NOTHING_SAID or isinstance(hint, typing.TypeVar) else hint


def shown(type: Any) -> str:
    return getattr(type, "__name__", None) or str(type)
