"""The audit: acts on platforms and their jobs, newest first."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from tailrace.streams.errors import WrongField
from tailrace.streams.history.events import entry_order, iso
from tailrace.streams.keys import join_id
from tailrace.streams.store.connection import Store

MOST = 1000
LIMIT = 100

_ID = re.compile(r"\d{1,15}-\d{1,9}")


class Audited(Struct, frozen=True, rename="camel"):
    """One act: on a job, or on a platform if no job is named; `more` has further facts, such as a reason."""

    id: str
    time: str
    platform: str
    act: str
    job_id: str | None
    by: str | None
    more: dict[str, Any]


class AuditPage(Struct, frozen=True):
    """`next` is where the next page begins; null: there is no older act."""

    acts: list[Audited]
    next: str | None


async def read_audit(store: Store, platforms: Iterable[str], limit: int = LIMIT, before: str = "") -> AuditPage:
    """A page of acts on platforms, from the newest on or before an id. Acts of one id stay together."""
    if before and not _ID.fullmatch(before):
        raise WrongField("before", "is not the `next` of a page of this list")
    names = list(platforms)
    first = f"({before}" if before else "+"
    asked = [("XREVRANGE", store.keys(name)["audit"], first, "-", "COUNT", limit + 1) for name in names]
    found = [
        audited(name, entry.decode(), fields)
        for name, entries in zip(names, await store.commands(asked), strict=True)
        for entry, fields in entries
    ]
    found.sort(key=lambda each: entry_order(each.id), reverse=True)
    if len(found) <= limit:
        return AuditPage(found, None)
    last = found[limit - 1].id
    page = [each for each in found if entry_order(each.id) >= entry_order(last)]
    return AuditPage(page, last if len(page) < len(found) else None)


def audited(platform: str, entry: str, fields: list[bytes]) -> Audited:
    """An entry of the stream; one that Tailrace did not write is shown as far as it can be."""
    told = dict(zip(fields[::2], fields[1::2], strict=False))
    try:
        more = msgspec.json.decode(told.get(b"said", b"{}"), type=dict[str, Any])
    except msgspec.DecodeError:
        more = {}
    by, job = more.pop("by", None), told.get(b"job", b"").decode(errors="replace")
    return Audited(
        id=entry,
        time=iso(entry_order(entry)[0]),
        platform=platform,
        act=told.get(b"act", b"").decode(errors="replace"),
        job_id=join_id(platform, job) if job else None,
        by=by if isinstance(by, str) else None,
        more=more,
    )
