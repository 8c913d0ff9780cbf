"""Entity tags: a client that has an answer already gets 304 while it holds (RFC 9110, 8.8.3 and 13.1.2)."""

import gzip
import hashlib
import re
from collections.abc import Iterable

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from tailrace.gateway.replies import raw_reply

ASK_AGAIN = "private, no-cache"  # a browser may keep it, and asks again before it uses it
NOT_MODIFIED = 304

_TAG = re.compile(rb'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")')
_TAGS = re.compile(rb"[ \t,]*(?:%b[ \t]*(?:,[ \t,]*|$))+" % _TAG.pattern)


def etag_of(body: bytes) -> bytes:
    """A strong one, of the bytes themselves: it changes with whatever a client would see."""
    return b'"%b"' % hashlib.blake2b(body, digest_size=16).hexdigest().encode()


def asked_for(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """The header `If-None-Match`, all its lines as one."""
    lines = [value for name, value in headers if name == b"if-none-match"]
    return b",".join(lines) if lines else None


def is_known(asked: bytes | None, etag: bytes | None) -> bool:
    """Whether the client has this answer, compared weakly. A header that is not a list of tags is ignored."""
    if asked is None:
        return False
    if asked.strip(b" \t") == b"*":
        return True
    return etag is not None and bool(_TAGS.fullmatch(asked)) and etag in _TAG.findall(asked)


def tagged_reply(request: Request, body: bytes, etag: bytes | None = None) -> Response:
    """An answer that holds until something new happens; without its body for a client that has it."""
    etag = etag or etag_of(body)
    headers = {"Cache-Control": ASK_AGAIN, "ETag": etag.decode()}
    if is_known(asked_for(request.scope["headers"]), etag):
        return Response(status_code=NOT_MODIFIED, headers=headers)
    return raw_reply(body, headers=headers)


class File(Struct, frozen=True):
    """A body that does not change while we run, as it is sent."""

    body: bytes
    headers: dict[str, str]


class Forms(Struct, frozen=True):
    """A body for clients that accept gzip, and for others."""

    plain: File
    packed: File


def send(request: Request, forms: Forms, more: dict[str, str]) -> Response:
    """The form that the client can read, unless it has it already."""
    file = forms.packed if is_named("gzip", request.headers.get("accept-encoding", "")) else forms.plain
    headers = {**file.headers, **more}
    if is_known(asked_for(request.scope["headers"]), file.headers["ETag"].encode()):
        return Response(status_code=304, headers=headers)
    return Response(file.body, headers=headers)


def forms_of(body: bytes, media_type: str) -> Forms:
    tag = hashlib.blake2b(body, digest_size=12).hexdigest()
    usual = {"Content-Type": media_type, "Vary": "Accept-Encoding"}
    return Forms(
        File(body, {**usual, "ETag": f'"{tag}"'}),
        File(gzip.compress(body, mtime=0), {**usual, "ETag": f'"{tag}z"', "Content-Encoding": "gzip"}),
    )


def is_named(word: str, header: str) -> bool:
    """Whether a header that lists what a client takes has this word, and not as something it does not take."""
    offers = [offer.partition(";") for offer in header.split(",")]
    return any(kind.strip().lower() == word and not refused(rest) for kind, _, rest in offers)


def refused(parameters: str) -> bool:
    return any(part.strip().lower() in {"q=0", "q=0.0", "q=0.00", "q=0.000"} for part in parameters.split(";"))
