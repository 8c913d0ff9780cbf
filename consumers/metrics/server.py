"""A small HTTP server for Prometheus and for probes: /metrics, /healthz, /readyz.

It runs in the heart, which goes on while a handler holds the consumer's interpreter. One request a connection, no body,
no keep-alive, no more than a few clients at a time: whatever asks here must not keep the heart from beating.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import NamedTuple

import anyio
import anyio.to_thread

from tailrace.streams.process.logs import get_logger

MOST_CLIENTS = 16
HEAD_BYTES = 8192
CLIENT_SECONDS = 5.0  # for one request and its answer
RETRY_SECONDS = 5.0  # between tries for a port that is taken: a consumer that drains may still hold it

TEXT = "text/plain; charset=utf-8"

log = get_logger()


class HttpAnswer(NamedTuple):
    status: HTTPStatus
    body: bytes
    content_type: str = TEXT


class MetricsServer:
    """Serves until it is cancelled. Each path has a function that answers in a thread."""

    def __init__(self, host: str, port: int, paths: dict[str, Callable[[], HttpAnswer]]) -> None:
        self._host = host
        self._port = port
        self._paths = paths
        self._clients = 0

    async def run(self) -> None:
        said = ""
        while True:
            try:
                server = await asyncio.start_server(self._serve, self._host, self._port, limit=HEAD_BYTES)
            except OSError as error:
                if str(error) != said:
                    log.error("metrics_port_taken", host=self._host, port=self._port, error=str(error))
                said = str(error)
                await anyio.sleep(RETRY_SECONDS)
                continue
            log.info("metrics_served", host=self._host, port=self._port)
            async with server:
                await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients += 1
        try:
            if self._clients <= MOST_CLIENTS:
                with anyio.move_on_after(CLIENT_SECONDS), suppress(OSError, asyncio.IncompleteReadError):
                    await self._answer(reader, writer)
        finally:
            self._clients -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            head = b""
        method, _, rest = head.partition(b" ")
        answer = await self._find(method, rest.partition(b" ")[0].partition(b"?")[0].decode("latin-1"))
        status = answer.status
        body = b"" if method == b"HEAD" else answer.body
        writer.write(
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {answer.content_type}\r\n"
            f"Content-Length: {len(answer.body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n".encode()
            + body
        )
        await writer.drain()

    async def _find(self, method: bytes, path: str) -> HttpAnswer:
        if not method:
            return HttpAnswer(HTTPStatus.BAD_REQUEST, b"not an HTTP request of at most 8 KB\n")
        if path not in self._paths:
            return HttpAnswer(HTTPStatus.NOT_FOUND, f"served here: {', '.join(self._paths)}\n".encode())
        if method not in {b"GET", b"HEAD"}:
            return HttpAnswer(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n")
        try:
            return await anyio.to_thread.run_sync(self._paths[path])
        except Exception as error:  # whatever it is, the heart beats on
            log.error("metrics_broken", path=path, error=repr(error))
            return HttpAnswer(HTTPStatus.INTERNAL_SERVER_ERROR, b"see the log of the consumer\n")
