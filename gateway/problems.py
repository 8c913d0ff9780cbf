"""Every code a refusal may have, with its status and its reason, and which routes refuse with which."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from tailrace.gateway.access.api_keys import Scope
from tailrace.gateway.access.guard import ADMIN, NEEDS, PUBLIC, STREAMS
from tailrace.gateway.access.origins import SAFE
from tailrace.gateway.documents.around import Operation


class Reason(NamedTuple):
    status: int
    when: str


CODES: Final[Mapping[str, Reason]] = {
    "MALFORMED": Reason(400, "not UTF-8, not JSON, not an object, nested more than 64 levels deep; not HTTP"),
    "UNAUTHORIZED": Reason(401, "no key, ticket or session that is known"),
    "SCOPE_MISSING": Reason(403, "the key has not the scope that this needs"),
    "PLATFORM_FORBIDDEN": Reason(403, "the key is not for this platform"),
    "FOREIGN_ORIGIN": Reason(403, "a page of another origin may not do this"),
    "JOB_NOT_FOUND": Reason(404, "no such job is kept"),
    "PLATFORM_NOT_FOUND": Reason(404, "no such platform is declared"),
    "SCHEDULE_NOT_FOUND": Reason(404, "no such schedule is there"),
    "STEP_NOT_FOUND": Reason(404, "no such step was saved"),
    "NOT_FOUND": Reason(404, "nothing is served at this path"),
    "METHOD_NOT_ALLOWED": Reason(405, "the path is served, this method is not"),
    "TOO_SLOW": Reason(408, "the request did not arrive in time"),
    "OTHER_BODY": Reason(409, "the id is taken by another request"),
    "JOB_ENDED": Reason(409, "the job has ended, and `state` tells how"),
    "JOB_NOT_ENDED": Reason(409, "the job has not ended, and `state` tells where it is"),
    "WORKER_SHARED": Reason(409, "a worker of the platform serves others too, which the key is not for"),
    "TOO_LARGE": Reason(413, "a body over 1,048,576 bytes"),
    "NOT_JSON": Reason(415, "a body without `Content-Type: application/json`"),
    "OTHER_HOST": Reason(421, "without keys: the name in `Host` could be a stranger's"),
    "WRONG_FIELD": Reason(422, "a wrong, missing or unknown value; `field` names it, and nothing was stored"),
    "RATE_EXCEEDED": Reason(429, "too many requests of this key within a second"),
    "TOO_MANY_REQUESTS": Reason(429, "too many requests of this key under way"),
    "TOO_MANY_STREAMS": Reason(429, "too many open streams"),
    "TOO_MANY_CONNECTIONS": Reason(429, "too many connections"),
    "INTERNAL": Reason(500, "a bug of ours"),
    "TOO_MANY_BYTES": Reason(503, "the bodies of all requests under way are too large together; nothing was stored"),
    "STORE_AWAY": Reason(503, "the store does not answer; `jobIds` names jobs of the request that may exist"),
    "STORE_FULL": Reason(503, "the store has no memory for new work"),
    "STORE_UNFIT": Reason(503, "the store would lose jobs, or refuses our credentials"),
}

OF_EVERY_ROUTE: Final = frozenset({"MALFORMED", "TOO_SLOW", "TOO_MANY_CONNECTIONS", "INTERNAL"})
OF_A_BODY: Final = frozenset({"TOO_LARGE", "NOT_JSON", "WRONG_FIELD", "TOO_MANY_BYTES"})
OF_THE_STORE: Final = frozenset({"STORE_AWAY", "STORE_UNFIT"})
OF_KEYS: Final = frozenset({"UNAUTHORIZED", "PLATFORM_FORBIDDEN", "SCOPE_MISSING", "WORKER_SHARED"})


def codes_of(route: str, operation: Operation, *, locked: bool) -> list[str]:
    """Every code this route may refuse with, on a gateway with keys or without."""
    method, path = route.split()
    codes = {*OF_EVERY_ROUTE, *operation.refuses}
    if operation.takes:
        codes |= OF_A_BODY
    if operation.store:
        codes |= OF_THE_STORE
    if "{job_id}" in path and operation.group != "page":
        codes.add("JOB_NOT_FOUND")
    if "{platform}" in path:
        codes |= {"WRONG_FIELD", "PLATFORM_FORBIDDEN"} if operation.group == "schedules" else {"PLATFORM_NOT_FOUND"}
    if method not in SAFE:
        codes.add("FOREIGN_ORIGIN")
    codes |= of_the_door(route, path) if locked else {"OTHER_HOST"}
    return [code for code in CODES if code in codes and (locked or code not in OF_KEYS)]


def of_the_door(route: str, path: str) -> set[str]:
    """What the guard refuses with, where there are keys."""
    need = NEEDS.get(route, ADMIN)
    if need is PUBLIC:
        return set()
    codes = {"UNAUTHORIZED", "RATE_EXCEEDED", "TOO_MANY_REQUESTS"}
    if isinstance(need, Scope):
        codes.add("SCOPE_MISSING")
    # Whose session it is, only the store knows; a stream says so in its own way.
    return codes | ({"TOO_MANY_STREAMS"} if path in STREAMS else OF_THE_STORE)
