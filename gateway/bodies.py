"""Bodies: read under a limit, decoded, and checked against the shape of their route."""

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request

from gateway.replies import Refusal
from producers.kinds import field_of
from streams.errors import WrongField

BODY_BYTES = 1024 * 1024  # larger data does not belong into the store: submit where it can be found
DEPTH = 64  # of nested arrays and objects
FIELD_LENGTH = 100  # of a field's name in a refusal: it is the client's text


Who = Annotated[str, Meta(min_length=1, max_length=100)]
Reason = Annotated[str, Meta(min_length=1, max_length=300)]


class Body(Struct, frozen=True, forbid_unknown_fields=True):
    """What a client may send: these fields and no others."""


class Nothing(Body, frozen=True):
    """For routes that act on what their path names."""


class ActBody(Body, frozen=True):
    """The same, for routes that keep who asked, and why."""

    by: Who | None = None
    reason: Reason | None = None


B = TypeVar("B", bound=Body)


async def read_body(request: Request, shape: type[B]) -> B:
    """The body in the shape of its route. An empty one stands for no fields at all."""
    raw = await read_bytes(request)
    if not raw:
        return shaped({}, shape)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Refusal(415, "NOT_JSON", "send the body as JSON, with `Content-Type: application/json`")
    return shaped(decode(raw), shape)


async def read_bytes(request: Request) -> bytes:
    """The body, as long as it is within the limit; a larger one is refused without reading on."""
    too_large = Refusal(
        413, "TOO_LARGE", f"a body may have {BODY_BYTES} bytes; keep larger data elsewhere", {"Connection": "close"}
    )
    length = request.headers.get("content-length", "")
    if length.isdigit() and (len(length) > 12 or int(length) > BODY_BYTES):
        raise too_large
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > BODY_BYTES:
            raise too_large
    return bytes(body)


def decode(raw: bytes) -> Any:
    """Bytes into values: what is not JSON, or is nested beyond reason, is malformed."""
    try:
        value = msgspec.json.decode(raw)
    except RecursionError:
        raise too_deep() from None
    except UnicodeDecodeError:
        raise Refusal(400, "MALFORMED", "the body is not UTF-8") from None
    except ValueError as error:
        raise Refusal(400, "MALFORMED", f"the body is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise Refusal(400, "MALFORMED", "the body must be a JSON object")
    # A body with few brackets cannot be deep; only others are walked, level by level.
    if raw.count(b"[") + raw.count(b"{") > DEPTH and is_deep(value):
        raise too_deep()
    return value


def too_deep() -> Refusal:
    return Refusal(400, "MALFORMED", f"the body is nested more than {DEPTH} levels deep")


def is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEPTH):
        inner = [node.values() if isinstance(node, dict) else node for node in level]
        level = [child for nodes in inner for child in nodes if isinstance(child, dict | list)]
        if not level:
            return False
    return True


def shaped(value: Any, shape: type[B]) -> B:
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        raise wrong_field(error) from None


def wrong_field(error: msgspec.ValidationError) -> WrongField:
    field, reason = field_of(error, "")
    return WrongField(field[:FIELD_LENGTH], reason if len(field) < FIELD_LENGTH else "unknown field")
