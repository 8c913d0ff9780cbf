"""`doctor`: is this store fit, does every live job have a way forward, and what to do if not."""

import argparse
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import anyio
import msgspec
from rich.progress import Progress
from rich.text import Text

from tailrace.consumers.settings import ConsumerSettings
from tailrace.ops.connect import reach
from tailrace.ops.doctor.finding import Finding, advice, wrong
from tailrace.ops.doctor.missed_calls import look_at_calls
from tailrace.ops.doctor.store_checks import check_store
from tailrace.ops.doctor.way_forward import check_flow, check_jobs, check_places, confirm, find_records, read_lease
from tailrace.ops.hints import command
from tailrace.ops.terminal import console, plain, say
from tailrace.producers.settings import StreamsSettings
from tailrace.streams.errors import WrongField
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Lease
from tailrace.streams.policies import Platforms
from tailrace.streams.process.data_folder import find_running
from tailrace.streams.process.launch import PROGRAM
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Transitions

MARKS = {"fine": ("✓ ", "green"), "advice": ("! ", "yellow"), "wrong": ("✗ ", "red")}
MOST_LINES = 20  # of one kind; the rest is counted


def run(options: argparse.Namespace) -> int:
    findings = anyio.run(examine, options)
    if options.json:
        print(msgspec.json.encode(findings).decode())
    else:
        show(findings)
    return 1 if any(finding.level == "wrong" for finding in findings) else 0


async def examine(options: argparse.Namespace) -> list[Finding]:
    async with reach(options.data) as store:
        platforms = StreamsSettings.read().platforms
        folder = options.data if store.url == find_running(options.data) else None
        findings = [finding async for finding in check_store(store, folder)]
        counts, suspicions = await look_at_jobs(store, platforms)
        troubles = await confirm(store, suspicions)
        if options.repair:
            troubles = [trouble for trouble in troubles if not await repair(store, platforms, trouble)]
        troubles += await look_at_calls(store, platforms, counts)
        troubles += await look_at_consumers(store, platforms, counts)
        notes = await check_flow(store, platforms)
    findings += notes
    paused = {note.about for note in notes if note.next}  # a pause is what somebody can end
    for platform, states in counts.items():
        if not any(trouble.about == platform and trouble.level == "wrong" for trouble in troubles):
            numbers = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
            once = " once the platform is resumed" if platform in paused else ""
            findings.append(Finding(platform, f"{numbers}: every job has a way forward{once}"))
    if not counts:
        findings.append(Finding("jobs", "none is waiting, delayed or running"))
    return [on_the_same_folder(finding, options.data) for finding in findings + troubles]


def on_the_same_folder(finding: Finding, data: Path) -> Finding:
    """Its next step, as it is typed here. A consumer takes no folder."""
    words = finding.next.removeprefix(f"{PROGRAM} ")
    if words == finding.next or words.startswith("consume"):
        return finding
    return msgspec.structs.replace(finding, next=command(words, data))


async def look_at_jobs(store: Store, platforms: Platforms) -> tuple[dict[str, Counter[State]], list[Finding]]:
    """How many live jobs each platform has, and what may be wrong with them."""
    counts: dict[str, Counter[State]] = {}
    suspicions: list[Finding] = []
    for name in platforms:
        suspicions += await check_places(store, PlatformKeys(name))
    with Progress(console=console(talk=True), transient=True, disable=not console(talk=True).is_terminal) as bar:
        task = bar.add_task("looking at jobs", total=await store.command("DBSIZE"))
        async for seen, jobs in find_records(store):
            bar.update(task, completed=seen)
            for platform, page in jobs.items():
                try:
                    keys = PlatformKeys(platform)
                except WrongField:
                    continue  # not ours, whoever wrote it
                found, live = await check_jobs(store, keys, page)
                suspicions += found
                if live:
                    counts.setdefault(platform, Counter()).update(record.state for record in live)
    return counts, suspicions


async def look_at_consumers(store: Store, platforms: Platforms, counts: dict[str, Counter[State]]) -> list[Finding]:
    """Whether somebody serves each platform that has jobs, and whether those who run them beat."""
    wanted = [PlatformKeys(name) for name in counts]
    if not wanted:
        return []
    transitions = Transitions(store)
    first = await transitions.observe(wanted)
    patience = ConsumerSettings.read(platforms).deadline_seconds / 2  # a beat comes within a third of the deadline
    last = first
    with anyio.move_on_after(patience):
        while not all(map(all_beat, first, last)):
            await anyio.sleep(0.1)
            last = await transitions.observe(wanted)
    findings = []
    for keys, before, after in zip(wanted, first, last, strict=True):
        silent = after.keys() - beating(before, after)
        held = [lease for owner in sorted(silent) for lease in await transitions.holdings(keys, owner, 1)]
        findings += served(keys.platform, bool(after.keys() - silent), held, keys.platform in platforms)
    return findings


Beats = Mapping[str, str]  # owner -> beat counter


def all_beat(before: Beats, after: Beats) -> bool:
    return before.keys() <= beating(before, after)


def beating(before: Beats, after: Beats) -> set[str]:
    return {owner for owner, counter in after.items() if before.get(owner) != counter}


def served(platform: str, alive: bool, silent: Iterable[Lease], declared: bool) -> list[Finding]:
    """Pure: what two looks at a platform with jobs say about those who serve it; one lease of each silent owner."""
    if not alive:
        variable = "" if declared else f"TAILRACE_PLATFORMS={platform} "
        says = "it has jobs, but no consumer serves it"
        return [wrong(platform, says, f"{variable}{PROGRAM} consume {platform}")]
    return [
        advice(
            platform,
            f"{lease.owner} is silent; its jobs go to others once one of them has seen that for "
            f"{lease.deadline_seconds:g} s",
        )
        for lease in silent
    ]


async def repair(store: Store, platforms: Platforms, trouble: Finding) -> bool:
    """Mend what a transition can mend without a doubt: a job without a place, a lease without an attempt."""
    keys = PlatformKeys(trouble.about)
    if not trouble.nonce:
        if not trouble.job:
            return False
        (sweep,) = await Transitions(store).mend([(keys, "")], jobs=[trouble.job])
        if sweep.mended:
            say(f"repaired: job {keys.id(trouble.job)} is back in line, or has ended as its history says")
        return bool(sweep.mended)
    found = await read_lease(store, keys, trouble.nonce)
    if found is None:
        return True
    lease, counter = found
    # `reclaim` compares the fence first: no record has this nonce any more, so all it can do is drop the lease.
    word = await Transitions(store).reclaim(keys, lease, counter, platforms[keys.platform])
    if word != "gone":
        return False
    say(f"repaired: the lease of job {keys.id(lease.key)} was given back")
    return True


def show(findings: Iterable[Finding]) -> None:
    out = console()
    lines: Counter[tuple[str, str]] = Counter()
    for finding in findings:
        kind = (finding.about, finding.says)
        lines[kind] += 1
        if lines[kind] > MOST_LINES:
            continue
        mark, style = MARKS[finding.level]
        job = f"job {PlatformKeys(finding.about).id(finding.job)}: " if finding.job else ""
        out.print(Text.assemble((mark, style), f"{finding.about:13}", plain(job + finding.says)))
        if finding.next:
            out.print(Text(f"  {'':13}-> {plain(finding.next)}", style="dim"))
    for (about, says), count in lines.items():
        if count > MOST_LINES:
            out.print(f"  {about:13}{count - MOST_LINES} more of these: {says}")
