"""`race`: a worker freezes in the middle of a job and comes back, live, with real processes."""

import argparse
import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from tailrace.ops.race.monitor import Write
from tailrace.ops.race.track import BEAT, DEADLINE, JOB_SECONDS, STEPS, Round, open_track
from tailrace.ops.terminal import console, print_json, say
from tailrace.streams.errors import WrongField

LANE = 24  # columns for each worker
LAST_MOMENT = JOB_SECONDS - 0.2  # the freeze itself takes a moment, and the job must not be over


def run(options: argparse.Namespace) -> int:
    moment = options.moment
    if moment is not None and not 0 < moment <= LAST_MOMENT:
        raise WrongField(
            "--moment", f"is {moment:g}; the job takes {JOB_SECONDS:g} s: choose from above 0 to {LAST_MOMENT:g}"
        )
    if options.rounds < 1:
        raise WrongField("--rounds", "must be at least 1", options.rounds)
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    folder = Path(tempfile.mkdtemp(prefix="tailrace-race-"))
    clean = False
    try:
        rounds = run_rounds(options, seed, folder)
        clean = not any(race.check() for race in rounds)
    finally:
        if clean:
            shutil.rmtree(folder)
        else:
            say(f"the logs of this race are in {folder}")
    if options.json:
        print_json({"seed": seed, "clean": clean, "rounds": [facts(race) for race in rounds]})
    return 0 if clean else 1


def run_rounds(options: argparse.Namespace, seed: int, folder: Path) -> list[Round]:
    chance = random.Random(seed)
    out = console() if not options.json else Console(quiet=True)
    out.print(
        Text(f"seed {seed}: {STEPS} steps in {JOB_SECONDS:g} s, a beat every {BEAT:g} s, lost after {DEADLINE:g} s;")
    )
    out.print(Text("the handler ignores every refusal and goes on"))
    rounds = []
    with open_track(folder) as track:
        for number in range(1, options.rounds + 1):
            moment = options.moment or chance.uniform(0.1, LAST_MOMENT)
            pause = chance.uniform(0.1, LAST_MOMENT)
            lanes = Lanes(out if options.rounds == 1 else Console(quiet=True))
            race = track.run(moment, pause, lanes.show)
            rounds.append(race)
            if options.rounds == 1:
                show_end(out, race)
            else:
                out.print(one_line(number, race))
    return rounds


class Lanes:
    """Both workers side by side, as it happens. The first one seen is A."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._began: float | None = None
        self._workers: list[str | None] = []
        out.print()
        out.print(Text(f"{'':10}{'worker A':{LANE}}{'worker B':{LANE}}", style="bold"))

    def show(self, at: float, what: Write | str) -> None:
        self._began = self._began or at
        time = Text(f"{at - self._began:6.2f} s  ", style="dim")
        if isinstance(what, str):
            self._out.print(time + Text(what, style="bold blue"))
            return
        if what.worker not in self._workers:
            self._workers.append(what.worker)
        indent = " " * LANE * self._workers.index(what.worker)
        self._out.print(time + Text(indent) + said(what))


def said(write: Write) -> Text:
    word = write.status if write.step is None else f"step {write.step}"
    if not write.accepted:
        return Text(f"{word}: refused", style="red")
    return Text(word, style={"superseded": "yellow", "completed": "green"}.get(write.status, ""))


def show_end(out: Console, race: Round) -> None:
    letter = {race.a: "A", race.b: "B"}
    words = []
    for event in race.history:
        who = letter.get(event["workerId"], "")
        word = event["status"] if event["step"] is None else str(event["step"])
        words.append(f"{word}({who})" if who else word)
    out.print()
    out.print(Text.assemble(("what every client sees  ", "bold"), ", ".join(words)))
    out.print()
    found = race.check()
    for sentence in found or praise(race):
        out.print(Text.assemble(("✗ ", "red") if found else ("✓ ", "green"), sentence))


def praise(race: Round) -> list[str]:
    """The sentences about a clean round."""
    return [
        f"B took over {race.taken - race.frozen:.1f} s after A was frozen, and completed the job",
        f"A woke up {'while B ran' if race.holders else 'after that'}, tried {len(race.refused)} writes, all refused",
        "the history has each step once per attempt, superseded once, completed once",
        f"the store holds nothing more, and two live clients saw the same (one connected {race.connections[1]} times)",
        f"the entry stayed B's in all {len(race.holders)} looks after A woke up",
        "A took another job afterwards and completed it",
    ]


def one_line(number: int, race: Round) -> Text:
    found = race.check()
    line = (
        f"round {number:3}  frozen at {race.frozen - race.began:.2f} s, taken over {race.taken - race.frozen:.2f} s "
        f"later, thawed {race.thawed - race.taken:.2f} s after that, {len(race.refused)} writes refused: "
    )
    return Text.assemble(line, ("; ".join(found), "red") if found else ("clean", "green"))


def facts(race: Round) -> dict[str, Any]:
    found = msgspec.to_builtins(race)
    return {**found, "holders": Counter(race.holders), "violations": race.check()}
