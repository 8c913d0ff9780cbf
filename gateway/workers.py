"""Workers: which consumers live, by what this gateway has seen itself, and asking them to start anew."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from gateway.bodies import ActBody, read_body
from gateway.platforms import locate
from gateway.replies import reply
from streams.policies import Platforms
from streams.presence import Consumer, Presence
from streams.transitions import Transitions


class Workers:
    """The routes about consumers."""

    def __init__(self, transitions: Transitions, platforms: Platforms, presence: Presence) -> None:
        self._transitions = transitions
        self._platforms = platforms
        self._presence = presence

    async def status(self, _: Request) -> Response:
        consumers = await self._presence.see()
        alive = sum(consumer.alive is True for consumer in consumers)
        summary = {"alive_count": alive, "silent_count": len(consumers) - alive}
        data = {"workers": [described(consumer) for consumer in consumers], "summary": summary}
        return reply({"success": True, "data": data})

    async def restart(self, request: Request) -> Response:
        """Ask every consumer of a platform to drain and leave; its supervisor starts it anew."""
        keys = locate(self._platforms, request)
        await read_body(request, ActBody)
        (look,) = await self._transitions.observe([keys])
        await self._transitions.restart(keys)
        data = {"platform": keys.platform, "status": "restarting", "workers": sorted(look.beats)}
        headers = {"Location": "/api/v2/workers/status", "Retry-After": "2"}
        return reply({"success": True, "data": data}, 202, headers)


def described(consumer: Consumer) -> dict[str, Any]:
    return {
        "worker_id": consumer.owner,
        "platforms": consumer.platforms,
        "alive": consumer.alive,
        "beats": consumer.beats,
        "last_change_seconds": consumer.changed_seconds,
        "watched_seconds": consumer.watched_seconds,
        "deadline_seconds": consumer.deadline_seconds,
        "jobs": consumer.jobs,
    }
