"""Plain handlers that the tests run in threads and worker processes, each kind in both: `thread-…` and `process-…`."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

from msgspec import Struct

from tailrace.consumers import Delay, GiveUp, Handlers, RateLimited, SyncAttempt
from tailrace.streams.errors import Cancelled

handles = Handlers()


class Order(Struct):
    count: int


def add(attempt: SyncAttempt[Order]) -> Order:
    return Order(attempt.args.count + 1)


def show(attempt: SyncAttempt[Any]) -> dict[str, Any]:
    attempt.progress(1, of=2, message="one", data={"a": [1]})
    attempt.progress(1, message="one again")
    attempt.progress("named")
    return {"key": attempt.idempotency_key("pay"), "number": attempt.number, "id": attempt.job.id}


def where(attempt: SyncAttempt[Any]) -> dict[str, Any]:
    time.sleep(attempt.args.get("seconds", 0))
    return {"pid": os.getpid(), "thread": threading.current_thread().name}


def fails(attempt: SyncAttempt[Any]) -> NoReturn:
    raise LookupError("no luck")


def gives_up(attempt: SyncAttempt[Any]) -> NoReturn:
    raise GiveUp("never")


def delays(attempt: SyncAttempt[Any]) -> str:
    if attempt.number == 1:
        raise Delay(0.01)
    return "later"


def rate_limits(attempt: SyncAttempt[Any]) -> str:
    if attempt.number == 1:
        raise RateLimited(0.01)
    return "later"


def exits(attempt: SyncAttempt[Any]) -> NoReturn:
    sys.exit(3)


def unkept(attempt: SyncAttempt[Any]) -> object:
    return object()


def large(attempt: SyncAttempt[Any]) -> str:
    return "x" * 1_100_000


def large_report(attempt: SyncAttempt[Any]) -> None:
    attempt.progress(1, data="x" * 1_100_000)


def wrong_step(attempt: SyncAttempt[Any]) -> None:
    attempt.progress(1.5)  # type: ignore[arg-type]


def queues(attempt: SyncAttempt[Any]) -> str:
    """Queues more reports than its job may have, and tells what it hears of that."""
    try:
        for step in range(12):
            attempt.progress(step, wait=False)
        attempt.flush()
    except ValueError as error:
        return str(error)
    return "nothing"


def told(attempt: SyncAttempt[Any]) -> list[str]:
    """Makes every report it is given, and returns what it hears of those that are refused."""
    heard = []
    for report in attempt.args:
        try:
            attempt.progress(**report)
        except (TypeError, ValueError) as error:
            heard.append(f"{type(error).__name__}: {error}")
    attempt.progress("the end")
    return heard


def obeys(attempt: SyncAttempt[Any]) -> None:
    """Reports until it is told to stop, and tidies up."""
    step = 0
    try:
        while True:
            step += 1
            attempt.progress(step)
            time.sleep(0.02)
    except Cancelled:
        Path(attempt.args["tidied"]).write_text("yes")
        raise


def deaf(attempt: SyncAttempt[Any]) -> None:
    """Computes for so long, whatever it is told."""
    attempt.progress(1, data=os.getpid())
    end = time.monotonic() + attempt.args["seconds"]
    while time.monotonic() < end:
        try:
            time.sleep(0.01)
        except Cancelled:
            continue


for place in ("thread", "process"):
    for kind, function in {
        "add": add,
        "show": show,
        "where": where,
        "fails": fails,
        "gives-up": gives_up,
        "delays": delays,
        "rate-limits": rate_limits,
        "exits": exits,
        "unkept": unkept,
        "large": large,
        "large-report": large_report,
        "wrong-step": wrong_step,
        "queues": queues,
        "told": told,
        "obeys": obeys,
        "deaf": deaf,
    }.items():
        handles(f"{place}-{kind}", run_in=place)(function)


@handles("dies", run_in="process")
def dies(attempt: SyncAttempt[Any]) -> NoReturn:
    if "signal" in attempt.args:
        os.kill(os.getpid(), signal.Signals[attempt.args["signal"]])
    os._exit(attempt.args["code"])


@handles("holds", run_in="process")
def holds(attempt: SyncAttempt[Any]) -> None:
    """Holds its interpreter with C code, beside a program it has started."""
    program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    attempt.progress(1, data=[os.getpid(), program.pid])
    re.match(r"(a+)+$", "a" * 60 + "!")


@handles("in-loop")
async def in_loop(attempt: Any) -> str:
    return "loop"
