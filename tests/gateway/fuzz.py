"""Requests made of the document, right, nearly right and hostile, and what each of them must be answered with."""

import json
import re
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.client import HTTPException, HTTPResponse
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import redis
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tailrace.gateway.route_table import STREAM
from tests.gateway.documented import Document, Told
from tests.gateway.hostile import BODIES, METHODS, NAMES, PARTS, QUERIES, TEXTS, TOKENS, TYPES, VALUES

PATIENCE_SECONDS = 15.0  # for any answer; the first look at workers takes 2.5 s

DEEPEST = 3  # lists within lists

RAW = "@raw@"  # stands in a body where something comes that no encoder would write


class Sent(NamedTuple):
    """A request, as bytes."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    version: str = "1.1"
    chunked: bool = False

    def __repr__(self) -> str:
        """Short: hypothesis warns of long ones, and would hide what failed."""
        return f"Sent({bytes(self)[:2000]!r}, and a body of {len(self.body)} bytes)"

    def __bytes__(self) -> bytes:
        body, framing = self.body, ("Content-Length", str(len(self.body)))
        if self.chunked:
            framing = ("Transfer-Encoding", "chunked")
            pieces = [body[:1], body[1:]] if len(body) > 1 else [body] * bool(body)
            body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
        bare = not self.body and self.method not in {"POST", "PUT"}
        fields = (("Host", "127.0.0.1"), ("Connection", "close"), *((framing,) * (not bare)), *self.headers)
        lines = [f"{self.method} {self.target} HTTP/{self.version}", *(f"{name}: {value}" for name, value in fields)]
        return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + (b"" if bare else body)

    @property
    def path(self) -> str:
        """As a server reads it; it may overlook one space more before the version."""
        return unquote(self.target.rstrip(" ").partition("?")[0].partition("#")[0])


def values(document: Document, schema: Mapping[str, Any], depth: int = 0) -> SearchStrategy[Any]:
    """What a schema allows, or nearly: what no schema can say is left to the gateway.

    `depth`: how many lists it stands in; a schema that contains itself ends in an empty one.
    """
    schema = document.resolve(dict(schema))
    if "enum" in schema or "const" in schema:
        return st.sampled_from(schema.get("enum") or [schema["const"]])
    if "anyOf" in schema:
        return st.one_of([values(document, each, depth) for each in schema["anyOf"]])
    match schema.get("type"):
        case "string" if "pattern" in schema:
            return st.from_regex(re.sub(r"\$$", r"\\Z", schema["pattern"]), alphabet=st.characters(codec="ascii"))
        case "string":
            return st.text(min_size=schema.get("minLength", 0), max_size=min(30, schema.get("maxLength", 30)))
        case "integer":
            return st.integers(schema.get("minimum", -10), schema.get("maximum", 1000))
        case "number":
            return st.floats(schema.get("minimum", -10), schema.get("maximum", 1000), allow_nan=False)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            if depth == DEEPEST:
                return st.just([])
            return st.lists(values(document, schema.get("items", {}), depth + 1), max_size=3)
        case "object" if "properties" in schema:
            fields = {name: values(document, each, depth) for name, each in schema["properties"].items()}
            needed = {name: fields.pop(name) for name in schema.get("required", ())}
            return st.fixed_dictionaries(needed, optional=fields)
        case "object":
            return st.dictionaries(st.text(max_size=8), ANYTHING, max_size=3)
    return ANYTHING


ANYTHING: SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def moods(document: Document) -> list[tuple[str, str]]:
    """Every route, and what is to be wrong with a request to it: nothing, one thing, or all at once."""
    found = []
    for route in sorted(document.routes):
        asked = {parameter["in"] for parameter in document.parameters(route)} | {"header", "body", "method", "all"}
        found += [(route, "") for _ in asked] + [(route, wrong) for wrong in sorted(asked)]
    return found


@st.composite
def requests(
    draw: DrawFn, document: Document, mood: tuple[str, str], pool: Mapping[str, Sequence[str]], keys: Sequence[str] = ()
) -> Sent:
    """A request of this mood; `pool`: what a part of a path may be that is there, by its name; `keys`: to show."""
    route, wrong = mood
    method, template = route.split()
    taken = document.body(route)

    def odd(what: str) -> bool:
        return wrong in {what, "all"}

    def part(found: re.Match[str]) -> str:
        return draw(st.sampled_from(PARTS if odd("path") else pool[found[1]]))

    target = re.sub(r"{(\w+)}", part, template)
    if odd("path") and draw(st.booleans()):
        target += draw(st.sampled_from(["/", "//", "/..", "%2F", "%00", "/.", "?", "#", "/%2e%2e/healthz", ";a", " "]))
    if query := draw(queries(document, route, odd("query"))):
        target += "?" + query
    body = draw(bodies(document, taken, odd("body"))) if taken or odd("body") else b""
    content_type = draw(st.sampled_from(TYPES if odd("header") else TYPES[:1]))
    headers = [("Content-Type", content_type)] if body else []
    if keys:
        headers.append(("Authorization", f"Bearer {draw(st.sampled_from(keys))}"))
    for parameter in document.parameters(route):
        if parameter["in"] == "header" and draw(st.booleans()):
            right = values(document, parameter["schema"]).filter(lambda text: text.isprintable() and text.isascii())
            headers.append((parameter["name"], draw(st.sampled_from(VALUES) if odd("header") else right)))
    if odd("header"):
        headers += draw(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)), max_size=3))
    return Sent(
        draw(st.sampled_from(METHODS)) if odd("method") else method,
        target,
        tuple(headers),
        body,
        draw(st.sampled_from(["1.1", "1.0", "1.1", "2.0", "9"])) if odd("header") else "1.1",
        odd("header") and draw(st.booleans()),
    )


@st.composite
def queries(draw: DrawFn, document: Document, route: str, odd: bool) -> str:
    pairs = []
    parameters = [parameter for parameter in document.parameters(route) if parameter["in"] == "query"]
    corrupt = draw(st.sampled_from([*(parameter["name"] for parameter in parameters), "all"])) if odd else ""
    for parameter in parameters:
        wrong = corrupt in {parameter["name"], "all"}
        if wrong or parameter.get("required") or draw(st.booleans()):
            value = draw(st.sampled_from(TEXTS) if wrong else values(document, parameter["schema"]))
            pairs.append(f"{parameter['name']}={quote(str(value), safe='', errors='replace')}")
    if odd:
        pairs += draw(st.lists(st.sampled_from(QUERIES), max_size=2))
        if draw(st.booleans()):
            return ";".join(pairs)
    return "&".join(pairs)


@st.composite
def bodies(draw: DrawFn, document: Document, taken: dict[str, Any] | None, odd: bool) -> bytes:
    if odd and (taken is None or draw(st.integers(0, 3)) == 0):
        return draw(st.sampled_from(BODIES))
    assert taken is not None
    examples = [example["value"] for example in taken.get("examples", {}).values()]
    right = values(document, taken["schema"])
    value = draw(st.sampled_from(examples) | right if examples else right)
    if not odd:
        return json.dumps(value).encode("utf-8", "replace")
    names = [*document.resolve(taken["schema"]).get("properties", {}), "unknown", "jobId", "id", "", "a" * 300]
    for _ in range(draw(st.integers(1, 2))):
        value = draw(corrupt(value, names))
    text = json.dumps(value, ensure_ascii=draw(st.booleans()))
    for _ in range(text.count(RAW)):
        token = draw(st.sampled_from(TOKENS) | ANYTHING.map(json.dumps))
        text = text.replace(f'"{RAW}"', token, 1)
    return text.encode("utf-8", "surrogatepass")


@st.composite
def corrupt(draw: DrawFn, value: Any, names: Sequence[str]) -> Any:
    """The same value with one thing in it changed, anywhere in its depth."""
    inner = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    deeper = [name for name in inner if isinstance(value[name], dict | list)]
    how = draw(st.sampled_from(["replace", "add", "deeper", "deeper", "leave out"]))
    if how == "deeper" and deeper:
        name = draw(st.sampled_from(deeper))
        changed = draw(corrupt(value[name], [*map(str, value[name])] or ["a"]))
        return {**value, name: changed} if isinstance(value, dict) else [*value[:name], changed, *value[name + 1 :]]
    if isinstance(value, list):
        return [RAW, *value] if how == "add" else [RAW] if how == "replace" else value[1:]
    if how == "leave out" and value:
        name = draw(st.sampled_from(sorted(value)))
        return {other: each for other, each in value.items() if other != name}
    return {**value, draw(st.sampled_from(names)): RAW}


class Target:
    """A gateway with its store, and the document that it is held to."""

    def __init__(self, url: str, store_url: str, document: Document) -> None:
        self._address = (urlsplit(url).hostname or "", urlsplit(url).port or 0)
        self._store = redis.Redis.from_url(store_url)
        self.document = document
        self.sent = 0
        self.answered: dict[int, int] = {}
        self.served: set[str] = set()  # routes that answered well

    def close(self) -> None:
        self._store.close()

    def keys(self) -> int:
        """How many keys the store has."""
        return int(self._store.dbsize())

    def check(self, sent: Sent) -> None:
        """Ask; a wrong answer, and a refusal that left something behind, is an error."""
        before = self.keys()
        told = self.ask(sent)
        self.sent += 1
        self.answered[told.status] = self.answered.get(told.status, 0) + 1
        assert told.status < 500, (sent, told)
        route = self.document.route_of(sent.method, sent.path)
        self.document.judge(sent.method, route, told)
        if told.status >= 400 or told.body.startswith(b'{"accepted":0,'):
            assert self.keys() <= before, "a refusal left something in the store"
        elif route:
            self.served.add(route)
            self._check_body(route, sent)

    def _check_body(self, route: str, sent: Sent) -> None:
        """What was taken must be what the document says may be sent. A bulk refuses job by job."""
        taken = self.document.body(route)
        if taken and route != "POST /api/jobs/bulk":
            value = json.loads(sent.body or b"{}")
            assert self.document.accepts(taken["schema"], value), f"{route} takes what is not described: {value}"

    def ask(self, sent: Sent) -> Told:
        with socket.create_connection(self._address, PATIENCE_SECONDS) as connection:
            with suppress(ConnectionError):  # refused before all of it was sent; why is there to be read
                connection.sendall(bytes(sent))
            answer = HTTPResponse(connection, method=sent.method)
            try:
                answer.begin()
                headers = {name.lower(): value for name, value in answer.headers.items()}
                streams = headers.get("content-type", "").startswith(STREAM)
                return Told(answer.status, headers, answer.read1() if streams else answer.read())
            except (HTTPException, OSError) as error:
                raise AssertionError(f"no answer to {bytes(sent)[:2000]!r}: {error!r}") from error
            finally:
                answer.close()
