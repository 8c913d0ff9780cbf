"""The document at /openapi.json: what can be asked here, what is answered and refused, for programs and their makers.

It is made of the shapes that the routes decode and of the tables beside it. It names nothing of this deployment: no
platform that was declared here, no consumer, no key. So everybody may read it, and it is the same for all.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import groupby
from typing import Any, Final

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from tailrace.gateway.access.api_keys import Scope
from tailrace.gateway.access.guard import ADMIN, NEEDS, PUBLIC, STREAMS
from tailrace.gateway.access.origins import SAFE
from tailrace.gateway.access.tickets import COOKIE
from tailrace.gateway.documents.around import AROUND, STREAM, Answer, Operation
from tailrace.gateway.documents.jobs import JOBS
from tailrace.gateway.documents.platforms import PLATFORMS
from tailrace.gateway.problems import PROBLEM, Code, Problem, encode
from tailrace.gateway.replies import JSON
from tailrace.gateway.routes.bodies import SCHEMAS
from tailrace.gateway.routes.pages import Forms, forms_of, send
from tailrace.gateway.routes.parameters import HEADERS, OF_PATH, PARAMETERS
from tailrace.producers.kinds import KINDS
from tailrace.streams.options import Options

OPERATIONS: Final[Mapping[str, Operation]] = {**AROUND, **JOBS, **PLATFORMS}

ABOUT: Final = (
    "Background jobs with one visible history each. JSON is compact, times are ISO 8601 in UTC with milliseconds. "
    "HEAD is served wherever GET is. A path that is not here is 404 NOT_FOUND, a method that is not here is 405 "
    "METHOD_NOT_ALLOWED. New fields may come in answers; none goes and none changes its type."
)

GROUPS: Final = {
    "submit": "Bring work.",
    "jobs": "See one job and act on it.",
    "events": "What happened and what happens.",
    "platforms": "See and steer platforms and their dead letters.",
    "schedules": "What is submitted again and again.",
    "workers": "Consumers.",
    "session": "Who is asking; what a browser shows instead of a key.",
    "process": "This gateway itself.",
    "page": "The page.",
}

SCHEMES: Final = {
    "key": {"type": "http", "scheme": "bearer", "description": "An API key."},
    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": "Of somebody who signed in."},
    "ticket": {"type": "apiKey", "in": "query", "name": "ticket", "description": "For one look at one job."},
}


class OpenApi:
    """The route of the document."""

    def __init__(self, *, locked: bool) -> None:
        self._forms = forms(locked)

    async def show(self, request: Request) -> Response:
        return send(request, self._forms, {"Cache-Control": "no-cache"})


@lru_cache
def forms(locked: bool) -> Forms:
    """As it is sent; the same for every application of a process, and made once."""
    return forms_of(encode(document(locked=locked)), JSON)


def document(*, locked: bool) -> dict[str, Any]:
    """OpenAPI 3.1; `locked`: of a gateway with keys."""
    shapes = Shapes()
    paths: dict[str, dict[str, Any]] = {}
    refusals: dict[str, dict[str, Any]] = {}
    for route, operation in OPERATIONS.items():
        method, path = route.split()
        refused = list(refused_with(codes_of(route, operation, locked=locked)))
        refusals.update({name: refusal(status, codes) for name, status, codes in refused})
        told: dict[str, Any] = {
            "operationId": operation.id,
            "summary": operation.does,
            "tags": [operation.group],
            "responses": {
                **{str(status): shapes.answer(answer) for status, answer in operation.answers.items()},
                **{str(status): {"$ref": f"#/components/responses/{name}"} for name, status, _ in refused},
            },
        }
        if operation.more:
            told["description"] = operation.more
        if parameters := parameters_of(path, operation):
            told["parameters"] = [{"$ref": f"#/components/parameters/{name}"} for name in parameters]
        if operation.takes and method != "DELETE":  # there a body is read and checked, but HTTP gives it no meaning
            told["requestBody"] = shapes.body(operation.takes, operation.examples)
        if locked:
            told["security"] = security_of(route)
        paths.setdefault(path, {})[method.lower()] = told
    components: dict[str, Any] = {
        "schemas": shapes.all(),
        "parameters": PARAMETERS,
        "headers": HEADERS,
        "responses": dict(sorted(refusals.items())),
    }
    if locked:
        components["securitySchemes"] = SCHEMES
    return {
        "openapi": "3.1.1",
        "info": {"title": "Tailrace", "version": "1", "description": ABOUT},
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": what} for name, what in GROUPS.items()],
        "paths": paths,
        "components": components,
    }


class Shapes:
    """The schemas of all shapes that were asked for, each named by its class."""

    def __init__(self) -> None:
        self._named: list[Any] = [Problem, Options, *KINDS.values()]

    def of(self, shape: Any) -> dict[str, Any]:
        """A reference, or what is made of some."""
        if isinstance(shape, tuple):
            return {"anyOf": [self.of(each) for each in shape]}
        self._named.append(shape)
        (schema,), _ = msgspec.json.schema_components([shape], ref_template=SCHEMAS + "{name}")
        return schema

    def all(self) -> dict[str, Any]:
        _, components = msgspec.json.schema_components(self._named, ref_template=SCHEMAS + "{name}")
        return dict(sorted(components.items()))

    def body(self, shape: type[Struct], examples: Iterable[Any]) -> dict[str, Any]:
        content: dict[str, Any] = {"schema": self.of(shape)}
        if examples:
            content["examples"] = {str(number): {"value": value} for number, value in enumerate(examples, 1)}
        needed = any(field.required for field in msgspec.structs.fields(shape))
        return {"required": needed, "content": {JSON: content}}

    def answer(self, answer: Answer) -> dict[str, Any]:
        told: dict[str, Any] = {"description": answer.what}
        if answer.headers:
            told["headers"] = referred(answer.headers)
        if answer.media:
            told["content"] = {media: self._content(answer, media) for media in answer.media}
        return told

    def _content(self, answer: Answer, media: str) -> dict[str, Any]:
        if answer.shape is None:
            return {"schema": {"type": "string"}}
        inner = self.of(answer.shape)
        if media == STREAM:
            return {"schema": {"type": "string"}, "x-itemSchema": event_of(inner)}
        return {"schema": enveloped(inner, answer.inside)}


def enveloped(inner: dict[str, Any], envelope: str | None) -> dict[str, Any]:
    if envelope is None:
        return inner
    properties = {"success": {"const": True}, "data": inner} if envelope == "success" else {"data": inner}
    return {"type": "object", "properties": properties, "required": list(properties)}


def event_of(inner: dict[str, Any]) -> dict[str, Any]:
    """One event of a stream, in the form that OpenAPI 3.2 has for it."""
    data = {"type": "string", "contentMediaType": JSON, "contentSchema": inner}
    named = {"event": {"enum": ["message", "reset", "end"], "default": "message"}, "id": {"type": "string"}}
    return {"type": "object", "properties": {**named, "data": data, "retry": {"type": "integer"}}}


def parameters_of(path: str, operation: Operation) -> list[str]:
    parts = re.findall(r"{(\w+)}", path)
    return [*("PageFile" if path.startswith("/page/") else OF_PATH[part] for part in parts), *operation.asks]


def security_of(route: str) -> list[dict[str, list[str]]]:
    """What may be shown for this route, and the scope it must be good for; for none, nothing."""
    need = NEEDS.get(route, ADMIN)
    if need is PUBLIC:
        return []
    scopes = [str(need)] if isinstance(need, Scope) else []
    shown = ["key", "session", *(["ticket"] if route == "GET /research/stream/{job_id}" else [])]
    return [{scheme: scopes} for scheme in shown]


def refused_with(codes: Iterable[Code]) -> Iterable[tuple[str, int, list[Code]]]:
    """The codes by status, and a name for those that are refused with the same ones."""
    for status, group in groupby(codes, lambda code: code.status):
        same = list(group)
        yield ".".join(code.name for code in same), status, same


def refusal(status: int, codes: list[Code]) -> dict[str, Any]:
    schema = {
        "$ref": SCHEMAS + "Problem",
        "properties": {"status": {"const": status}, "code": {"enum": [code.name for code in codes]}},
    }
    told: dict[str, Any] = {
        "description": "; ".join(f"`{code.name}`: {code.when}" for code in codes),
        "content": {PROBLEM: {"schema": schema}},
    }
    headers = {401: ("WWW-Authenticate",), 429: ("Retry-After",), 503: ("Retry-After",)}.get(status)
    if headers:
        told["headers"] = referred(headers)
    return told


def referred(headers: Iterable[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in headers}


OF_EVERY_ROUTE: Final = frozenset({Code.MALFORMED, Code.TOO_SLOW, Code.TOO_MANY_CONNECTIONS, Code.INTERNAL})
OF_A_BODY: Final = frozenset({Code.TOO_LARGE, Code.NOT_JSON, Code.WRONG_FIELD, Code.TOO_MANY_BYTES})
OF_THE_STORE: Final = frozenset({Code.STORE_AWAY, Code.STORE_UNFIT})
OF_KEYS: Final = frozenset({Code.UNAUTHORIZED, Code.PLATFORM_FORBIDDEN, Code.SCOPE_MISSING, Code.WORKER_SHARED})


def codes_of(route: str, operation: Operation, *, locked: bool) -> list[Code]:
    """Every code this route may refuse with, on a gateway with keys or without."""
    method, path = route.split()
    codes = {*OF_EVERY_ROUTE, *operation.refuses}
    if operation.takes:
        codes |= OF_A_BODY
    if operation.store:
        codes |= OF_THE_STORE
    if "{job_id}" in path and operation.group != "page":
        codes.add(Code.JOB_NOT_FOUND)
    if "{platform}" in path:
        codes |= (
            {Code.WRONG_FIELD, Code.PLATFORM_FORBIDDEN} if operation.group == "schedules" else {Code.PLATFORM_NOT_FOUND}
        )
    if method not in SAFE:
        codes.add(Code.FOREIGN_ORIGIN)
    codes |= of_the_door(route, path) if locked else {Code.OTHER_HOST}
    return [code for code in Code if code in codes and (locked or code not in OF_KEYS)]


def of_the_door(route: str, path: str) -> set[Code]:
    """What the guard refuses with, where there are keys."""
    need = NEEDS.get(route, ADMIN)
    if need is PUBLIC:
        return set()
    codes = {Code.UNAUTHORIZED, Code.RATE_EXCEEDED, Code.TOO_MANY_REQUESTS}
    if isinstance(need, Scope):
        codes.add(Code.SCOPE_MISSING)
    # Whose session it is, only the store knows; a stream says so in its own way.
    return codes | ({Code.TOO_MANY_STREAMS} if path in STREAMS else OF_THE_STORE)
