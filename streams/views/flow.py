"""A job with the jobs that it spawned, and theirs: a bounded part of the tree, page by page."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from msgspec import Struct

from tailrace.streams.errors import WrongField
from tailrace.streams.history.events import expand, progress_of, read_body
from tailrace.streams.keys import PlatformKeys, split_id
from tailrace.streams.messages import Record
from tailrace.streams.replies import read_record
from tailrace.streams.states import State
from tailrace.streams.store.connection import ServerRefusal, Store

FLOW_LIMIT, FLOW_MOST = 100, 500  # children of the job on a page: unless told, and at most
MOST_SEEN = 1000  # jobs of one answer, on all levels
MOST_UNFOLDED = 100  # children of a job below the first level; one with more is a page of its own
DEEPEST = 20
LARGE_NEWS = 4  # ends in one read: each may have a quarter of a megabyte


class FlowJob(Struct, frozen=True):
    """A job of a flow, below its root."""

    id: str
    platform: str
    state: State
    kind: str | None = None  # None: it is not kept any more, or on its way to its platform
    progress: float | None = None
    total: int = 0  # jobs that it spawned or submitted itself
    children: tuple["FlowJob", ...] = ()  # the children among these, or none if there are too many for this answer


class FlowPage(Struct, frozen=True):
    record: Record
    total: int
    children: tuple[FlowJob, ...]
    next: str | None


class _Seen(NamedTuple):
    """The facts about a job from one trip."""

    state: State
    kind: str | None
    attempt: int
    total: int


Shown = Callable[[str], bool]


async def read_flow(
    store: Store,
    keys: PlatformKeys,
    key: str,
    *,
    after: str = "",
    limit: int = FLOW_LIMIT,
    shown: Shown = lambda platform: True,
) -> FlowPage:
    """One page of a job's children, by their ids; `shown`: only those of these platforms. Raises `JobNotFound`."""
    if not 1 <= limit <= FLOW_MOST:
        raise WrongField("limit", f"must be a whole number from 1 to {FLOW_MOST}")
    record = await read_record(store, keys, key)
    brought = await _brought(store, keys, key)
    behind = [child for child in brought if child > after]
    here = behind[:limit]
    children = await _children(store, keys, key, here, shown)
    jobs = await _read(store, keys, key, children, shown, [MOST_SEEN - len(here)], 2)
    return FlowPage(record, len(brought), tuple(jobs), here[-1] if len(behind) > limit else None)


async def _read(
    store: Store, keys: PlatformKeys, key: str, ids: Sequence[str], shown: Shown, left: list[int], level: int
) -> list[FlowJob]:
    """Some children of a job with those below them, as long as fewer than `left` were seen."""
    jobs = []
    seen = await _look(store, keys, key, ids)
    progress = await _progress(store, {child: each for child, each in seen.items() if each.state is State.RUNNING})
    for child, each in seen.items():
        below: Sequence[FlowJob] = ()
        if 0 < each.total <= min(MOST_UNFOLDED, left[0]) and level < DEEPEST:
            platform, own = split_id(child)
            there = store.keys(platform)
            names = await _children(store, there, own, await _brought(store, there, own), shown)
            left[0] -= len(names)
            below = await _read(store, there, own, names, shown, left, level + 1)
        done = 100.0 if each.state is State.COMPLETED else progress.get(child)
        jobs.append(FlowJob(child, split_id(child)[0], each.state, each.kind, done, each.total, tuple(below)))
    return jobs


async def _brought(store: Store, keys: PlatformKeys, key: str) -> list[str]:
    """The ids of all jobs that a job spawned or submitted."""
    return sorted(name.decode(errors="replace") for name in await store.command("HKEYS", keys.children(key)))


async def _children(store: Store, keys: PlatformKeys, key: str, ids: Sequence[str], shown: Shown) -> list[str]:
    """The children among these jobs; the others were only submitted."""
    sizes = await store.commands([("HSTRLEN", keys.children(key), child) for child in ids])
    return [child for child, size in zip(ids, sizes, strict=True) if size != 1 and _is_shown(child, shown)]


def _is_shown(child: str, shown: Shown) -> bool:
    try:
        return shown(split_id(child)[0])
    except WrongField:  # not written by us
        return False


async def _look(store: Store, keys: PlatformKeys, key: str, ids: Sequence[str]) -> dict[str, _Seen]:
    """The state of each child: as its record has it, else as the end that its parent keeps."""
    seen: dict[str, _Seen] = {}
    try:
        seen = await _records(store, ids)
    except (ServerRefusal, ValueError):  # one is corrupt: for that one, use the end that its parent keeps
        for child in ids:
            with suppress(ServerRefusal, ValueError):
                seen |= await _records(store, [child])
    gone = [child for child in ids if child not in seen]
    for start in range(0, len(gone), LARGE_NEWS):
        some = gone[start : start + LARGE_NEWS]
        for child, news in zip(some, await store.command("HMGET", keys.children(key), *some), strict=True):
            seen[child] = _Seen(_state_of(news or b""), None, 0, 0)
    return {child: seen[child] for child in ids}


async def _records(store: Store, ids: Sequence[str]) -> dict[str, _Seen]:
    """The facts from the records of some jobs, in one trip; jobs that are not kept are left out."""
    places = [(store.keys(platform), own) for platform, own in map(split_id, ids)]
    replies = await store.commands(
        command
        for keys, own in places
        for command in (("HMGET", keys.record(own), "state", "kind", "attempt"), ("HLEN", keys.children(own)))
    )
    return {
        child: _Seen(State(state.decode()), (kind or b"").decode() or None, int(attempt or 0), total)
        for child, (state, kind, attempt), total in zip(ids, replies[::2], replies[1::2], strict=True)
        if state is not None
    }


def _state_of(news: bytes) -> State:
    """The state that the end of a child tells; one without an end is on its way to its platform."""
    words = news.split(b" ", 2)
    return State(words[1].decode()) if len(words) == 3 else State.WAITING


async def _progress(store: Store, running: dict[str, _Seen]) -> dict[str, float | None]:
    places = [(child, each.attempt, *split_id(child)) for child, each in running.items()]
    last = await store.commands([("LRANGE", store.keys(platform).log(own), -2, -1) for _, _, platform, own in places])
    return {
        child: progress_of(attempt, [expand(child, event) for event in events])
        for (child, attempt, _, _), events in zip(places, last, strict=True)
    }


async def failed_child(store: Store, keys: PlatformKeys, key: str) -> str | None:
    """The job below a failed one by which it failed, as long as that one has not been retried."""
    with suppress(ServerRefusal, ValueError, WrongField):  # a job with corrupt keys is left out
        error, last = await store.commands([("HGET", keys.record(key), "error"), ("LINDEX", keys.log(key), -1)])
        if error and error.startswith(b"ChildFailed\t") and last:
            end = read_body(keys.id(key), last.partition(b" ")[2])
            child = end.error.child if end.error else None
            platform, own = split_id(child or "")
            if await store.command("HGET", store.keys(platform).record(own), "state") in (b"failed", b"cancelled"):
                return child
    return None


def walk(jobs: Iterable[FlowJob], level: int = 0) -> Iterable[tuple[int, FlowJob]]:
    """Every job of a part of a tree with its level, parents first."""
    for job in jobs:
        yield level, job
        yield from walk(job.children, level + 1)
