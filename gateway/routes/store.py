"""The store behind this gateway: which server it is, and how full."""

from starlette.requests import Request
from starlette.responses import Response

from tailrace.gateway.access.api_keys import Narrowed
from tailrace.gateway.replies import reply
from tailrace.streams.policies import Platforms
from tailrace.streams.store.connection import Store
from tailrace.streams.store.server import read_server


class Storage:
    """The route about the store. Its memory holds every platform, so it is told only to who may see them all."""

    def __init__(self, store: Store, platforms: Platforms) -> None:
        self._store = store
        self._sees_all = not isinstance(platforms, Narrowed)

    async def show(self, _: Request) -> Response:
        server = await read_server(self._store)
        memory = {"memoryBytes": server.memory_bytes, "memoryLimitBytes": server.memory_limit_bytes}
        told = memory if self._sees_all else dict.fromkeys(memory)
        return reply({"data": {"server": server.name, "version": server.version, **told}})
