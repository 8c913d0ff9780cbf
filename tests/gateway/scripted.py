"""A server with prepared answers, sent as they are: one for each connection."""

import asyncio
import ssl
from contextlib import suppress
from typing import Self

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"


def streamed(*frames: bytes) -> bytes:
    """An answer of a gateway, in chunks, and its end."""
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(frame), frame) for frame in frames)
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


def refused(status: str, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Scripted:
    """`async with Scripted(b"…", b"…") as server: … server.url …`; the last answer is given again and again."""

    def __init__(
        self, *answers: bytes, endless: bytes = b"", hold: bool = False, tls: ssl.SSLContext | None = None
    ) -> None:
        self.requests: list[bytes] = []
        self.left = asyncio.Event()  # a client has closed its connection
        self._answers = answers
        self._endless = endless  # sent again and again after the last answer
        self._hold = hold  # the connection stays open, and nothing more is said
        self._tls = tls
        self._open: set[asyncio.StreamWriter] = set()

    async def was_asked(self, times: int = 1) -> bool:
        return len(self.requests) >= times

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._open:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        with suppress(OSError, RuntimeError, asyncio.IncompleteReadError):
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(self._answers[min(len(self.requests), len(self._answers)) - 1])
            await writer.drain()
            while self._endless and len(self.requests) >= len(self._answers):
                writer.write(self._endless)
                await writer.drain()
            if not self._hold:
                writer.write_eof()
            await reader.read()
        self.left.set()
        self._open.discard(writer)
        writer.close()
