"""A job followed from Python: `async for event in follow(job)`, over HTTP, whatever happens in between.

What is raised is one tree; wrong arguments are a ValueError.

    FollowError
    ├── NoSuchJob              no job of that id is kept, or the key is not for its platform
    ├── GatewayRefused         asking again would not help: `status` and `code` say why
    ├── GatewayAway            no gateway answered for as long as the caller has patience
    ├── HistoryReset           the events so far are no longer the history of the job
    └── NotAGateway            something else answers at the address

It stands apart from `streams.errors`: to follow a job over HTTP takes no store, and `streams` imports redis.
"""

import logging
import random
import re
import ssl
from collections.abc import AsyncGenerator
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec

from tailrace.gateway.client.connection import Exchange, NotHTTP, NotTrusted, read_address
from tailrace.gateway.client.event_stream import Frames, TooLarge

OPEN_SECONDS: Final = 20.0  # until an answer begins
SILENCE_SECONDS: Final = 45.0  # a gateway sends something every 15 s: after three times that, the connection is dead
SETTLED_SECONDS: Final = 1.0  # a stream that is open for so long is a live one, even when nothing has happened
RETRY_SECONDS: Final = 0.5  # the first pause, unless the stream names another; then twice as long each time
SHORTEST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 15.0
LONGEST_RETRY_AFTER_SECONDS: Final = 60.0
HICCUPS: Final = 3  # this many failures in a row are logged as a warning
PROBLEM_BYTES: Final = 64 * 1024

PASSING: Final = frozenset({408, 425, 429})  # and all from 500 on: the same request may be served later

_JOB_ID: Final = re.compile(r"[a-z0-9_-]+\.[A-Za-z0-9_-]+")

log = logging.getLogger("tailrace.follow")  # not structlog: how to log is the caller's choice


class FollowError(Exception):
    """The root: a job cannot be followed, or not any further."""

    def __init__(self, sentence: str, job_id: str) -> None:
        super().__init__(sentence)
        self.job_id = job_id


class NoSuchJob(FollowError):
    """There never was such a job, its retention has passed, or the key is not for its platform."""


class GatewayRefused(FollowError):
    """The gateway does not let this job be followed."""

    def __init__(self, job_id: str, status: int, code: str, detail: str) -> None:
        super().__init__(f"the gateway answered {status}: {detail}", job_id)
        self.status = status
        self.code = code


class GatewayAway(FollowError):
    """No gateway has let the job be followed for `patience_seconds`."""


class HistoryReset(FollowError):
    """The store lost events that were shown already, or never had the event `after`: follow from the beginning."""


class NotAGateway(FollowError):
    """The server at this address does not answer as a gateway does."""


async def follow(
    job: str,
    url: str = "http://127.0.0.1:3989",
    key: str | None = None,
    *,
    after: str = "",
    patience_seconds: float | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncGenerator[dict[str, Any], None]:
    """Each event of a job once, in order, from the first to the end of the job; each is the JSON of the event.

    Connections that break, fall silent or are refused for the moment are opened again, with the id of the last event.
    `after` is the `id` of an event: go on behind it. `patience_seconds` is how long the gateway may be away; without
    it, for ever. The connection closes with the generator; after a loop that you leave early, `contextlib.aclosing`
    closes it at once.
    """
    following = Following(job, url, key, after, patience_seconds, tls)
    try:
        while events := await following.more():
            for event in events:
                yield event
    finally:
        await following.aclose()


class Later(ConnectionError):
    """The answer says to ask again later."""

    def __init__(self, status: int, seconds: float) -> None:
        super().__init__(f"the answer was {status}")
        self.seconds = seconds


class Following:
    """The state of `follow` from one connection to the next."""

    def __init__(
        self,
        job: str,
        url: str,
        key: str | None,
        after: str,
        patience_seconds: float | None,
        tls: ssl.SSLContext | None,
    ) -> None:
        if not _JOB_ID.fullmatch(job):
            raise ValueError("job: a job id is <platform>.<key>, as given when the job was accepted")
        self._job = job
        self._address = read_address(url)
        self._headers = {"Accept": b"text/event-stream", "Cache-Control": b"no-store"}
        if key is not None:
            if not key.isascii() or not key.isprintable() or not key or " " in key:
                raise ValueError("key: a key has visible ASCII characters only")
            self._headers["Authorization"] = b"Bearer " + key.encode()
        if not after.isprintable():
            raise ValueError("after: this is not the id of an event")
        self._tls = tls
        self._patience_seconds = float("inf") if patience_seconds is None else patience_seconds
        self._exchange: Exchange | None = None
        self._frames = Frames()
        self._last_id = after
        self._seq = 0  # of the newest event told
        self._retry_seconds = RETRY_SECONDS
        self._failures = 0  # in a row
        self._opened = self._heard = anyio.current_time()
        self._over = False
        self._reset = False

    async def more(self) -> list[dict[str, Any]]:
        """The next events, as many as came together; none: the job has ended."""
        while not self._over:
            if self._reset:
                sentence = (
                    f"the events so far are no longer the history of job {self._job}; follow it from its beginning"
                )
                raise HistoryReset(sentence, self._job)
            try:
                if events := self._take(await self._receive()):
                    return events
            except (NotHTTP, NotTrusted, TooLarge) as error:
                raise NotAGateway(f"{self._address.netloc}: {error}", self._job) from error
            except OSError as error:  # no answer, a broken or a silent connection
                await self._rest(error)
        return []

    async def aclose(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange:
            await exchange.aclose()

    # One connection

    async def _receive(self) -> bytes:
        """The next piece of the stream. Raises OSError when the stream has to be opened again."""
        if self._exchange is None:
            await self._open()
        if self._over or self._exchange is None:
            return b""
        with anyio.fail_after(SILENCE_SECONDS):
            chunk = await self._exchange.receive()
        if anyio.current_time() - self._opened > SETTLED_SECONDS:
            self._live()
        if not chunk:
            raise ConnectionError("the stream ended before the job did")
        return chunk

    async def _open(self) -> None:
        if self._address.scheme == "https" and self._tls is None:  # reads files
            self._tls = await anyio.to_thread.run_sync(ssl.create_default_context)
        headers = {**self._headers, **({"Last-Event-ID": self._last_id.encode()} if self._last_id else {})}
        left = self._heard + self._patience_seconds - anyio.current_time()
        with anyio.fail_after(min(OPEN_SECONDS, max(left, SHORTEST_PAUSE_SECONDS))):
            exchange = await Exchange.get(self._address, f"/research/stream/{self._job}", headers, self._tls)
        self._exchange = exchange
        self._opened = anyio.current_time()
        self._frames = Frames()
        if exchange.status == 204:
            self._over = True
        elif exchange.status != 200:
            await self._refused(exchange)
        elif not exchange.headers.get("content-type", "").lower().startswith("text/event-stream"):
            raise NotAGateway(f"{self._address.netloc} did not answer with a stream of events", self._job)
        elif (encoding := exchange.headers.get("content-encoding", "").strip().lower()) not in {"", "identity"}:
            sentence = f"{self._address.netloc} answered in {encoding[:20]!r}: let no proxy compress streams"
            raise NotAGateway(sentence, self._job)

    async def _refused(self, exchange: Exchange) -> None:
        """Raise the error for an answer that is not a stream."""
        status = exchange.status
        if status in PASSING or status >= 500:
            asked = exchange.headers.get("retry-after", "")
            seconds = float(asked) if asked.isdecimal() and len(asked) < 9 else 0.0
            raise Later(status, min(seconds, LONGEST_RETRY_AFTER_SECONDS))
        told = b""
        with anyio.move_on_after(OPEN_SECONDS):
            while len(told) < PROBLEM_BYTES and (chunk := await exchange.receive()):
                told += chunk
        try:
            problem = msgspec.json.decode(told, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            problem = {}
        code = str(problem.get("code", ""))
        if status == 404 and code == "JOB_NOT_FOUND":
            raise NoSuchJob(f"no job {self._job} is kept", self._job)
        moved = exchange.headers.get("location", "")
        detail = problem.get("detail") or (f"it moved to {moved}" if moved else "and not with words of a gateway")
        raise GatewayRefused(self._job, status, code, str(detail))

    def _take(self, chunk: bytes) -> list[dict[str, Any]]:
        """The events in this piece of the stream; what comes after an end or a reset is left out."""
        events = []
        for frame in self._frames.feed(chunk):
            if frame.event == "message":
                event = self._decoded(frame.data)
                self._last_id = frame.id or self._last_id
                seq = event.get("seq")
                if isinstance(seq, int):
                    if seq <= self._seq:  # some proxies ask twice
                        continue
                    self._seq = seq
                events.append(event)
            elif frame.event == "end":
                self._over = True
                break
            elif frame.event == "reset" and self._last_id:
                self._reset = True
                break
        if self._frames.retry_ms is not None:
            self._retry_seconds = max(self._frames.retry_ms / 1000, SHORTEST_PAUSE_SECONDS)
        if events:
            self._live()
        return events

    def _decoded(self, data: str) -> dict[str, Any]:
        try:
            return msgspec.json.decode(data, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            raise NotAGateway(f"{self._address.netloc} sent an event that is not a JSON object", self._job) from error

    # From one connection to the next

    def _live(self) -> None:
        self._heard = anyio.current_time()
        self._failures = 0

    async def _rest(self, error: OSError) -> None:
        """Wait before the next try, longer after each failure; a random time, so that clients do not come together."""
        await self.aclose()
        reason = str(error) or "nothing was heard"
        longest = min(LONGEST_PAUSE_SECONDS, self._retry_seconds * 2 ** min(self._failures, 10))
        pause = max(longest * random.uniform(0.5, 1.0), error.seconds if isinstance(error, Later) else 0.0)
        left = self._heard + self._patience_seconds - anyio.current_time()
        if left <= 0:
            sentence = f"no gateway at {self._address.netloc} for {self._patience_seconds:g} s: {reason}"
            raise GatewayAway(sentence, self._job) from error
        self._failures += 1
        level = logging.WARNING if self._failures == HICCUPS else logging.DEBUG
        log.log(level, "gateway_away job=%s gateway=%s reason=%r", self._job, self._address.netloc, reason)
        await anyio.sleep(min(pause, left))
