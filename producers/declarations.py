"""The declaration of a kind by its handler: the types of args and result, and the platform of its jobs.

Types may hold builtin types, msgspec Structs, dataclasses, TypedDicts and pydantic models, at any depth. pydantic is
never imported here: a program that has a model has imported it.
"""

import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from inspect import isabstract
from typing import Annotated, Any, Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct, inspect

from tailrace.streams.errors import WrongField
from tailrace.streams.messages import encode, plain_model
from tailrace.streams.validation import field_of

CONTAINERS = (dict, list, tuple, set, frozenset)

Args = TypeVar("Args")
T = TypeVar("T")


class Declaration(Struct, Generic[Args], frozen=True):
    """A kind, as its handler declares it."""

    kind: str
    args: Any  # the type
    platform: str | None = None  # where it is submitted, unless the caller names another one
    others: tuple[str, ...] = ()  # kinds that the same function was registered for before

    def submitted_to(self, platform: str | None) -> str:
        """The platform of a job. Raises `WrongField` when none is known, or when the kind is not clear."""
        if self.others:
            kinds = ", ".join((*self.others, self.kind))
            raise WrongField(
                "kind", f"the handler serves several kinds ({kinds}); submit(platform, kind, args) names one"
            )
        if chosen := platform or self.platform:
            return chosen
        raise WrongField(
            "platform", f'the kind {self.kind} has none; say platform=… here, or @handles("{self.kind}", platform=…)'
        )

    def check(self, args: Any) -> None:
        """Raise `WrongField` for args, as decoded JSON, that the handler could not take."""
        try:
            msgspec.convert(args, self.args, dec_hook=model_from)
        except msgspec.ValidationError as error:
            raise WrongField(*misfit(error, self.args)) from None
        except Exception as error:  # a type's own __post_init__ may raise anything
            raise WrongField("args", f"{type(error).__name__}: {error}") from None


class Declared(Protocol[Args]):
    """A function that was registered as the handler of a kind."""

    @property
    def declaration(self) -> Declaration[Args]: ...


class Named(Struct, frozen=True):
    """A job as the caller of `submit` named it, checked by its declaration if there is one."""

    platform: str
    kind: str
    args: Any  # decoded JSON


def named(given: Sequence[Any], keywords: dict[str, Any], *, many: bool = False) -> Iterator[Named]:
    """The jobs that `submit(platform, kind, args)` or `submit(handler, args)` name; `many`: one for each of the args.

    Takes its own arguments out of the keywords. Raises `TypeError` for arguments that fit neither form.
    """
    last = "many" if many else "args"
    own = {name: keywords.pop(name) for name in ("platform", "kind", "handler", last) if name in keywords}
    if last in own:
        own["args"] = own.pop(last)
    by_handler = "handler" in own or (given and not isinstance(given[0], str))
    platform, kind, args, declaration = (_by_handler if by_handler else _by_name)(*given, **own)
    for each in args if many else [args]:
        said = plain(each)
        if declaration:
            declaration.check(said)
        yield Named(platform, kind, said)


def _by_name(platform: str, kind: str, args: Any = None) -> tuple[str, str, Any, None]:
    return platform, kind, args, None


def _by_handler(handler: Any, args: Any, *, platform: str | None = None) -> tuple[str, str, Any, Declaration[Any]]:
    declaration = getattr(handler, "declaration", None)
    if not isinstance(declaration, Declaration):
        name = getattr(handler, "__qualname__", repr(handler))
        raise WrongField("kind", f"{name} is not registered as a handler; decorate it with @handles(…)")
    return declaration.submitted_to(platform), declaration.kind, args, declaration


class ModelMisfit(ValueError):
    """Values that do not fit a pydantic model: the path of the first one, and what is wrong with it."""

    def __init__(self, path: Sequence[Any], reason: str) -> None:
        super().__init__(reason)
        self.path = path


def is_model(kind: Any) -> bool:
    """Whether this is a class of pydantic's models."""
    return isinstance(kind, type) and hasattr(kind, "__pydantic_validator__") and hasattr(kind, "model_validate_json")


def model_from(kind: Any, value: Any) -> Any:
    """A pydantic model from decoded JSON: the `dec_hook` of msgspec for types that it does not know."""
    if not is_model(kind):
        raise NotImplementedError(kind)
    try:
        return kind.model_validate_json(encode(value))  # not model_validate: a strict model takes dates from JSON only
    except ValueError as error:
        first: dict[str, Any] = error.errors()[0] if hasattr(error, "errors") else {}
        raise ModelMisfit(first.get("loc", ()), first.get("msg", str(error))) from error


def decoder(kind: Any) -> Callable[[bytes], Any]:
    """A function that decodes args from JSON. Raises `TypeError` for a type that msgspec cannot decode."""
    return msgspec.json.Decoder(kind, dec_hook=model_from).decode


def misfit(error: msgspec.ValidationError, shape: Any = None, root: str = "args") -> tuple[str, str]:
    """Which field does not fit its type, as a path from `root`, and what is wrong with it."""
    field, reason = field_of(error, root, shape)
    inner = error.__cause__
    if not isinstance(inner, ModelMisfit):
        return field, reason
    return field + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in inner.path), str(inner)


def result_as(kind: type[T], result: Any, job_id: str) -> T:
    """The result of a job as this type. Raises `ValueError` when it does not fit."""
    try:
        return msgspec.convert(result, kind, dec_hook=model_from)
    except msgspec.ValidationError as error:
        field, why = misfit(error, kind, "result")
        raise ValueError(f"job {job_id} has a result that does not fit {kind.__name__}: {field}: {why}") from error


def plain(args: Any) -> Any:
    """Args as decoded JSON: of a dict, a Struct, a dataclass or a pydantic model; None is no args."""
    if args is None:
        return {}
    try:
        return msgspec.to_builtins(args, enc_hook=plain_model)
    except (TypeError, ValueError, RecursionError) as error:
        raise WrongField("args", f"cannot be written as JSON: {error}") from None


def unreadable(kind: Any) -> str | None:
    """The name of a class in this type that cannot be made of JSON, or None."""
    return next((found.__qualname__ for found in _foreign(kind) if not is_model(found)), None)


def unwritable(kind: Any) -> str | None:
    """The name of a class in this type whose values cannot be written as JSON, or None."""
    return next((found.__qualname__ for found in _foreign(kind) if not (is_model(found) or _writable(found))), None)


def _writable(kind: type) -> bool:
    """A subclass of a builtin container, or an abstract class, of which some have a form in JSON and iterators none."""
    return issubclass(kind, CONTAINERS) or (isabstract(kind) and not issubclass(kind, Iterator))


def _foreign(kind: Any) -> Iterator[type]:
    """The classes in a type that msgspec does not know."""
    origin = typing.get_origin(kind)
    if origin is typing.Literal:
        return
    if origin:  # each part by itself: a union that cannot be read from JSON may still be written
        for each in (*typing.get_args(kind), *([] if origin in {Annotated, types.UnionType} else [origin])):
            yield from _foreign(each)
    elif isinstance(kind, type) and kind not in {object, types.EllipsisType}:
        try:
            info = inspect.type_info(kind)
        except (TypeError, NameError):
            return
        yield from _custom([info], set())


def _custom(infos: Iterable[Any], seen: set[int]) -> Iterator[type]:
    for info in infos:
        if isinstance(info, inspect.CustomType) and info.cls is not object:
            yield info.cls
        if isinstance(info, Struct) and id(info) not in seen:
            seen.add(id(info))
            parts = [getattr(info, name) for name in info.__struct_fields__]
            yield from _custom((e for part in parts for e in (part if isinstance(part, tuple) else (part,))), seen)
