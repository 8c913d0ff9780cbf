"""An application with a gateway mounted in it, served by a plain uvicorn: `python -m tests.gateway.mounting [kind]`."""

import os
import sys
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

import tailrace.gateway

PREFIX = "/deep/jobs"
COMMAND = ("-m", "tests.gateway.mounting")


async def alive(_: Request) -> PlainTextResponse:
    return PlainTextResponse("alive")


def host(kind: str = "lazy") -> Any:
    """lazy: the gateway starts with its first request; entered: with the application; fastapi: in another framework."""
    jobs = tailrace.gateway.app()
    if kind == "fastapi":
        from fastapi import FastAPI  # type: ignore[import-not-found,unused-ignore]

        app = FastAPI(lifespan=jobs.lifespan)
        app.get("/healthz")(lambda: "alive")
        app.mount(PREFIX, jobs)
        return app
    lifespan = jobs.lifespan if kind == "entered" else None
    return Starlette(routes=[Route("/healthz", alive), Mount(PREFIX, jobs)], lifespan=lifespan)


if __name__ == "__main__":
    uvicorn.run(host(*sys.argv[1:]), port=int(os.environ["PORT"]), log_level="warning")
