"""`doctor`: whether this store is fit and no live job is stuck, and what to do if not."""

import argparse
from collections import Counter
from collections.abc import Container, Iterable
from pathlib import Path

import anyio
import msgspec
from rich.progress import Progress
from rich.text import Text

from tailrace.consumers.settings import ConsumerSettings
from tailrace.ops.connect import reach
from tailrace.ops.doctor.finding import Finding, advice, wrong
from tailrace.ops.doctor.missed_calls import look_at_calls
from tailrace.ops.doctor.repairs import repair_all
from tailrace.ops.doctor.store_checks import check_store
from tailrace.ops.doctor.way_forward import check_flow, check_jobs, check_places, confirm, find_records
from tailrace.ops.hints import command
from tailrace.ops.terminal import console, nothing_known, plain, print_json
from tailrace.streams.errors import WrongField
from tailrace.streams.keys import join_id
from tailrace.streams.policies import Platforms
from tailrace.streams.process.data_folder import find_running
from tailrace.streams.process.launch import PROGRAM
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tailrace.streams.store.server import read_nodes
from tailrace.streams.transitions import Transitions
from tailrace.streams.views.overview import find_unavailable
from tailrace.streams.views.presence import Presence

MARKS = {"fine": ("✓ ", "green"), "advice": ("! ", "yellow"), "wrong": ("✗ ", "red"), "repaired": ("+ ", "green")}
MOST_LINES = 20  # of one kind; the rest is counted
ROUNDS = 3  # a repair may uncover other findings


def run(options: argparse.Namespace) -> int:
    findings = anyio.run(examine, options)
    if options.json:
        print_json(findings)
    else:
        show(findings)
    return 1 if any(finding.level == "wrong" for finding in findings) else 0


async def examine(options: argparse.Namespace) -> list[Finding]:
    async with reach(options) as (_, store, settings):
        platforms = settings.platforms
        folder = options.data if store.url == find_running(options.data) else None
        nodes = await read_nodes(store) if store.clustered else []
        findings = [finding async for finding in check_store(store, folder, nodes)]
        if unknown := await find_unavailable(store, platforms):
            findings.append(wrong("platforms", nothing_known(unknown)))
        away = {*unknown, *(node.address for node in nodes if node.down)}
        counts, troubles = await look_closely(store, platforms, away)
        rounds = ROUNDS if options.repair else 0
        while rounds and (done := await repair_all(store, troubles)):
            findings += done
            counts, troubles = await look_closely(store, platforms, away)
            rounds -= 1
        troubles += await look_at_consumers(store, platforms, counts)
        notes = await check_flow(store, platforms)
    findings += notes
    paused = {note.about for note in notes if note.next}  # a person can end a pause
    for platform, states in counts.items():
        if not any(trouble.about == platform and trouble.level == "wrong" for trouble in troubles):
            numbers = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
            once = " once the platform is resumed" if platform in paused else ""
            findings.append(Finding(platform, f"{numbers}: every job has a way forward{once}"))
    if not counts:
        findings.append(Finding("jobs", "none is waiting, delayed, awaiting or running"))
    return [on_the_same_folder(finding, options.data) for finding in findings + troubles]


def on_the_same_folder(finding: Finding, data: Path) -> Finding:
    """Its next step, as it is typed here. A consumer takes no folder."""
    words = finding.next.removeprefix(f"{PROGRAM} ")
    if words == finding.next or words.startswith("consume"):
        return finding
    return msgspec.structs.replace(finding, next=command(words, data))


async def look_closely(
    store: Store, platforms: Platforms, away: Container[str]
) -> tuple[dict[str, Counter[State]], list[Finding]]:
    """How many live jobs each platform has, and their findings: each was seen twice."""
    counts, suspicions = await look_at_jobs(store, platforms, away)
    return counts, await confirm(store, suspicions) + await look_at_calls(store, platforms, counts)


async def look_at_jobs(
    store: Store, platforms: Platforms, away: Container[str]
) -> tuple[dict[str, Counter[State]], list[Finding]]:
    """How many live jobs each platform has, and their suspected findings.

    `away`: platforms and nodes that do not answer.
    """
    counts: dict[str, Counter[State]] = {}
    suspicions: list[Finding] = []
    for name in filter(lambda each: each not in away, platforms):
        suspicions += await check_places(store, store.keys(name))
    with Progress(console=console(talk=True), transient=True, disable=not console(talk=True).is_terminal) as bar:
        nodes = [node for node in await store.nodes() if node.name not in away]
        total = sum([await node.command("DBSIZE") for node in nodes])
        task = bar.add_task("looking at jobs", total=total)
        async for seen, jobs in find_records(store, nodes):
            bar.update(task, completed=seen)
            for platform, page in jobs.items():
                if platform in away:
                    continue
                try:
                    keys = store.keys(platform)
                except WrongField:
                    continue  # a key of another program
                found, live = await check_jobs(store, keys, page)
                suspicions += found
                if live:
                    counts.setdefault(platform, Counter()).update(record.state for record in live)
    return counts, suspicions


async def look_at_consumers(store: Store, platforms: Platforms, names: Iterable[str]) -> list[Finding]:
    """Whether a consumer serves each of these platforms, and whether those that run jobs beat."""
    transitions = Transitions(store)
    patience = ConsumerSettings.read(platforms).deadline_seconds / 2  # a beat comes within a third of the deadline
    consumers = await Presence(transitions, names, patience).see()
    findings = []
    for name in names:
        serving = [each for each in consumers if name in each.platforms]
        if not any(each.alive for each in serving):
            variable = "" if name in platforms else f"TAILRACE_PLATFORMS={name} "
            says = "it has jobs, but no consumer serves it"
            findings.append(wrong(name, says, f"{variable}{PROGRAM} consume {name}"))
            continue
        for each in serving:
            if not each.alive and await transitions.holdings(store.keys(name), each.owner, 1):
                says = f"{each.owner} is silent; its jobs go to others once one of them has seen that for "
                findings.append(advice(name, f"{says}{each.deadline_seconds:g} s"))
    return findings


def show(findings: Iterable[Finding]) -> None:
    out = console()
    lines: Counter[tuple[str, str]] = Counter()
    for finding in findings:
        kind = (finding.about, ("repaired: " if finding.level == "repaired" else "") + finding.says)
        lines[kind] += 1
        if lines[kind] > MOST_LINES:
            continue
        mark, style = MARKS[finding.level]
        job = f"job {join_id(finding.about, finding.job)}: " if finding.job else ""
        out.print(Text.assemble((mark, style), f"{finding.about:13}", plain(job + kind[1])))
        if finding.next:
            out.print(Text(f"  {'':13}-> {plain(finding.next)}", style="dim"))
    for (about, says), count in lines.items():
        if count > MOST_LINES:
            out.print(f"  {about:13}{count - MOST_LINES} more of these: {says}")
