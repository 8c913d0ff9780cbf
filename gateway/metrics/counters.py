"""What this process counts while it serves."""

from typing import Final

from msgspec import Struct, field
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ROUTE: Final = "tailrace.route"
"""Where a request notes which route it met: its path as the table has it, never as the client wrote it."""


class GatewayCounters(Struct):
    """Since the process started."""

    answers: dict[tuple[str, int], int] = field(default_factory=dict)  # by route and status
    clients: int = 0  # of live streams, now
    events_sent: int = 0  # to them


class CountedAnswers:
    """Stands before an application. What meets no route, or is refused before it does, counts as `other`."""

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
