"""Requests as bytes, for those that no client library would send."""

import asyncio
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from tailrace.gateway.__main__ import allow_many_clients

Socket = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Answer(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def all(self, name: str) -> list[str]:
        return [value for called, value in self.headers if called == name]

    def get(self, name: str) -> str:
        return ", ".join(self.all(name))


class RawClient:
    """One connection after the other, as few as the gateway lets us."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url)
        self._link: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._link:
            self._link[1].close()
            self._link = None

    async def ask(self, method: str, target: str, *lines: str, body: bytes = b"") -> Answer:
        """Send a request with this target, as it stands, and read the answer."""
        head = [f"{method} {target} HTTP/1.1", *lines]
        if not any(line.lower().startswith("host:") for line in lines):
            head.append(f"Host: {self._address.netloc}")
        if body:
            head.append(f"Content-Length: {len(body)}")
        self._link = self._link or await asyncio.open_connection(self._address.hostname, self._address.port)
        reader, writer = self._link
        writer.write("\r\n".join([*head, "", ""]).encode("latin-1") + body)
        return await asyncio.wait_for(self._read(reader, method), 20)

    async def _read(self, reader: asyncio.StreamReader, method: str) -> Answer:
        status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = [(name.lower(), value) for name, _, value in (line.partition(": ") for line in lines if line)]
        answer = Answer(int(status.split()[1]), headers, b"")
        streams = "event-stream" in answer.get("content-type")
        if answer.get("content-length") and method != "HEAD":
            answer = answer._replace(body=await reader.readexactly(int(answer.get("content-length"))))
        if streams or answer.get("connection") == "close" or (method == "HEAD" and not answer.get("content-length")):
            self.close()
        return answer


async def open_socket(url: str, opening: bytes = b"") -> Socket:
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(opening)
    return reader, writer


async def answer_to(gateway: str, request: bytes) -> bytes:
    """All that comes back until the gateway hangs up."""
    reader, writer = await open_socket(gateway, request)
    try:
        return await asyncio.wait_for(reader.read(), 20)
    finally:
        writer.close()


@contextmanager
def silent(port: int, path: str, count: int) -> Iterator[list[socket.socket]]:
    """Clients that ask for a stream, have the first word waiting for them, and never read it."""
    links: list[socket.socket] = []
    allow_many_clients()
    try:
        for _ in range(count):
            link = socket.create_connection(("127.0.0.1", port))
            links.append(link)
            link.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        for link in links:
            poll = select.poll()
            poll.register(link, select.POLLIN)
            assert poll.poll(30_000), "it was not answered"
        yield links
    finally:
        for link in links:
            link.close()
