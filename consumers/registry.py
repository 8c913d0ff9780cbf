"""Which handler does which kind, and what its args are."""

import importlib
import importlib.util
import inspect
import sys
import typing
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from consumers.attempt import Attempt
from streams.errors import BadConfiguration
from streams.keys import check_word

HandlerFunction = Callable[[Attempt[Any]], Awaitable[Any]]
F = TypeVar("F", bound=HandlerFunction)


class Handler(Struct, frozen=True):
    """A kind's function and the decoder of its args."""

    kind: str
    function: HandlerFunction
    decode: Callable[[bytes], Any]
    backoff: Callable[[int], float] | None = None  # seconds to wait after so many failures; else the platform's rule


class Handlers(Mapping[str, Handler]):
    """A set of handlers; calling it with a kind gives the decorator for that kind's function.

    The type of args is taken from the annotation: `attempt: Attempt[MyStruct]`. Args that do not fit it end the job
    failed, without retry, before the function is called.
    """

    def __init__(self, handlers: Mapping[str, Handler] | None = None) -> None:
        self._handlers = dict(handlers or {})

    def __getitem__(self, kind: str) -> Handler:
        return self._handlers[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._handlers)

    def __len__(self) -> int:
        return len(self._handlers)

    def __call__(self, kind: str, *, backoff: Callable[[int], float] | None = None) -> Callable[[F], F]:
        """`backoff(failures)` is the pause in seconds before the next attempt, in place of the platform's rule."""
        check_word(kind, "kind")

        def register(function: F) -> F:
            if kind in self._handlers:
                raise BadConfiguration(f"two handlers for the kind {kind!r}: {function.__qualname__} is the second")
            if not asynchronous(function):
                raise BadConfiguration(f"the handler of {kind!r} must be an async function: {function.__qualname__}")
            self._handlers[kind] = Handler(kind, function, msgspec.json.Decoder(_args_type(function)).decode, backoff)
            return function

        return register

    def under(self, others: Mapping[str, Handler]) -> "Handlers":
        """These and `others`; where both know a kind, the other's handler is taken."""
        return Handlers({**self._handlers, **others})


def asynchronous(function: object) -> bool:
    return inspect.iscoroutinefunction(function)


def _args_type(function: HandlerFunction) -> Any:
    """The `T` of the handler's first parameter, annotated `Attempt[T]`; without it any JSON will do."""
    parameters = list(inspect.signature(function).parameters)
    if not parameters:
        raise BadConfiguration(f"a handler takes the attempt as its argument: {function.__qualname__}")
    try:
        hint = typing.get_type_hints(function).get(parameters[0])
    except NameError as error:
        raise BadConfiguration(f"the annotations of {function.__qualname__} cannot be read: {error}") from None
    inner = typing.get_args(hint)
    return inner[0] if inner and not isinstance(inner[0], TypeVar) else Any


def load_handlers(where: str) -> Handlers:
    """The handlers of a user's module, given by import path (`shop.handlers`) or as a file (`./handlers.py`)."""
    try:
        module = _module_of_file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    except BadConfiguration:
        raise
    except Exception as error:  # a typing mistake there is as likely as a missing module
        cause = error if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        raise BadConfiguration(f"TAILRACE_HANDLERS: cannot import {where}: {cause}") from error
    found = [value for value in vars(module).values() if isinstance(value, Handlers)]
    if not found:
        raise BadConfiguration(f"TAILRACE_HANDLERS: {where} has no Handlers(); write `handles = Handlers()` there")
    handlers = Handlers()
    for more in found:
        handlers = handlers.under(more)
    return handlers


def _module_of_file(path: Path) -> Any:
    if not path.is_file():
        raise BadConfiguration(f"TAILRACE_HANDLERS: there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module
