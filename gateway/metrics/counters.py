"""The counters of this process."""

from typing import Final

from msgspec import Struct, field
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ROUTE: Final = "tailrace.route"
"""The key in a request's scope for its route: the path of the table, never the one that the client sent."""


class GatewayCounters(Struct):
    """Since the process started."""

    answers: dict[tuple[str, int], int] = field(default_factory=dict)  # by route and status
    clients: int = 0  # of live streams, now
    events_sent: int = 0  # to them


class CountedAnswers:
    """Middleware that counts answers. A request without a route, or refused before its route, counts as `other`."""

    def __init__(self, app: ASGIApp, counters: GatewayCounters) -> None:
        self._app = app
        self._answers = counters.answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                key = (scope.get(ROUTE, "other"), message["status"])
                self._answers[key] = self._answers.get(key, 0) + 1
            await send(message)

        await self._app(scope, receive, counted)
