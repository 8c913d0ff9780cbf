"""`bench`: how fast Tailrace is here, beside the raw speed of this store."""

import argparse
import os
import platform
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import anyio
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from tailrace.ops.bench import costs
from tailrace.ops.bench.figures import Figure, compare, written
from tailrace.ops.bench.measures import MEASURES, QUICK, Bench, Extent
from tailrace.ops.bench.workbench import Workbench, open_workbench
from tailrace.ops.tables import Rows
from tailrace.ops.terminal import console, print_json, say
from tailrace.ops.up.up import look_at
from tailrace.producers.settings import StreamsSettings
from tailrace.streams.errors import TailraceError, WrongField
from tailrace.streams.process.shutdown import Shutdown
from tailrace.streams.store.connection import Store, info_fields
from tailrace.streams.store.server import read_server

LIMIT_SECONDS = 60.0  # for one measure; each takes a few

Tell = Callable[[str], None]


def run(options: argparse.Namespace) -> int:
    if options.costs:
        return costs.run(options)
    measures = chosen(options.only)
    extent = QUICK if options.quick else Extent()
    url = StreamsSettings.read().url
    if url is not None:
        anyio.run(look_at, url)  # one that is away or unfit stops us before anything is started
    with open_workbench(url, options.data, list(MEASURES)) as workbench, telling(measures) as tell:
        report = anyio.run(take, workbench, measures, extent, tell, backend_options={"use_uvloop": True})
    if report is None:
        raise KeyboardInterrupt
    facts, figures = report
    if options.json:
        print_json({**facts, "quick": options.quick, "figures": figures})
    else:
        show(facts, figures)
    return 0


def chosen(only: str | None) -> list[str]:
    """The measures to take, in their own order."""
    words = [word for part in (only or "").split(",") if (word := part.strip())]
    unknown = [word for word in words if word not in MEASURES]
    if unknown or (only is not None and not words):
        wrong = f"there is no {', '.join(unknown)}" if unknown else "it names nothing"
        raise WrongField("--only", f"{wrong}; choose among {', '.join(MEASURES)}")
    return [name for name in MEASURES if not words or name in words]


async def take(
    workbench: Workbench, measures: Sequence[str], extent: Extent, tell: Tell
) -> tuple[dict[str, Any], list[Figure]] | None:
    """The facts of this run and its figures; None when it was asked to stop."""
    figures: list[Figure] = []
    facts: dict[str, Any] = {}
    finished = False
    shutdown = Shutdown()
    with shutdown.listening():
        async with anyio.create_task_group() as tasks, Store(workbench.url) as store:

            async def stop() -> None:
                await shutdown.drain.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(stop)
            facts = await look(store, own=workbench.own_store)
            bench = Bench(workbench, store, extent)
            for name in measures:
                tell(name)
                figures += await within_limit(name, MEASURES[name].take(bench, workbench.keys[name]))
            finished = True
            tasks.cancel_scope.cancel()
    return (facts, compare(figures)) if finished else None


async def within_limit(name: str, measure: Awaitable[list[Figure]]) -> list[Figure]:
    try:
        with anyio.fail_after(LIMIT_SECONDS):
            return await measure
    except TimeoutError:
        left_out = ",".join(other for other in MEASURES if other != name)
        raise TailraceError(
            f"{name} was not done in {LIMIT_SECONDS:g} s; take the others with --only {left_out}"
        ) from None


async def look(store: Store, *, own: bool) -> dict[str, Any]:
    """The facts that figures need: when they were taken, and on which machine and store."""
    server = await read_server(store)
    persistence = info_fields(await store.command("INFO", "persistence"))
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "store": f"{server.name} {server.version}",
        "own_store": own,
        "nodes": len(await store.nodes()),
        "append_only_file": persistence.get("aof_enabled") == "1",
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
    }


@contextmanager
def telling(measures: Sequence[str]) -> Iterator[Tell]:
    """Says which measure is being taken: a bar in a terminal, a line each elsewhere."""
    out = console(talk=True)
    if not out.is_interactive:
        yield lambda name: say(f"{measures.index(name) + 1}/{len(measures)} {name}: {MEASURES[name].what}")
        return
    columns = (BarColumn(20), MofNCompleteColumn(), TextColumn("{task.description}"))
    # It draws itself only when told to: a thread that does so ten times a second would be measured too.
    with Progress(*columns, console=out, transient=True, auto_refresh=False) as progress:
        task = progress.add_task("", total=len(measures))

        def tell(name: str) -> None:
            text = f"{name}: {MEASURES[name].what}"
            progress.update(task, completed=measures.index(name), description=text, refresh=True)

        yield tell


def show(facts: dict[str, Any], figures: Sequence[Figure]) -> None:
    out = console()
    found = Rows(("measure", "figure", "of raw", "what was measured"))
    for figure in figures:
        share = "" if figure.of_raw is None else f"{figure.of_raw:4.0%}"
        found.add(figure.name, written(figure), share, figure.what)
    found.show()
    out.print()
    store = f"{facts['store']}{', of its own' if facts['own_store'] else ''}"
    if facts["nodes"] > 1:
        store += f", {facts['nodes']} nodes"
    aof = "append-only file on" if facts["append_only_file"] else "no append-only file"
    place = f"{facts['machine']}, {facts['processors']} processors, Python {facts['python']}"
    out.print(f"{store}, {aof}; {place}; {facts['date']}")
