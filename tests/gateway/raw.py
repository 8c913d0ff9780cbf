"""Requests as bytes, for those that no client library would send."""

import asyncio
from typing import NamedTuple, Self
from urllib.parse import urlsplit


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
