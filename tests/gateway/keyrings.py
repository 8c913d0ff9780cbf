"""The keys of the tests: one for each scope, some limited to platforms, and how they are shown."""

from tailrace.gateway.access.api_keys import Scope, entry_of

WHOLE = "whole-key-0123456789"
OLD, NEW = "rotated-key-of-last-year", "rotated-key-of-this-year"
OF_SCOPE = {scope: f"only-{scope}-0123456789" for scope in Scope}
SHOPS = "shops-key-0123456789"  # limited to ably and kurly, with every scope
VIEWER = "viewer-key-0123456789"  # limited to ably, for reading
UNKNOWN = "unknown-key-0123456789"

SETTING = "\n".join(
    [
        f"{WHOLE}, {OLD}",
        entry_of(NEW),
        *(f"{secret}:{scope}" for scope, secret in OF_SCOPE.items()),
        f"{SHOPS}::ably+kurly",
        f"{entry_of(VIEWER)}:read:ably",
    ]
)


def shown(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}
