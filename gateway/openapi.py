"""The document at /openapi.json: requests, answers and refusals of every route.

It is made of the table of routes and of the shapes that they decode and answer with. It names nothing of this
deployment: no platform that was declared here, no consumer, no key. So it may be public, and it is the same for
all.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, Final

import msgspec
from msgspec import Struct

from tailrace.gateway.access.origins import SAFE
from tailrace.gateway.access.tickets import COOKIE
from tailrace.gateway.bodies import SCHEMAS, like
from tailrace.gateway.etags import Forms, forms_of
from tailrace.gateway.live.job_stream import PATH as TICKETED
from tailrace.gateway.problems import PROBLEM, Code, Problem, encode
from tailrace.gateway.replies import JSON
from tailrace.gateway.route_table import PUBLIC, STREAM, STRING, TABLE, Answer, Endpoint, Open, Parameter, formed
from tailrace.producers.kinds import KINDS
from tailrace.streams.keys import KEY_FORM, PLATFORM_FORM
from tailrace.streams.messages import Failure
from tailrace.streams.options import Options
from tailrace.streams.schedules import NAME_FORM

ABOUT: Final = (
    "Background jobs with one visible history each. JSON is compact, times are ISO 8601 in UTC with milliseconds. "
    "HEAD is served wherever GET is. Other paths are 404 NOT_FOUND, other methods 405 "
    "METHOD_NOT_ALLOWED. Answers may gain fields; none is removed or changes its type."
)

GROUPS: Final = {
    "submit": "Submit jobs.",
    "jobs": "See one job and act on it.",
    "events": "Histories and live streams.",
    "platforms": "See and control platforms and their failed jobs.",
    "schedules": "Jobs that are submitted at certain times.",
    "workers": "Consumers.",
    "session": "Sign in; tickets, which a browser sends instead of a key.",
    "process": "This gateway itself.",
    "page": "The page.",
}

SCHEMES: Final = {
    "key": {"type": "http", "scheme": "bearer", "description": "An API key."},
    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": "The session of a signed-in user."},
    "ticket": {"type": "apiKey", "in": "query", "name": "ticket", "description": "Opens one stream of one job."},
}


def _path(id: str, name: str, what: str, form: str, example: str) -> Parameter:
    return Parameter(id, "path", name, what, formed(form), required=True, example=example)


OF_PATH: Final = {
    "job_id": _path(
        "JobId",
        "job_id",
        "The id of a job: its platform, a dot, its key.",
        rf"{PLATFORM_FORM}\.{KEY_FORM}",
        "research.tides-1",
    ),
    "platform": _path("Platform", "platform", "A declared platform.", PLATFORM_FORM, "default"),
    "name": _path("ScheduleName", "name", "The name of a schedule.", NAME_FORM, "nightly"),
}
"""The descriptions of parts of a path, unless a route has its own."""


def _header(what: str, schema: Mapping[str, Any] = STRING, *, always: bool = True) -> dict[str, Any]:
    return {"description": what, "schema": dict(schema), "required": always}


HEADERS: Final[Mapping[str, dict[str, Any]]] = {
    "Location": _header("The address of the job."),
    "Retry-After": _header("After how many seconds to ask again.", {"type": "integer", "minimum": 1}),
    "ETag": _header("The tag of this answer.", always=False),
    "Idempotency-Replayed": _header("The same request was accepted before.", {"enum": ["true"]}, always=False),
    "Set-Cookie": _header("The session.", always=False),
    "WWW-Authenticate": _header("How to authenticate."),
}

OF_EVERY_ROUTE: Final = frozenset({Code.MALFORMED, Code.TOO_SLOW, Code.TOO_MANY_CONNECTIONS, Code.INTERNAL})
OF_A_BODY: Final = frozenset({Code.TOO_LARGE, Code.NOT_JSON, Code.WRONG_FIELD, Code.TOO_MANY_BYTES})
OF_THE_STORE: Final = frozenset({Code.STORE_AWAY, Code.STORE_UNFIT})
OF_KEYS: Final = frozenset({Code.UNAUTHORIZED, Code.PLATFORM_FORBIDDEN, Code.SCOPE_MISSING, Code.WORKER_SHARED})


@lru_cache(maxsize=16)
def forms(locked: bool, builtins: bool, mounted_at: str) -> Forms:
    """The document as it is sent: the same for every application of a process, and made once."""
    return forms_of(encode(document(TABLE, locked=locked, builtins=builtins, server=mounted_at or "/")), JSON)


def document(
    table: Mapping[str, Endpoint], *, locked: bool, builtins: bool = True, server: str = "/"
) -> dict[str, Any]:
    """OpenAPI 3.1; `locked`: of a gateway with keys. Without `builtins`, their routes, kinds and examples are left out.

    The examples are jobs of built-in kinds on built-in platforms. `server` is the path in front of every other path.
    """
    shapes = Shapes(builtins)
    paths: dict[str, dict[str, Any]] = {}
    refusals: dict[str, dict[str, Any]] = {}
    parameters: dict[str, dict[str, Any]] = {}
    for said in table.values():
        if said.builtin and not builtins:
            continue
        refused = list(refused_with(codes_of(said, locked=locked)))
        refusals.update({name: refusal(status, codes) for name, status, codes in refused})
        told: dict[str, Any] = {
            "operationId": said.id,
            "summary": said.does,
            "tags": [said.group],
            "responses": {
                **{str(status): shapes.answer(answer) for status, answer in said.answers.items()},
                **{str(status): {"$ref": f"#/components/responses/{name}"} for name, status, _ in refused},
            },
        }
        if said.more:
            told["description"] = said.more
        if asked := parameters_of(said):
            parameters.update({each.id: parameter(each, builtins) for each in asked})
            told["parameters"] = [{"$ref": f"#/components/parameters/{each.id}"} for each in asked]
        if said.takes and said.method != "DELETE":  # there a body is read and checked, but HTTP gives it no meaning
            told["requestBody"] = shapes.body(said.takes, said.examples if builtins else ())
        if locked:
            told["security"] = security_of(said)
        paths.setdefault(said.path, {})[said.method.lower()] = told
    components: dict[str, Any] = {
        "schemas": shapes.all(),
        "parameters": parameters,
        "headers": HEADERS,
        "responses": dict(sorted(refusals.items())),
    }
    if locked:
        components["securitySchemes"] = SCHEMES
    return {
        "openapi": "3.1.1",
        "info": {"title": "Tailrace", "version": "1", "description": ABOUT},
        "servers": [{"url": server}],
        "tags": [{"name": name, "description": what} for name, what in GROUPS.items()],
        "paths": paths,
        "components": components,
    }


class Shapes:
    """The schemas of all shapes that were asked for, each named by its class."""

    def __init__(self, builtins: bool) -> None:
        self._kinds = KINDS.values() if builtins else ()
        self._named: list[Any] = [Problem, Options, Failure, *self._kinds]

    def of(self, shape: Any) -> dict[str, Any]:
        """A reference, or a schema made of several."""
        if isinstance(shape, tuple):
            return {"anyOf": [self.of(each) for each in shape]}
        self._named.append(shape)
        (schema,), _ = msgspec.json.schema_components([shape], ref_template=SCHEMAS + "{name}")
        return schema

    def all(self) -> dict[str, Any]:
        _, components = msgspec.json.schema_components(self._named, ref_template=SCHEMAS + "{name}")
        missing = () if self._kinds else [like(kind) for kind in KINDS.values()]
        return {name: without(schema, missing) for name, schema in sorted(components.items())}

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
        if answer.inside is None:
            return {"schema": inner}
        properties = {**answer.enveloped(inner), **({"success": {"const": True}} if answer.inside == "success" else {})}
        return {"schema": {"type": "object", "properties": properties, "required": list(properties)}}


def without(schema: Any, missing: Sequence[Any]) -> Any:
    """The schema without these choices."""
    if isinstance(schema, dict):
        return {name: without(each, missing) for name, each in schema.items()}
    return [without(each, missing) for each in schema if each not in missing] if isinstance(schema, list) else schema


def event_of(inner: dict[str, Any]) -> dict[str, Any]:
    """One event of a stream, in the form that OpenAPI 3.2 has for it."""
    data = {"type": "string", "contentMediaType": JSON, "contentSchema": inner}
    named = {"event": {"enum": ["message", "reset", "end"], "default": "message"}, "id": {"type": "string"}}
    return {"type": "object", "properties": {**named, "data": data, "retry": {"type": "integer"}}}


def parameters_of(said: Endpoint) -> list[Parameter]:
    own = {each.name for each in said.asks if each.place == "path"}
    return [*(OF_PATH[part] for part in re.findall(r"{(\w+)}", said.path) if part not in own), *said.asks]


def parameter(asked: Parameter, examples: bool) -> dict[str, Any]:
    told = {"name": asked.name, "in": asked.place, "description": asked.what, "schema": dict(asked.schema)}
    more = {"required": asked.required or None, "example": asked.example if examples else None}
    return {**told, **{name: value for name, value in more.items() if value is not None}}


def security_of(said: Endpoint) -> list[dict[str, list[str]]]:
    """The credentials that this route takes, and the scope they need; empty for a public route."""
    if said.scope is PUBLIC:
        return []
    scopes = [] if isinstance(said.scope, Open) else [str(said.scope)]
    shown = ["key", "session", *(["ticket"] if said.path.startswith(TICKETED) else [])]
    return [{scheme: scopes} for scheme in shown]


def refused_with(codes: Iterable[Code]) -> Iterable[tuple[str, int, list[Code]]]:
    """The codes by status, and a name for those that are refused with the same ones."""
    for status, same_status in groupby(codes, lambda code: code.status):
        same = list(same_status)
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


def codes_of(said: Endpoint, *, locked: bool) -> list[Code]:
    """Every code this route may refuse with, on a gateway with keys or without."""
    codes = {*OF_EVERY_ROUTE, *said.refuses}
    if said.takes:
        codes |= OF_A_BODY
    if any(asked.schema is not STRING for asked in said.asks):
        codes.add(Code.WRONG_FIELD)
    if said.store:
        codes |= OF_THE_STORE if said.method in SAFE else {*OF_THE_STORE, Code.NOT_REPLICATED}
    if said.of_job:
        codes.add(Code.JOB_NOT_FOUND)
    if said.of_platform:
        codes.add(Code.PLATFORM_NOT_FOUND)
    elif "{platform}" in said.path:
        codes |= {Code.WRONG_FIELD, Code.PLATFORM_FORBIDDEN}
    if said.method not in SAFE:
        codes.add(Code.FOREIGN_ORIGIN)
    codes |= of_the_door(said) if locked else {Code.KEYS_NEEDED, Code.OTHER_HOST}
    return [code for code in Code if code in codes and (locked or code not in OF_KEYS)]


def of_the_door(said: Endpoint) -> set[Code]:
    """The codes of the guard, where there are keys."""
    if said.scope is PUBLIC:
        return set()
    codes = {Code.UNAUTHORIZED, Code.RATE_EXCEEDED, Code.TOO_MANY_REQUESTS}
    if not isinstance(said.scope, Open):
        codes.add(Code.SCOPE_MISSING)
    # Sessions are in the store, so it must answer; a stream reports that with a comment instead.
    return codes | ({Code.TOO_MANY_STREAMS} if said.streams else OF_THE_STORE)
