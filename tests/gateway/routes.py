"""Every route of the gateway by method and path, and a path with its parameters filled in."""

import re
from collections.abc import Iterator

from starlette.routing import Route

from tailrace.gateway.application import TABLE, create_app
from tailrace.gateway.route_table import PUBLIC
from tailrace.gateway.settings import GatewaySettings
from tailrace.producers.platforms import BUILT_IN
from tailrace.producers.settings import StreamsSettings

SETTINGS = GatewaySettings(streams=StreamsSettings(url="redis://127.0.0.1:1", platforms=BUILT_IN))
FILLED = {"job_id": "research.none", "platform": "research", "name": "style.css"}


def routes() -> Iterator[tuple[str, str]]:
    """Every route of the router, by method and path."""
    for route in create_app(SETTINGS).routes:
        assert isinstance(route, Route)
        for method in sorted((route.methods or set()) - {"HEAD"}):
            yield method, route.path


ROUTES = sorted(routes())
CLOSED = [(method, path) for method, path in ROUTES if TABLE[f"{method} {path}"].scope is not PUBLIC]
JOB_ROUTES = [(method, path) for method, path in CLOSED if "{job_id}" in path]


def filled(path: str) -> str:
    return re.sub(r"{(\w+)}", lambda found: FILLED[found[1]], path)
