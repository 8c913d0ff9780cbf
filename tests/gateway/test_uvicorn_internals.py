"""What the gateway uses of uvicorn beyond its documented interface: one case each, which names what changed.

pyproject.toml pins uvicorn to one minor version for that reason.
"""

import ast
import asyncio
import inspect
from collections import deque
from collections.abc import Iterator
from typing import Any

import httptools
import pytest
import uvicorn
from uvicorn.lifespan.on import LifespanOn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from tailrace.gateway.server import Connection, Server

REQUEST = b"POST /path?query HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\npart"

OF_A_CONNECTION: dict[str, Any] = {
    "app": object,
    "app_state": dict,
    "connections": set,
    "cycle": RequestResponseCycle,
    "flow": FlowControl,
    "headers": list,
    "parser": httptools.HttpRequestParser,
    "pipeline": deque,
    "scope": dict,
    "transport": asyncio.Transport,
    "url": bytes,
}
OF_A_CYCLE = {
    "disconnected": False,
    "keep_alive": True,
    "more_body": True,
    "response_complete": False,
    "response_started": False,
}
OF_A_SERVER: dict[str, Any] = {"force_exit": bool, "server_state": ServerState, "should_exit": bool}
METHODS = (
    *((HttpToolsProtocol, name, ()) for name in ("_unset_keepalive_if_required", "on_message_begin")),
    *((HttpToolsProtocol, name, ()) for name in ("on_headers_complete", "on_message_complete")),
    (HttpToolsProtocol, "connection_made", ("transport",)),
    (HttpToolsProtocol, "data_received", ("data",)),
    (HttpToolsProtocol, "on_body", ("body",)),
    (HttpToolsProtocol, "on_header", ("name", "value")),
    (HttpToolsProtocol, "send_400_response", ("msg",)),
    *((FlowControl, name, ()) for name in ("drain", "pause_reading")),
    (LifespanOn, "shutdown", ()),
    (uvicorn.Server, "main_loop", ()),
    (uvicorn.Server, "on_tick", ("counter",)),
    (uvicorn.Server, "shutdown", ("sockets",)),
    (uvicorn.Server, "startup", ("sockets",)),
)


class Transport(asyncio.Transport):
    """A connection that leads nowhere."""

    def is_closing(self) -> bool:
        return False


async def app(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("it is never run")


@pytest.fixture
def protocol() -> Iterator[HttpToolsProtocol]:
    """A connection in the middle of a request."""
    loop, state = asyncio.new_event_loop(), ServerState()
    protocol = HttpToolsProtocol(uvicorn.Config(app, ws="none", log_config=None), state, {}, loop)
    protocol.connection_made(Transport())
    protocol.data_received(REQUEST)
    yield protocol
    (task,) = state.tasks
    task.cancel()
    loop.run_until_complete(asyncio.wait([task]))
    loop.close()


@pytest.mark.parametrize("name", OF_A_CONNECTION)
def test_a_connection_has(protocol: HttpToolsProtocol, name: str) -> None:
    assert isinstance(getattr(protocol, name), OF_A_CONNECTION[name])


@pytest.mark.parametrize("name", OF_A_CYCLE)
def test_a_request_under_way_has(protocol: HttpToolsProtocol, name: str) -> None:
    assert getattr(protocol.cycle, name) is OF_A_CYCLE[name]


def test_flow_control_has_write_paused(protocol: HttpToolsProtocol) -> None:
    assert protocol.flow.write_paused is False
    protocol.flow.pause_writing()
    assert protocol.flow.write_paused is True


def test_a_scope_has_a_method_only_when_its_head_is_complete(protocol: HttpToolsProtocol) -> None:
    assert protocol.scope["method"] == "POST"
    protocol.on_message_begin()
    assert "method" not in protocol.scope


@pytest.mark.parametrize("name", OF_A_SERVER)
def test_a_server_has(name: str) -> None:
    server = uvicorn.Server(uvicorn.Config("nowhere:app", log_config=None))
    assert isinstance(getattr(server, name), OF_A_SERVER[name])


def test_a_server_state_has_connections() -> None:
    assert ServerState().connections == set()


@pytest.mark.parametrize("part", ["self.lifespan = ", "self.handle_exit)"])
def test_a_server_that_serves_uses(part: str) -> None:
    """The library sse-starlette replaces `handle_exit`, so its arguments cannot be looked at."""
    assert part in inspect.getsource(uvicorn.Server)


@pytest.mark.parametrize(("owner", "name", "arguments"), METHODS, ids=lambda each: getattr(each, "__name__", each))
def test_a_method_takes_what_we_pass(owner: type, name: str, arguments: tuple[str, ...]) -> None:
    assert tuple(inspect.signature(getattr(owner, name)).parameters)[1:] == arguments


@pytest.mark.parametrize("ours", [Connection, Server])
def test_every_part_we_use_has_a_case(ours: type) -> None:
    nodes = [node for node in ast.walk(ast.parse(inspect.getsource(ours))) if isinstance(node, ast.Attribute)]
    nodes = [node for node in nodes if isinstance(node.value, ast.Name) and node.value.id == "self"]
    own = vars(ours).keys() | {node.attr for node in nodes if isinstance(node.ctx, ast.Store)}
    cases = {*OF_A_CONNECTION, *OF_A_SERVER, "lifespan", *(name for _, name, _ in METHODS)}
    assert {node.attr for node in nodes} - own <= cases
