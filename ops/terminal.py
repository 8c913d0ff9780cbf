"""Output of commands: results on stdout, messages on stderr, coloured in a terminal and plain in a pipe."""

import sys
from collections.abc import Mapping
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

PIPE_WIDTH = 10_000  # a pipe gets whole lines

STYLES = {
    "queued": "dim",
    "started": "cyan",
    "progress": "",
    "superseded": "yellow",
    "retrying": "yellow",
    "completed": "green",
    "failed": "red",
    "cancelled": "blue",
    "running": "cyan",
    "delayed": "dim",
    "awaiting": "dim",
    "alive": "green",
    "silent": "yellow",
}
"""The colour of each word: as on the page, waiting is calm, running blue, silent amber, failed red, completed green."""


AWAITED = {"signal": "the signal", "pending": "children:"}  # what an event says of what its job awaits
TIMES = {"retryAt": "again at", "until": "until"}  # and of the time to come


def console(*, talk: bool = False) -> Console:
    """The console for results, or for messages; with colours in a terminal, unless NO_COLOR is set."""
    width = None if (sys.stderr if talk else sys.stdout).isatty() else PIPE_WIDTH
    return Console(stderr=talk, highlight=False, markup=False, emoji=False, width=width)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def nothing_known(unavailable: Mapping[str, str]) -> str:
    """That platforms could not be looked at: `unavailable` says of each why."""
    names, reasons = ", ".join(sorted(unavailable)), "; ".join(sorted({*unavailable.values()}))
    return f"nothing is known of the jobs of {names}: {reasons}"


def plain(value: object) -> str:
    """The value as text in one line, without control characters."""
    text = value if isinstance(value, str) else str(value)
    return "".join(c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text)


def print_json(value: object) -> None:
    """A result for machines."""
    print(msgspec.json.encode(value).decode(), flush=True)


def span(seconds: float) -> str:
    """A length of time as people say it."""
    whole = int(seconds)
    if whole < 10:
        return f"{seconds:.1f} s"
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole // 60 % 60:02} min"
    return f"{whole // 86_400} d {whole // 3600 % 24} h"


class Takeover:
    """Sentences for a lost worker of a job, and for the one that takes over."""

    def __init__(self) -> None:
        self._lost = False

    def told(self, event: dict[str, Any]) -> Text | None:
        """A sentence about this event, if it is one of those."""
        worker, attempt = plain(event.get("workerId")), event.get("attempt")
        if event.get("reason") == "lost":
            self._lost = event["status"] == "superseded"
            after = "what it still writes is refused" if self._lost else "the job has lost as many as it may"
            return Text(f"worker {worker} is lost: attempt {attempt} is over, {after}", "yellow")
        if event["status"] == "started" and self._lost:
            self._lost = False
            return Text(f"worker {worker} takes over with attempt {attempt}", "cyan")
        return None


def event_line(event: dict[str, Any]) -> Text:
    """One event of a job as a line: time, attempt, status and details."""
    attempt = event.get("attempt")
    head = f"{event['time'][11:23]}  {f'#{attempt}' if attempt else '':4}"
    line = Text.assemble((head, "dim"), (f"{event['status']:11}", style_of(event["status"])), about(event))
    line.rstrip()
    return line


def about(event: dict[str, Any]) -> str:
    """The details of an event beside its status, in one line."""
    words = []
    if (step := event.get("step")) is not None:
        of = event.get("of")
        words.append(f"{plain(step)} of {plain(of)}" if of is not None else plain(step))
    if event["status"] in {"started", "superseded"} and event.get("workerId"):
        words.append(plain(event["workerId"]))
    words += [plain(event[name]) for name in ("message", "reason") if event.get(name)]
    if isinstance(error := event.get("error"), dict):
        words.append(plain(f"{error.get('type')}: {error.get('message')}"))
    words += [f"{said} {plain(event[name])}" for name, said in (AWAITED | TIMES).items() if event.get(name)]
    if event["status"] not in {"started", "progress"} and event.get("by"):
        words.append(f"by {plain(event['by'])}")
    return "  ".join(words)


def style_of(cell: object) -> str:
    """The colour of a word that names a state."""
    return STYLES.get(cell, "") if isinstance(cell, str) else ""
