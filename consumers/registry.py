"""Handlers by kind, with the types of their args."""

import inspect
import typing
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Generic, Literal, Protocol, overload

import msgspec
from msgspec import Struct
from typing_extensions import TypeVar

from tailrace.consumers.attempt import Attempt
from tailrace.consumers.attempts.blocking import SyncAttempt
from tailrace.consumers.attempts.facts import Opened
from tailrace.consumers.middleware import Hook
from tailrace.consumers.program.lifespans import Lifespan, check_lifespan
from tailrace.producers.declarations import Declaration, decoder, unreadable, unwritable
from tailrace.streams.errors import BadConfiguration
from tailrace.streams.keys import check_platform, check_word

RunIn = Literal["loop", "thread", "process"]
Backoff = Callable[[int], float]

Args = TypeVar("Args")
Result = TypeVar("Result", covariant=True)
State = TypeVar("State")
H = TypeVar("H", bound=Hook)


class AsyncHandler(Protocol[Args, State, Result]):
    """An async function that was registered: it is called as before, and `submit` takes it in place of its kind."""

    @property
    def declaration(self) -> Declaration[Args]: ...

    def __call__(self, attempt: Attempt[Args, State], /) -> Coroutine[Any, Any, Result]: ...


class PlainHandler(Protocol[Args, State, Result]):
    """A plain function that was registered."""

    @property
    def declaration(self) -> Declaration[Args]: ...

    def __call__(self, attempt: SyncAttempt[Args, State], /) -> Result: ...


class Handler(Struct, frozen=True):
    """A kind's function, where it runs, and the decoder of its args."""

    kind: str
    function: Callable[[Any], Any]
    decode: Callable[[bytes], Any]
    backoff: Backoff | None = None  # seconds to wait after this many failures; else the platform's rule
    run_in: RunIn = "loop"
    hooks: tuple[Hook, ...] = ()  # the first is the outermost
    direct: bool = True  # its function is called as it is: in the loop, with nothing around it
    lifespan: Lifespan | None = None  # what opens its `attempt.state`
    platform: str | None = None  # where `submit` puts its jobs, unless told otherwise


class Handlers(dict[str, Handler], Generic[Opened]):
    """A set of handlers by kind; calling it with a kind gives the decorator for that kind's function.

    The types of args and result are taken from the annotations: `attempt: Attempt[MyStruct]`. Args that do not fit end
    the job failed, without retry, before the function is called. `lifespan` opens what the handlers share in a process,
    such as a database pool: an async context manager that is entered before the first job and left after the last one.
    What it gives is `attempt.state`, typed by `Attempt[MyStruct, Pool]`.
    """

    @overload
    def __init__(self: "Handlers[None]", handlers: Mapping[str, Handler] | None = None) -> None: ...

    @overload
    def __init__(
        self,
        handlers: Mapping[str, Handler] | None = None,
        *,
        lifespan: Callable[[], AbstractAsyncContextManager[Opened]],
    ) -> None: ...

    def __init__(self, handlers: Mapping[str, Handler] | None = None, *, lifespan: Lifespan | None = None) -> None:
        super().__init__(handlers or {})
        if lifespan is not None:
            check_lifespan(lifespan)
        self._lifespan = lifespan
        self._hooks: tuple[Hook, ...] = ()

    @overload
    def __call__(
        self,
        kind: str,
        *,
        run_in: Literal["loop"] = "loop",
        platform: str | None = None,
        backoff: Backoff | None = None,
    ) -> Callable[
        [Callable[[Attempt[Args, Opened]], Coroutine[Any, Any, Result]]], AsyncHandler[Args, Opened, Result]
    ]: ...

    @overload
    def __call__(
        self,
        kind: str,
        *,
        run_in: Literal["thread", "process"],
        platform: str | None = None,
        backoff: Backoff | None = None,
    ) -> Callable[[Callable[[SyncAttempt[Args, Opened]], Result]], PlainHandler[Args, Opened, Result]]: ...

    def __call__(
        self, kind: str, *, run_in: RunIn = "loop", platform: str | None = None, backoff: Backoff | None = None
    ) -> Callable[[Any], Any]:
        """`run_in` says where the function runs: an async one in the loop, a plain one in a thread or a process.

        `platform` is where `submit(function, args)` puts a job, unless it names another one; consumers of every
        platform serve the kind all the same. `backoff(failures)` is the pause in seconds before the next attempt, in
        place of the platform's rule.
        """
        if not isinstance(kind, str):
            raise BadConfiguration(f'the decorator takes a kind: write @handles("{_name(kind)}") above {_name(kind)}')
        check_word(kind, "kind")
        if platform is not None:
            check_platform(platform)
        if backoff is not None and not callable(backoff):
            raise BadConfiguration(
                f"backoff of the kind {kind!r} is {backoff!r}; it must be a function that takes the number of failures "
                "and returns seconds"
            )

        def register(function: Any) -> Any:
            if kind in self:
                raise BadConfiguration(f"two handlers for the kind {kind!r}: {function.__qualname__} is the second")
            check_place(kind, function, run_in)
            args = _types(kind, function)
            direct = run_in == "loop" and not self._hooks
            decode = decoder(args)
            self[kind] = Handler(kind, function, decode, backoff, run_in, self._hooks, direct, self._lifespan, platform)
            declare(function, Declaration(kind, args, platform))
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

    def under(self, others: Mapping[str, Handler]) -> "Handlers[Any]":
        """A set of these and `others`; where both have a kind, the handler of `others` is taken.

        Each handler keeps its own hooks and its own lifespan.
        """
        return Handlers({**self, **others})


def declare(function: Any, declaration: Declaration[Any]) -> None:
    """Attach its declaration to the function, for `submit`."""
    earlier: Declaration[Any] | None = getattr(function, "declaration", None)
    if earlier and earlier.kind != declaration.kind:
        declaration = msgspec.structs.replace(declaration, others=(*earlier.others, earlier.kind))
    with suppress(AttributeError):  # a method takes no attributes; it is submitted by the name of its kind
        function.declaration = declaration


def check_place(kind: str, function: object, run_in: str) -> None:
    """Raise `BadConfiguration` for a function that cannot run in the loop, a thread or a process as asked."""
    name, asynchronous = _name(function), inspect.iscoroutinefunction(function)
    if run_in not in typing.get_args(RunIn):
        raise BadConfiguration(f"run_in of the kind {kind!r} is {run_in!r}; it must be loop, thread or process")
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
            f"the handler of {kind!r} must be at the top level of its module: {name}; another process could not find it"
        )


def _name(function: object) -> str:
    return str(getattr(function, "__qualname__", function))


def _types(kind: str, function: Callable[..., Any]) -> Any:
    """The type of the args: `T` of the first parameter, annotated `Attempt[T]`; without it any JSON will do.

    Raises `BadConfiguration` when args or result have a type that JSON cannot hold: better now than after the work.
    """
    name, parameters = _name(function), list(inspect.signature(function).parameters)
    if not parameters:
        raise BadConfiguration(f"a handler takes the attempt as its argument: {name}")
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise BadConfiguration(f"the annotations of {name} cannot be read: {error}") from None
    inner = typing.get_args(hints.get(parameters[0]))
    args = inner[0] if inner and not isinstance(inner[0], typing.TypeVar) else Any
    for what, foreign in (("args", unreadable(args)), ("result", unwritable(hints.get("return", Any)))):
        if foreign:
            raise BadConfiguration(
                f"the {what} of the kind {kind!r} cannot be kept as JSON: {name} says {foreign}, which is not "
                "a Struct, dataclass, pydantic model or builtin type"
            )
    try:
        decoder(args)
    except TypeError as error:
        raise BadConfiguration(f"the args of the kind {kind!r} cannot be read from JSON: {error}") from None
    return args
