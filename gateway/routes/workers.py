"""Workers: which consumers live, by what this gateway has seen itself, and asking them to start anew."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tailrace.gateway.problems import Code, Refusal
from tailrace.gateway.replies import reply
from tailrace.gateway.routes.bodies import ActBody, read_body
from tailrace.gateway.routes.platforms import locate, seen
from tailrace.gateway.routes.submissions import key_of
from tailrace.producers.producer import new_key
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import About
from tailrace.streams.policies import Platforms
from tailrace.streams.transitions import Transitions
from tailrace.streams.views.presence import ConsumerPresence, Presence

NOTHING = About()


class Workers:
    """The routes about consumers."""

    def __init__(
        self, transitions: Transitions, platforms: Platforms, presence: Presence, hidden: Iterable[str] = ()
    ) -> None:
        """`hidden`: declared platforms that the caller's key is not for."""
        self._hidden = [PlatformKeys(platform) for platform in hidden]
        self._transitions = transitions
        self._platforms = platforms
        self._presence = presence

    async def status(self, request: Request) -> Response:
        consumers = await seen(self._presence, request)
        told, jobs = await self._presence.told(), await self._presence.jobs()
        alive = sum(consumer.alive is True for consumer in consumers)
        summary = {"alive_count": alive, "silent_count": len(consumers) - alive}
        workers = [described(each, told.get(each.owner, NOTHING), jobs.get(each.owner, ())) for each in consumers]
        data = {"workers": workers, "summary": summary}
        return reply({"success": True, "data": data})

    async def restart(self, request: Request) -> Response:
        """Ask every consumer of a platform to drain and leave; its supervisor starts it anew."""
        keys = locate(self._platforms, request)
        await read_body(request, ActBody)
        # The same Idempotency-Key is the same request: a client that heard no answer may ask again.
        name = key_of(request, None, "") or new_key()
        owners = await self._owned(keys)
        while await self._transitions.restart(keys, name, owners) is None:
            owners = await self._owned(keys)  # a worker has started since we looked
        data = {"platform": keys.platform, "status": "restarting", "workers": owners}
        headers = {"Location": "/api/v2/workers/status", "Retry-After": "2"}
        return reply({"success": True, "data": data}, 202, headers)

    async def _owned(self, keys: PlatformKeys) -> list[str]:
        """The workers of a platform that have beaten, which they do on all their platforms at once.

        Raises a `Refusal` if one of them serves platforms that the key is not for.
        """
        beats, *others = await self._transitions.observe([keys, *self._hidden])
        if any(owner in other for other in others for owner in beats):
            detail = "a worker of this platform serves others too, which this key is not for"
            raise Refusal(Code.WORKER_SHARED, detail)
        return sorted(owner for owner, counter in beats.items() if counter != "0")


def described(consumer: ConsumerPresence, about: About = NOTHING, jobs: Sequence[str] = ()) -> dict[str, Any]:
    return {
        "worker_id": consumer.owner,
        "platforms": consumer.platforms,
        "alive": consumer.alive,
        "beats": consumer.beats,
        "last_change_seconds": consumer.changed_seconds,
        "watched_seconds": consumer.watched_seconds,
        "deadline_seconds": consumer.deadline_seconds,
        "jobs": jobs,
        "host": about.host,
        "pid": about.pid,
        "version": about.version,
        "started_at": about.started_at,
        "memory_bytes": about.memory_bytes,
        "lag_seconds": about.lag_seconds,
        "refused": [msgspec.structs.asdict(refused) for refused in about.refused],
    }
