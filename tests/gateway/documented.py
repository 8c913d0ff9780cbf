"""The document as a judge: whether an answer of a gateway is one that it describes, to the last field."""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from tailrace.gateway.problems import PROBLEM
from tailrace.gateway.route_table import STREAM

SAME = {"HEAD": "GET"}  # served wherever the other is, and not described apart


class Told(NamedTuple):
    """An answer as it came."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0]


class Document:
    """The document at /openapi.json. An answer must have no field that is not described: there may be more some
    day, but the fields of today must be in the document."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document: dict[str, Any] = strict(document)
        self.routes: dict[str, dict[str, Any]] = {
            f"{method.upper()} {path}": operation
            for path, item in self.document["paths"].items()
            for method, operation in item.items()
        }
        self._patterns = {
            path: re.compile("^" + re.sub(r"{\w+}", "[^/]+", path) + "$") for path in self.document["paths"]
        }
        self._validators: dict[str, Draft202012Validator] = {}

    def route_of(self, method: str, path: str) -> str | None:
        """Which route serves this path, as it is once it is decoded; empty: another method of it; None: none at all."""
        found = [each for each, pattern in self._patterns.items() if pattern.match(path)]
        routes = [f"{SAME.get(method, method)} {each}" for each in found]
        return next((route for route in routes if route in self.routes), "" if found else None)

    def resolve(self, node: dict[str, Any]) -> dict[str, Any]:
        """What a reference stands for."""
        while "$ref" in node:
            *_, kind, name = node["$ref"].split("/")
            node = self.document["components"][kind][name]
        return node

    def parameters(self, route: str) -> list[dict[str, Any]]:
        return [self.resolve(parameter) for parameter in self.routes[route].get("parameters", [])]

    def body(self, route: str) -> dict[str, Any] | None:
        """The schema of what a route takes, and examples of it."""
        taken = self.routes[route].get("requestBody")
        return taken["content"]["application/json"] if taken else None

    def accepts(self, schema: dict[str, Any], value: Any) -> bool:
        return bool(self._validator(schema).is_valid(value))

    def judge(self, method: str, route: str | None, told: Told) -> None:
        """Raise unless the answer is one that the document has for this route, or for none."""
        if not route:
            code = "NOT_FOUND" if route is None else "METHOD_NOT_ALLOWED"
            self._judge_problem(told, {code, "MALFORMED", "UNAUTHORIZED", "OTHER_HOST", "FOREIGN_ORIGIN"}, method)
            return
        responses = self.routes[route]["responses"]
        assert str(told.status) in responses, f"{route} does not say that it answers {told.status}: {told.body[:500]!r}"
        response = self.resolve(responses[str(told.status)])
        for name, header in response.get("headers", {}).items():
            self._judge_header(name, self.resolve(header), told)
        if method == "HEAD":
            assert told.body == b""
            return
        content = response.get("content")
        if not content:
            assert told.body == b"", f"{route} says nothing with {told.status}"
            return
        assert told.media_type in content, f"{route} does not say that it answers {told.media_type or 'nothing'}"
        media = content[told.media_type]
        if told.media_type == STREAM:
            self._judge_stream(media["x-itemSchema"], told.body)
        elif told.media_type.endswith("json"):
            self._judge(media["schema"], json.loads(told.body))

    def _judge_problem(self, told: Told, codes: set[str], method: str) -> None:
        assert 400 <= told.status < 500, told
        assert told.media_type == PROBLEM, told
        if method != "HEAD":
            problem = json.loads(told.body)
            self._judge({"$ref": "#/components/schemas/Problem"}, problem)
            assert problem["code"] in codes, problem

    def _judge_header(self, name: str, header: dict[str, Any], told: Told) -> None:
        value: Any = told.headers.get(name.lower())
        assert value is not None or not header["required"], f"there is no {name}"
        if value is not None:
            self._judge(header["schema"], int(value) if header["schema"].get("type") == "integer" else value)

    def _judge_stream(self, item: dict[str, Any], body: bytes) -> None:
        for frame in body.decode().split("\n\n")[:-1]:
            fields = dict(line.split(": ", 1) for line in frame.split("\n"))
            if data := fields.get("data"):
                named = fields.get("event", "message")
                self._judge(item["properties"]["event"], named)
                schema = item["properties"]["data"]["contentSchema"] if named == "message" else {"const": {}}
                self._judge(schema, json.loads(data))

    def _judge(self, schema: dict[str, Any], value: Any) -> None:
        error = next(iter(self._validator(schema).iter_errors(value)), None)
        if error is not None:
            raise AssertionError(f"{error.json_path}: {error.message[:500]}")

    def _validator(self, schema: dict[str, Any]) -> Draft202012Validator:
        key = json.dumps(schema, sort_keys=True)
        if key not in self._validators:
            whole = {**schema, "components": {"schemas": self.document["components"]["schemas"]}}
            self._validators[key] = Draft202012Validator(whole)
        return self._validators[key]


def strict(node: Any) -> Any:
    """The same, but an object has the fields that are named, and no others."""
    if isinstance(node, list):
        return [strict(each) for each in node]
    if not isinstance(node, dict):
        return node
    inner = {name: strict(each) for name, each in node.items()}
    if inner.get("type") == "object" and isinstance(inner.get("properties"), dict):
        inner.setdefault("additionalProperties", False)
    return inner
