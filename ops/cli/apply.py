"""`apply` and `platforms set`: change the policies of a running system; the difference is shown first."""

import argparse
import os
from collections.abc import Sequence
from typing import Any

import msgspec

from tailrace.ops.cli.act import who
from tailrace.ops.connect import Reached, ask
from tailrace.ops.terminal import plain, print_json, say
from tailrace.producers.policies import Difference, Policies, difference
from tailrace.producers.schedules import check
from tailrace.producers.settings import StreamsSettings
from tailrace.streams.errors import WrongField
from tailrace.streams.policies import Policy
from tailrace.streams.process.settings import Environment
from tailrace.streams.schedules import Schedule
from tailrace.streams.transitions import Transitions


class Changes(msgspec.Struct, frozen=True):
    """The changes that a file asks for; none is made yet."""

    policies: dict[str, Difference]
    schedules: list[Schedule]  # new or changed
    left: list[Schedule]  # once in a file, but not in this one


def run(options: argparse.Namespace) -> int:
    said = StreamsSettings.read(Environment({**os.environ, "TAILRACE_CONFIG": str(options.file)}))

    async def apply(reached: Reached) -> Changes:
        policies = Policies(Transitions(reached.store), reached.platforms.declare(said.configured))
        plan = await plan_of(said, policies, reached)
        if options.json:
            print_json(plan)
        else:
            show(plan, prune=options.prune)
        if not options.dry_run:
            await carry_out(said, plan, policies, reached, prune=options.prune, by=who(options))
        return plan

    plan = ask(options, apply)
    count = len(plan.policies) + len(plan.schedules) + (len(plan.left) if options.prune else 0)
    if options.dry_run:
        say("nothing was changed: --dry-run" if count else "nothing to change")
    else:
        say(f"applied {options.file}" if count else "nothing to change")
    return 0


async def plan_of(said: StreamsSettings, policies: Policies, reached: Reached) -> Changes:
    """Compare a file with the store. Raises `WrongField` for a schedule whose jobs no consumer could run."""
    changes = {name: difference(await policies.get(name), said.platforms[name]) for name in said.configured}
    for schedule in said.schedules:
        try:
            check(schedule, said.platforms, said.kinds)
        except WrongField as error:
            raise WrongField(f"schedules.{schedule.name}.{error.field}", error.reason) from None
    names = list(dict.fromkeys([*reached.platforms, *said.platforms]))
    kept = {
        (each.schedule.platform, each.schedule.name): each.schedule
        for name in names
        for each in await reached.client.over(reached.store, said.platforms.declare(names)).schedules.list(name)
    }
    wanted = {(each.platform, each.name): each for each in said.schedules}
    return Changes(
        {name: change for name, change in sorted(changes.items()) if change},
        [each for place, each in wanted.items() if not same(each, kept.get(place))],
        [each for place, each in kept.items() if each.in_file and place not in wanted],
    )


def same(wanted: Schedule, kept: Schedule | None) -> bool:
    """Whether a schedule is kept as the file says; one that a person has paused stays so."""
    return kept is not None and msgspec.structs.replace(kept, paused=wanted.paused) == wanted


async def carry_out(
    said: StreamsSettings, plan: Changes, policies: Policies, reached: Reached, *, prune: bool, by: str
) -> None:
    for name, declared in sorted(said.configured.items()):
        await policies.apply(name, said.platforms[name], declared, by=by)
    names = [*said.platforms, *(each.platform for each in plan.left)]
    schedules = reached.client.over(reached.store, said.platforms.declare(names), said.kinds).schedules
    for schedule in plan.schedules:
        await schedules.upsert(schedule, by=by)
    for schedule in plan.left if prune else ():
        await schedules.remove(schedule.platform, schedule.name, by=by)


def show(plan: Changes, *, prune: bool) -> None:
    for platform, change in plan.policies.items():
        print("\n".join(lines_of(platform, change)))
    for schedule in plan.schedules:
        print(f"schedule {plain(schedule.name)} on {schedule.platform}: is kept as the file says")
    for schedule in plan.left:
        what = "is removed" if prune else "is not in the file any more; --prune removes it"
        print(f"schedule {plain(schedule.name)} on {schedule.platform}: {what}")


def lines_of(platform: str, change: Difference) -> list[str]:
    return [f"{platform}: {name} {word(before)} -> {word(after)}" for name, (before, after) in change.items()]


def word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)


def change(options: argparse.Namespace, platform: str, words: Sequence[str]) -> int:
    """`platforms set PLATFORM name=value …`"""
    fields = dict(map(field_of, words))

    async def changed(reached: Reached) -> tuple[Difference, Policy]:
        policies = Policies(Transitions(reached.store), reached.platforms)
        reached.platforms.known(platform)
        before = await policies.get(platform)
        after = await policies.change(platform, fields, by=who(options))
        return difference(before, after), after

    difference_made, policy = ask(options, changed)
    if options.json:
        print_json(policy)
        return 0
    for line in lines_of(platform, difference_made):
        print(line)
    if not difference_made:
        say("nothing to change")
    return 0


def field_of(text: str) -> tuple[str, Any]:
    """A rule as it is typed: `rate=30`, `order=strict`."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise WrongField("platforms", f"write name=value, such as rate=30, not {text!r}")
    try:
        return name, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, value
