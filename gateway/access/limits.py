"""How much of a gateway one client may take: connections, streams, requests a second, and time to send or read.

Each process counts for itself: with several gateways a key may take as much from each.
"""

import math
import time
from typing import Self

from msgspec import Struct
from starlette.types import ASGIApp, Receive, Scope, Send

from tailrace.gateway.access.origins import SAFE
from tailrace.gateway.problems import Code, Refusal
from tailrace.streams.process.settings import Environment

BURST_SECONDS = 2.0  # of a key's rate that it may save up
RETRY_SECONDS = 5  # Retry-After, when a limit is reached
BODY_BYTES = 10 * 1024  # that must arrive of a body from one look at its patience to the next
LEAST_BODIES = 1024 * 1024  # the largest body of all must fit
HELD = "tailrace.held"  # where a request's scope counts the bytes that it holds


class Caps(Struct, frozen=True):
    """The limits of one gateway process. Those of a key hold only where there are keys."""

    connections: int = 10_000  # TAILRACE_MAX_CONNECTIONS; well over 5,000 viewers, well under what files allow
    streams: int = 8_000  # TAILRACE_MAX_STREAMS; of all keys
    key_requests: int = 6_000  # TAILRACE_KEY_REQUESTS; under way at a time, streams among them
    key_streams: int = 5_000  # TAILRACE_KEY_STREAMS
    key_rate: float = 500.0  # TAILRACE_KEY_RATE; requests a second
    body_bytes: int = 64 * 1024 * 1024  # TAILRACE_MAX_BODY_BYTES; of all requests under way
    send_seconds: float = 10.0  # for the head of a request, and for each 10 KB of its body
    read_seconds: float = 30.0  # until an answer is read on

    @classmethod
    def read(cls, env: Environment) -> Self:
        usual = cls()
        return cls(
            connections=env.whole("TAILRACE_MAX_CONNECTIONS", usual.connections, least=1),
            streams=env.whole("TAILRACE_MAX_STREAMS", usual.streams, least=1),
            key_requests=env.whole("TAILRACE_KEY_REQUESTS", usual.key_requests, least=1),
            key_streams=env.whole("TAILRACE_KEY_STREAMS", usual.key_streams, least=1),
            key_rate=env.number("TAILRACE_KEY_RATE", usual.key_rate, least=0.1),
            body_bytes=env.whole("TAILRACE_MAX_BODY_BYTES", usual.body_bytes, least=LEAST_BODIES, most=1 << 40),
        )


class Bucket:
    """The rest of a key's rate."""

    __slots__ = ("_filled", "_left", "_most", "_rate")

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._most = max(1.0, rate * BURST_SECONDS)
        self._left = self._most
        self._filled = now

    def take(self, now: float) -> float:
        """Seconds until there is one to take; 0: it was taken."""
        self._left = min(self._most, self._left + (now - self._filled) * self._rate)
        self._filled = now
        if self._left >= 1.0:
            self._left -= 1.0
            return 0.0
        return (1.0 - self._left) / self._rate


class Limits:
    """The requests and streams under way, by the name of their key."""

    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self._buckets: dict[str, Bucket] = {}
        self._requests: dict[str, int] = {}
        self._streams: dict[str, int] = {}

    def check(self, name: str) -> None:
        """Raises a `Refusal` when another request of this key is one too many."""
        now = time.monotonic()
        bucket = self._buckets.get(name) or self._buckets.setdefault(name, Bucket(self._caps.key_rate, now))
        if wait := bucket.take(now):
            detail = f"this key is limited to {self._caps.key_rate:g} requests a second"
            raise too_many(Code.RATE_EXCEEDED, detail, math.ceil(wait))
        if self._requests.get(name, 0) >= self._caps.key_requests:
            detail = f"this key has {self._caps.key_requests} requests in progress, which is its limit"
            raise too_many(Code.TOO_MANY_REQUESTS, detail)

    def request(self, name: str) -> "Counted":
        """A request of this key, for as long as it takes."""
        return Counted(self._requests, name)

    def stream(self, name: str) -> "Counted":
        """A live stream of this key, for as long as it lasts. Raises a `Refusal` when it is one too many."""
        if self._streams.get(name, 0) >= self._caps.key_streams:
            raise too_many(Code.TOO_MANY_STREAMS, f"this key is limited to {self._caps.key_streams} open streams")
        if sum(self._streams.values()) >= self._caps.streams:
            raise too_many(
                Code.TOO_MANY_STREAMS, f"{self._caps.streams} streams are open, which is the limit of this gateway"
            )
        return Counted(self._streams, name)


class Counted:
    """One more request or stream of a key, for as long as it lasts."""

    __slots__ = ("_counts", "_name")

    def __init__(self, counts: dict[str, int], name: str) -> None:
        self._counts = counts
        self._name = name

    def __enter__(self) -> None:
        self._counts[self._name] = self._counts.get(self._name, 0) + 1

    def __exit__(self, *_: object) -> None:
        self._counts[self._name] -= 1
        if not self._counts[self._name]:
            del self._counts[self._name]


class Budget:
    """Stands before an application and counts the bytes of bodies that its requests hold, over all of them."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self.left = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in SAFE:
            await self._app(scope, receive, send)
            return
        held = scope[HELD] = HeldBytes(self)
        try:
            await self._app(scope, receive, send)
        finally:
            self.left += held.bytes


class HeldBytes:
    """The bytes of the budget that one request holds until it is answered."""

    __slots__ = ("_budget", "bytes")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.bytes = 0

    def take(self, size: int) -> None:
        """Raises a `Refusal` when the requests under way hold as many bytes as they may."""
        if size > self._budget.left:
            detail = "the bodies of all requests in progress have reached their limit; try again"
            raise Refusal(Code.TOO_MANY_BYTES, detail, {"Retry-After": "1", "Connection": "close"})
        self._budget.left -= size
        self.bytes += size


def too_many(code: Code, detail: str, seconds: int = RETRY_SECONDS) -> Refusal:
    return Refusal(code, detail, {"Retry-After": str(seconds)})


class Patience:
    """How long one client has kept us waiting, as seen by looks at it about once a second.

    Looks cost a request nothing. A timer for each head and each body would cost every request something.
    """

    __slots__ = ("_body", "_mark", "_reading_since", "_sending_since", "_unread")

    def __init__(self) -> None:
        self._mark: object = self  # the request that it was sending at the last look; None at first
        self._sending_since = 0.0
        self._body = 0
        self._unread = 0
        self._reading_since = 0.0

    def sends_too_slowly(self, now: float, mark: object, body: int, seconds: float) -> bool:
        """`mark`: of the request that has not come whole; `body`: how much of bodies has come by now."""
        if mark != self._mark or body - self._body >= BODY_BYTES:
            self._mark, self._body, self._sending_since = mark, body, now
        return now - self._sending_since >= seconds

    def sends_nothing(self) -> None:
        """We do not wait for it to send anything."""
        self._mark = self

    def reads_too_slowly(self, now: float, unread: int, seconds: float) -> bool:
        """`unread`: bytes of an answer that still wait for the client."""
        if unread < self._unread or not self._unread:
            self._reading_since = now
        self._unread = unread
        return unread > 0 and now - self._reading_since >= seconds
