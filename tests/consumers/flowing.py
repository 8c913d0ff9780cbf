"""Handlers that wait and spawn, in the loop, in a thread and in a process."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Struct

from tailrace.consumers import Attempt, ChildFailed, GiveUp, Handlers, SyncAttempt
from tailrace.consumers.attempts.flows import Child
from tailrace.streams.errors import TailraceError
from tailrace.streams.messages import Job

handles = Handlers()

PLACES = ("loop", "thread", "process")


class Page(Struct):
    number: int
    text: str = ""


@handles("page")
async def page(attempt: Attempt[Page]) -> Page:
    if attempt.args.number < 0:
        raise GiveUp("there is no such page")
    return Page(attempt.args.number, f"page {attempt.args.number}")


@handles("loop-flow")
async def flow(attempt: Attempt[Any]) -> Any:
    await attempt.sleep(0.05)
    children = await attempt.spawn_many("page", [Page(number) for number in range(3)], platform="single", result=Page)
    own = await attempt.spawn("page", Page(7), result=Page)
    pages = await attempt.join([*children, own])
    said = await attempt.wait_for("approval", timeout=20)
    mail = await attempt.submit("page", Page(9))
    return {"pages": [each.text for each in pages], "said": said, "mail": mail.id, "attempt": attempt.number}


def plain_flow(attempt: SyncAttempt[Any]) -> Any:
    attempt.sleep(0.05)
    children = attempt.spawn_many("page", [Page(number) for number in range(3)], platform="single", result=Page)
    own = attempt.spawn("page", Page(7), result=Page)
    pages = attempt.join([*children, own])
    said = attempt.wait_for("approval", timeout=20)
    mail = attempt.submit("page", Page(9))
    return {"pages": [each.text for each in pages], "said": said, "mail": mail.id, "attempt": attempt.number}


@handles("policies")
async def policies(attempt: Attempt[Any]) -> Any:
    children = await attempt.spawn_many("page", [Page(1), Page(-1), Page(2)], platform="single", result=Page)
    got = await attempt.join(children, on_failure=attempt.args["on_failure"])
    return [each.error.message if isinstance(each, ChildFailed) else each and each.number for each in got]


def caught(attempt: SyncAttempt[Any]) -> Any:
    child = attempt.spawn("page", Page(-1), platform="single")
    try:
        return attempt.join([child])
    except ChildFailed as failed:
        return f"{failed.kind}: {failed.error.type}"


def own_args(job: Job) -> Page:
    """As its handler was asked, whatever the store keeps beside that."""
    return msgspec.json.decode(job.args, type=Page)


@handles("loop-book")
async def book(attempt: Attempt[Page]) -> Any:
    chapters = await attempt.join(await attempt.children())
    return [own_args(attempt.job).number, *chapters]


def plain_book(attempt: SyncAttempt[Page]) -> Any:
    return [own_args(attempt.job).number, *attempt.join(attempt.children())]


for place in ("thread", "process"):
    handles(f"{place}-book", run_in=place)(plain_book)
    handles(f"{place}-flow", run_in=place)(plain_flow)
    handles(f"{place}-caught", run_in=place)(caught)


@handles("patient")
async def patient(attempt: Attempt[Any]) -> Any:
    """A child that awaits a signal; it fails in its first life when it is told to."""
    said = await attempt.wait_for("go")
    if said == "break":
        raise GiveUp("as it was told")
    return said


@handles("guardian")
async def guardian(attempt: Attempt[Any]) -> Any:
    return await attempt.join(await attempt.spawn_many("patient", [{}, {}], platform="single"))


@handles("large")
async def large(attempt: Attempt[Any]) -> str:
    return "x" * 300_000


@handles("misuse")
async def misuse(attempt: Attempt[Any]) -> list[str]:
    foreign: Child[Any] = Child(attempt.job.id, "page")
    heard = []
    misuses: list[Callable[[], Awaitable[Any]]] = [
        lambda: attempt.join([foreign]),
        lambda: attempt.join(foreign),  # type: ignore[call-overload]
        lambda: attempt.join([foreign.id]),  # type: ignore[list-item]
        lambda: attempt.spawn("page", {}, platform="nowhere"),
        lambda: attempt.spawn("page", [1]),
        lambda: attempt.spawn_many("page", [{} for _ in range(10_001)], delay_seconds=3600),
        lambda: attempt.spawn("page", {}, priority="first of all"),
        lambda: attempt.wait_for("two words"),
        lambda: attempt.sleep(),
        lambda: attempt.each([1], print, batch=0),
    ]
    for wrong in misuses:
        try:
            await wrong()
        except (ValueError, TypeError, TailraceError) as error:
            heard.append(str(error))
    return heard


@handles("too-large")
async def too_large(attempt: Attempt[Any]) -> Any:
    return await attempt.join([await attempt.spawn("large", {}, platform=attempt.args["platform"])])
