"""Jobs that spawn, wait and join, driven by hand at a desk."""

from typing import Any

from tailrace.streams.flows.spawning import NewJob, spawning
from tailrace.streams.history.events import event_body
from tailrace.streams.messages import Claim, Job
from tailrace.streams.operations import call, checked
from tailrace.streams.options import Options
from tailrace.streams.policies import MAX_STEP_BYTES
from tests.support.builders import Desk

MOST_SIGNALS = 100


def child_of(job_id: str, args: bytes = b"{}", *, child: bool = True, **options: Any) -> NewJob:
    platform, _, key = job_id.partition(".")
    job = Job(platform, key, "drill", args, Options(**options))
    return NewJob(job, args.decode()[:16], child)


async def spawn(desk: Desk, held: Claim, *jobs: str | NewJob, nonce: str | None = None, whole: str = "") -> Any:
    new = [child_of(job) if isinstance(job, str) else job for job in jobs]
    answer = said(await run(desk, spawning(desk.keys, held.key, held.nonce if nonce is None else nonce, new, whole)))
    # what goes by the outbox is spawned as well
    return answer if isinstance(answer, str) else ["spawned" if word.startswith("sent ") else word for word in answer]


async def join(desk: Desk, held: Claim, *ids: str, number: str = "1", nonce: str | None = None) -> Any:
    nonce = held.nonce if nonce is None else nonce
    return said(await run(desk, call.join(desk.keys, key=held.key, nonce=nonce, number=number, ids=" ".join(ids))))


async def wait(
    desk: Desk, held: Claim, awaits: str = "join", place: str = "1", *, seconds: float | None = None, **other: Any
) -> Any:
    """As the runner ends an attempt that has to wait."""
    said_of = {"name": "", "fails": 0, "order": "block", "max_starts": desk.policy.max_starts, "nonce": held.nonce}
    delay_ms = "" if seconds is None else round(seconds * 1000)
    operation = call.wait(
        desk.keys, key=held.key, awaits=awaits, place=place, delay_ms=delay_ms, **{**said_of, **other}
    )
    return said(await run(desk, operation))


async def requeue(desk: Desk, held: Claim, *, nonce: str | None = None, max_starts: int = 100) -> str:
    nonce = held.nonce if nonce is None else nonce
    return await desk.transitions.word(
        desk.keys, call.requeue(desk.keys, key=held.key, nonce=nonce, max_starts=max_starts)
    )


async def signal(desk: Desk, key: str, name: str, data: bytes = b"null", most: int = MOST_SIGNALS) -> str:
    return await desk.transitions.word(desk.keys, call.signal(desk.keys, key=key, name=name, data=data, most=most))


async def arrive(desk: Desk, parent: str, child: str, event: bytes | None = None) -> str:
    operation = call.arrive(desk.keys, key=parent, child=child, event=ended() if event is None else event)
    return await desk.transitions.word(desk.keys, operation)


async def checkpoint(desk: Desk, held: Claim, name: str, value: bytes, most: int = MAX_STEP_BYTES) -> str:
    operation = call.checkpoint(desk.keys, key=held.key, nonce=held.nonce, most=most, name=name, value=value)
    return await desk.transitions.word(desk.keys, operation)


def ended(result: Any = None, status: str = "completed") -> bytes:
    more = {"result": result} if status == "completed" else {"error": {"type": "ValueError", "message": "it broke"}}
    return event_body(1, status, "ann", **more)


async def children(desk: Desk, key: str) -> dict[str, str]:
    flat = await desk.store.command("HGETALL", desk.keys.children(key))
    words = [word.decode() for word in flat]
    return dict(zip(words[::2], words[1::2], strict=True))


async def outbox(desk: Desk) -> list[str]:
    """What the outbox is to do, and with which job: `submit kurly.b`."""
    entries = await desk.store.command("XRANGE", desk.keys["outbox"], "-", "+")
    said_of: list[dict[bytes, bytes]] = [dict(zip(flat[::2], flat[1::2], strict=True)) for _, flat in entries]
    return [f"{each[b'do'].decode()} {(each.get(b'child') or each[b'parent']).decode()}" for each in said_of]


async def waiting_parent(desk: Desk, *ids: str, key: str = "a", fails: int = 0) -> Claim:
    """A job that spawned these and awaits them."""
    held = await desk.start(key)
    await spawn(desk, held, *ids)
    await join(desk, held, *ids)
    assert await wait(desk, held, fails=fails) == "ok"
    return held


async def run(desk: Desk, operation: Any) -> Any:
    (answer,) = await desk.transitions.run([(desk.keys, [operation])])
    return checked(answer)


def said(answer: Any) -> Any:
    """An answer with its bytes as text."""
    if isinstance(answer, list):
        return [said(word) for word in answer]
    return answer.decode() if isinstance(answer, bytes) else answer


def other(desk: Desk, platform: str = "kurly") -> Desk:
    return Desk(desk.store, platform)
