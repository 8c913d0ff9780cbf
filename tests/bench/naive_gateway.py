"""What a gateway looks like without a shared feed: one connection and one blocking read for each client.

For comparison only: `naive_gateway.py REDIS_URL PORT` streams the Redis stream that the path names.
"""

import sys
from collections.abc import AsyncIterator
from typing import Any

import redis.asyncio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route


def create_app(url: str) -> Starlette:
    async def stream(request: Request) -> Response:
        name = request.path_params["name"]

        async def frames() -> AsyncIterator[bytes]:
            async with redis.asyncio.Redis.from_url(url, socket_timeout=None) as client:
                cursor = "0"
                while True:
                    news: Any = await client.xread({name: cursor}, block=0, count=200)
                    for _, entries in news:
                        for entry, fields in entries:
                            cursor = entry
                            yield b"id: %b\ndata: %b\n\n" % (fields[b"id"], fields[b"event"])

        return StreamingResponse(frames(), media_type="text/event-stream")

    async def healthz(_: Request) -> Response:
        return Response()

    return Starlette(routes=[Route("/healthz", healthz), Route("/{name}", stream)])


if __name__ == "__main__":
    app = create_app(sys.argv[1])
    uvicorn.run(app, port=int(sys.argv[2]), loop="uvloop", http="httptools", log_level="error", ws="none")
