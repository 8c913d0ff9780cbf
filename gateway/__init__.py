"""What is seen: HTTP, live streams and the one visible history of each job.

Only what a client needs is imported here: who follows a job needs neither the server nor the store.
"""

from tailrace.gateway.client.follow import (
    FollowError,
    GatewayAway,
    GatewayRefused,
    HistoryReset,
    NoSuchJob,
    NotAGateway,
    follow,
)

__all__ = ["FollowError", "GatewayAway", "GatewayRefused", "HistoryReset", "NoSuchJob", "NotAGateway", "follow"]
