"""Jobs that a running attempt enqueues, page by page."""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from tailrace.streams.flows.envelope import PLACE
from tailrace.streams.flows.relay import Parcel
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Job, encode
from tailrace.streams.operations import Operation, call
from tailrace.streams.transitions import ARGS_ROOM

MOST_CHILDREN = 10_000  # that a job may enqueue in all
PAGE, PAGE_BYTES = 75, 512 * 1024  # of one call: a few milliseconds of the server's time
WITH_OPTIONS = 3  # a job with options takes the server as long as this many without

SPAWNED = "@spawned"  # where it is noted, among the steps; its Lua name is the same

_pack = msgspec.msgpack.Encoder().encode


class NewJob(NamedTuple):
    """A job that an attempt enqueues; a child reports its end to the job that spawned it."""

    job: Job
    fingerprint: str
    child: bool = True


def child_keys(parent: str, place: str, kind: str, indexes: Iterable[int]) -> Iterator[str]:
    """The keys of the jobs that `parent` enqueues at this place in its code: the same in every attempt."""
    common = hashlib.blake2b(encode([parent, place, kind])[:-1], digest_size=15)
    for index in indexes:
        own = common.copy()
        own.update(b",%d]" % index)
        yield base64.b32encode(own.digest()).decode().lower()


def flow_keys(parent: str, kinds: Iterable[str]) -> list[str]:
    """The keys of the children that a job carries, by their kinds."""
    indexes: dict[str, list[int]] = {}
    for index, kind in enumerate(kinds):
        indexes.setdefault(kind, []).append(index)
    keys = {
        index: key
        for kind, places in indexes.items()
        for index, key in zip(places, child_keys(parent, PLACE, kind, places), strict=True)
    }
    return [keys[index] for index in range(len(keys))]


def whole_spawn(place: str, count: int) -> str:
    """The note that all jobs of a place are in the queue: later attempts need not send them again."""
    return f"{place} ({count})"


def pages(jobs: Sequence[NewJob]) -> Iterator[Sequence[NewJob]]:
    """The jobs as they fit into calls of `spawn`."""
    start = size = work = 0
    for place, new in enumerate(jobs):
        more = 1 if new.job.options.plain else WITH_OPTIONS
        size, work = size + len(new.job.args), work + more
        if place > start and (work > PAGE or size > PAGE_BYTES):
            yield jobs[start:place]
            start, size, work = place, len(new.job.args), more
    if start < len(jobs):
        yield jobs[start:]


def spawning(keys: PlatformKeys, key: str, nonce: str, jobs: Sequence[NewJob], whole: str = "") -> Operation:
    """The operation that enqueues one page. Its script is not that of `commit`: it is a call by itself.

    `whole`: with the last of several pages, what is noted of them all.
    """
    packed = [
        (
            new.job.id,
            int(new.child),
            new.job.options.priority,
            new.job.kind,
            new.job.args.decode(),
            new.fingerprint,
            new.job.extras,
        )
        for new in jobs
    ]
    return call.spawn(keys, key=key, nonce=nonce, most=MOST_CHILDREN, room=ARGS_ROOM, whole=whole, jobs=_pack(packed))


SENT = b"sent "  # so begins the answer for a job that goes by the outbox


def sent(parent: str, jobs: Sequence[NewJob], answers: Sequence[bytes]) -> list[Parcel]:
    """The entries of the outbox that a page has made there."""
    return [
        Parcel(answer.removeprefix(SENT).decode(), b"submit", parent, new.job.id, fields_of(parent, new))
        for new, answer in zip(jobs, answers, strict=True)
        if answer.startswith(SENT)
    ]


def fields_of(parent: str, new: NewJob) -> dict[bytes, bytes]:
    """The fields of the entry that brings a job to its platform."""
    job = new.job
    extras = " ".join(filter(None, (job.extras, f"parent={parent}" if new.child else "")))
    return {
        b"band": job.options.priority.encode(),
        b"kind": job.kind.encode(),
        b"args": job.args,
        b"fingerprint": new.fingerprint.encode(),
        b"extras": extras.encode(),
    }
