"""HTTP, live streams and the one visible history of each job.

Only what a client needs is imported here: following a job needs neither the server nor the store.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.gateway.client.follow import (
    FollowError,
    GatewayAway,
    GatewayRefused,
    HistoryReset,
    NoSuchJob,
    NotAGateway,
    follow,
)

if TYPE_CHECKING:
    from tailrace.gateway.embedding import EmbeddedGateway

__all__ = ["FollowError", "GatewayAway", "GatewayRefused", "HistoryReset", "NoSuchJob", "NotAGateway", "app", "follow"]


def app(url: str | None = None, *, trust_callers: bool = False, data: Path | str | None = None) -> "EmbeddedGateway":
    """The gateway as a Starlette application, to be mounted in yours: `app.mount("/jobs", tailrace.gateway.app())`.

    `url` names the store; without it REDIS_URL does, else the `up` that runs on the data folder. All other settings
    come from the environment, as those of `tailrace gateway` do. Without API keys it serves callers on this machine
    only; `trust_callers` serves every caller that your application lets through to it.

    Raises `BadConfiguration` when a setting is wrong.
    """
    from tailrace.gateway.embedding import embed

    return embed(url, trust_callers=trust_callers, data=data)
