"""Jobs that a running attempt brings in line, page by page."""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Job, encode
from tailrace.streams.operations import Operation, call
from tailrace.streams.transitions import ARGS_ROOM

MOST_CHILDREN = 10_000  # that a job may bring in line in all
PAGE, PAGE_BYTES = 75, 512 * 1024  # of one call: a few milliseconds of the server's time
WITH_OPTIONS = 2  # a job with options takes the server as long as this many without

_pack = msgspec.msgpack.Encoder().encode


class NewJob(NamedTuple):
    """A job that an attempt brings in line; as a child it brings its end to the job that spawned it."""

    job: Job
    fingerprint: str
    child: bool = True


def child_key(parent: str, place: str, kind: str, index: int = 0) -> str:
    """The key of a job that `parent` brings in line at this place of its code: the same in every attempt."""
    whole = encode([parent, place, kind, index])
    return base64.b32encode(hashlib.blake2b(whole, digest_size=15).digest()).decode().lower()


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


def spawning(keys: PlatformKeys, key: str, nonce: str, jobs: Sequence[NewJob]) -> Operation:
    """The operation that brings one page in line. Its script is not that of `commit`: it is a call by itself."""
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
    return call.spawn(keys, key=key, nonce=nonce, most=MOST_CHILDREN, room=ARGS_ROOM, jobs=_pack(packed))
