"""Bodies: read under a limit, decoded, and checked against the shape of their route."""

import asyncio
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request

from tailrace.gateway.access.api_keys import CALLER, Key
from tailrace.gateway.access.limits import HELD, HeldBytes
from tailrace.gateway.problems import Code, Refusal
from tailrace.producers.actions import LONGEST_NAME, LONGEST_REASON
from tailrace.producers.kinds import KINDS
from tailrace.streams.errors import WrongField
from tailrace.streams.options import Options
from tailrace.streams.process.turns import Turns
from tailrace.streams.validation import field_of

BODY_BYTES = 1024 * 1024  # larger data does not belong into the store: submit where it can be found
DEPTH = 64  # of nested arrays and objects
BRACKETS = 200_000  # that open one, in all: to decode more of them holds the loop for too long
LARGE = 64 * 1024
CONTAINERS = frozenset({dict, list})
FIELD_LENGTH = 100  # of a field's name in a refusal: it is the client's text
REASON_LENGTH = 300  # of the reason, which may repeat some of the client's text


Who = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
Reason = Annotated[str, Meta(min_length=1, max_length=LONGEST_REASON)]

SCHEMAS = "#/components/schemas/"  # where the document at /openapi.json keeps the shape of each Struct


def like(shape: type[Struct]) -> dict[str, Any]:
    return {"$ref": SCHEMAS + shape.__name__}


Args = Annotated[
    Any,
    Meta(
        description="Of a built-in kind: what it takes. Of a kind of your own: what its handler takes.",
        extra_json_schema={"type": "object", "anyOf": [*map(like, KINDS.values()), {"type": "object"}]},
    ),
]
OptionsOfEach = Annotated[dict[str, Any], Meta(extra_json_schema=like(Options))]


class Body(Struct, frozen=True, forbid_unknown_fields=True):
    """The base of all bodies: unknown fields are refused."""


class Nothing(Body, frozen=True):
    """A body without fields."""


class ActBody(Body, frozen=True):
    """A body for routes that keep who asked, and why."""

    by: Who | None = None
    reason: Reason | None = None


B = TypeVar("B", bound=Body)


async def read_body(request: Request, shape: type[B], most: int = BODY_BYTES) -> B:
    """The body in the shape of its route. An empty one stands for no fields at all.

    Where it may say who asks and does not, the name of the key that came with it does.
    """
    raw = await read_bytes(request, most)
    try:
        body = msgspec.convert(await decode(request, raw) if raw else {}, shape)
    except msgspec.ValidationError as error:
        raise wrong_field(error, shape) from None
    key: Key | None = request.scope.get(CALLER)
    return msgspec.structs.replace(body, by=key.name) if key and getattr(body, "by", "") is None else body


async def read_bytes(request: Request, most: int) -> bytes:
    """The body. Raises a `Refusal` for one above the limit, without reading on."""
    too_large = Refusal(
        Code.TOO_LARGE,
        f"a body may have up to {most} bytes; store larger data elsewhere and submit a reference",
        {"Connection": "close"},
    )
    length = request.headers.get("content-length", "")
    if length.isdecimal() and (len(length) > 12 or int(length) > most):
        raise too_large
    held: HeldBytes = request.scope[HELD]
    body = bytearray()
    async for part in request.stream():
        held.take(len(part))
        body += part
        if len(body) > most:
            raise too_large
    # An empty body may act on all: never because a server or a proxy lost one.
    if length.isdecimal() and int(length) != len(body):
        raise Refusal(Code.MALFORMED, f"the body has {len(body)} bytes, but Content-Length is {int(length)}")
    return bytes(body)


async def decode(request: Request, raw: bytes) -> dict[str, Any]:
    """Bytes into values: what is not JSON, or has arrays and objects beyond reason, is malformed."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Refusal(Code.NOT_JSON, "send the body as JSON, with `Content-Type: application/json`")
    brackets = raw.count(b"[") + raw.count(b"{")
    if brackets > BRACKETS:
        raise Refusal(Code.MALFORMED, f"the body has more than {BRACKETS} arrays and objects")
    try:
        value = msgspec.json.decode(raw)
    except RecursionError:
        raise too_deep() from None
    except UnicodeDecodeError:
        raise Refusal(Code.MALFORMED, "the body is not UTF-8") from None
    except ValueError as error:
        raise Refusal(Code.MALFORMED, f"the body is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise Refusal(Code.MALFORMED, "the body must be a JSON object")
    if len(raw) > LARGE:
        await asyncio.sleep(0)  # it has taken milliseconds, and what comes now will too
    # A body with few brackets cannot be deep; only others are walked, level by level.
    if brackets > DEPTH and await is_deep(value):
        raise too_deep()
    return value


def too_deep() -> Refusal:
    return Refusal(Code.MALFORMED, f"the body is nested more than {DEPTH} levels deep")


async def is_deep(value: Any) -> bool:
    """Whether a decoded value is nested too deep; giving way in between, because it may have very many parts."""
    level, turns = [value], Turns()
    for _ in range(DEPTH):
        inner: list[Any] = []
        for node in level:
            children = node.values() if type(node) is dict else node
            inner += [child for child in children if type(child) in CONTAINERS]
            await turns.give_way()
        if not inner:
            return False
        level = inner
    return True


def limit_of(text: str, most: int) -> int:
    """The query parameter `limit`. Raises `WrongField`."""
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= most):
        raise WrongField("limit", f"must be a whole number from 1 to {most}")
    return int(text)


def wrong_field(error: msgspec.ValidationError, shape: type[Struct]) -> WrongField:
    field, reason = field_of(error, "", shape)
    return WrongField(field[:FIELD_LENGTH], reason[:REASON_LENGTH])
