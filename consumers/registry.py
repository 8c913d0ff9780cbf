"""Which handler does which kind, and what its args are."""

import importlib
import importlib.util
import inspect
import site
import sys
import typing
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar, overload

import msgspec
from msgspec import Struct

from tailrace.consumers.attempt import Attempt
from tailrace.consumers.attempts.blocking import SyncAttempt
from tailrace.consumers.middleware import Hook
from tailrace.streams.errors import BadConfiguration
from tailrace.streams.keys import check_word
from tailrace.streams.process.settings import naming

RunIn = Literal["loop", "thread", "process"]
Backoff = Callable[[int], float]

HandlerFunction = Callable[[Attempt[Any]], Awaitable[Any]]
PlainFunction = Callable[[SyncAttempt[Any]], Any]
F = TypeVar("F", bound=HandlerFunction)
P = TypeVar("P", bound=PlainFunction)
H = TypeVar("H", bound=Hook)


class Handler(Struct, frozen=True):
    """A kind's function, where it runs, and the decoder of its args."""

    kind: str
    function: Callable[[Any], Any]
    decode: Callable[[bytes], Any]
    backoff: Backoff | None = None  # seconds to wait after so many failures; else the platform's rule
    run_in: RunIn = "loop"
    hooks: tuple[Hook, ...] = ()  # the first is the outermost
    direct: bool = True  # its function is called as it is: in the loop, with nothing around it


class Handlers(dict[str, Handler]):
    """A set of handlers by kind; calling it with a kind gives the decorator for that kind's function.

    The type of args is taken from the annotation: `attempt: Attempt[MyStruct]`. Args that do not fit it end the job
    failed, without retry, before the function is called.
    """

    def __init__(self, handlers: Mapping[str, Handler] | None = None) -> None:
        super().__init__(handlers or {})
        self._hooks: tuple[Hook, ...] = ()

    @overload
    def __call__(
        self, kind: str, *, run_in: Literal["loop"] = "loop", backoff: Backoff | None = None
    ) -> Callable[[F], F]: ...

    @overload
    def __call__(
        self, kind: str, *, run_in: Literal["thread", "process"], backoff: Backoff | None = None
    ) -> Callable[[P], P]: ...

    def __call__(self, kind: str, *, run_in: RunIn = "loop", backoff: Backoff | None = None) -> Callable[[Any], Any]:
        """`run_in` says where the function runs: an async one in the loop, a plain one in a thread or a process.

        `backoff(failures)` is the pause in seconds before the next attempt, in place of the platform's rule.
        """
        check_word(kind, "kind")

        def register(function: Any) -> Any:
            if kind in self:
                raise BadConfiguration(f"two handlers for the kind {kind!r}: {function.__qualname__} is the second")
            check_place(kind, function, run_in)
            decode = msgspec.json.Decoder(_args_type(function)).decode
            direct = run_in == "loop" and not self._hooks
            self[kind] = Handler(kind, function, decode, backoff, run_in, self._hooks, direct)
            return function

        return register

    def around(self, hook: H) -> H:
        """Have `hook(attempt, call_next)` called around each attempt at a kind of this set.

        Hooks nest in the order in which they are registered. Sets that were made of this one before do not get it.
        """
        asynchronous = inspect.iscoroutinefunction(hook)
        if not asynchronous:
            raise BadConfiguration(f"a hook is an async function of (attempt, call_next): {_name(hook)}")
        self._hooks = (*self._hooks, hook)
        for kind, handler in self.items():
            self[kind] = msgspec.structs.replace(handler, hooks=(*handler.hooks, hook), direct=False)
        return hook

    def under(self, others: Mapping[str, Handler]) -> "Handlers":
        """These and `others`; where both know a kind, the other's handler is taken. Each keeps its own hooks."""
        return Handlers({**self, **others})


def check_place(kind: str, function: object, run_in: str) -> None:
    """Refuse a function that cannot run where it is to run."""
    name, asynchronous = _name(function), inspect.iscoroutinefunction(function)
    if run_in not in typing.get_args(RunIn):
        raise BadConfiguration(f"run_in of the kind {kind!r} is {run_in!r}; it may be loop, thread or process")
    if run_in == "loop":
        if not asynchronous:
            raise BadConfiguration(
                f"the handler of {kind!r} must be an async function: {name}; "
                'a plain one needs run_in="thread" or run_in="process"'
            )
    elif asynchronous:
        raise BadConfiguration(
            f"the handler of {kind!r} is an async function: {name}; it runs in the loop, leave out run_in={run_in!r}"
        )
    elif run_in == "process" and "<locals>" in name:
        raise BadConfiguration(
            f"the handler of {kind!r} must stand at the top of its module: {name}; another process could not find it"
        )


def _name(function: object) -> str:
    return str(getattr(function, "__qualname__", function))


def _args_type(function: Callable[..., Any]) -> Any:
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


def load_handlers(where: str, named_by: str = "TAILRACE_HANDLERS") -> Handlers:
    """The handlers of a user's module, given by import path (`shop.handlers`) or as a file (`./handlers.py`).

    `named_by`: the setting or the flag it was given with.
    """
    with naming(named_by):
        found = [value for value in vars(_module(where)).values() if isinstance(value, Handlers)]
        if not found:
            raise BadConfiguration(f"{where} has no Handlers(); write `handles = Handlers()` there")
    handlers = Handlers()
    for more in found:
        handlers = handlers.under(more)
    return handlers


def _module(where: str) -> ModuleType:
    file = Path(where) if where.endswith(".py") else None
    _search(file.absolute().parent if file else Path.cwd())
    try:
        return module_of_file(file, file.stem) if file else importlib.import_module(where)
    except BadConfiguration:
        raise
    except Exception as error:  # a typing mistake there is as likely as a missing module
        cause = error if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        raise BadConfiguration(f"cannot import {where}: {cause}") from error


def _search(folder: Path) -> None:
    """Have modules of the user found in this folder: before installed packages, but not before Python's own modules."""
    if str(folder) not in sys.path:
        installed = {*site.getsitepackages(), site.getusersitepackages()}
        place = next((place for place, path in enumerate(sys.path) if path in installed), len(sys.path))
        sys.path.insert(place, str(folder))


def module_of_file(path: Path, name: str) -> ModuleType:
    """Load a file as the module of this name."""
    if not path.is_file():
        raise BadConfiguration(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    spec.loader.exec_module(module)
    return module
