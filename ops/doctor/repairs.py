"""`doctor --repair`: each finding has its transition, which looks again and acts in one step, while the system runs."""

from collections.abc import Iterable

import msgspec

from tailrace.ops.doctor.finding import Finding
from tailrace.ops.doctor.flows import bring_lost, deliver, detach
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Transitions


async def repair_all(store: Store, troubles: Iterable[Finding]) -> list[Finding]:
    """Repair all findings; returns those that were repaired."""
    return [
        msgspec.structs.replace(trouble, level="repaired", next="")
        for trouble in troubles
        if await repair(store, trouble)
    ]


async def repair(store: Store, trouble: Finding) -> bool:
    """Repair one finding; whether that changed something."""
    keys = store.keys(trouble.about)
    if trouble.remedy == "relay":
        return await deliver(store, keys)
    if trouble.remedy == "detach":
        return await detach(store, keys, trouble.job)
    if trouble.remedy.startswith("tidy"):
        return await tidy(store, trouble, act=True) == "ok"
    if trouble.level != "wrong" or not trouble.job:
        return False
    if await bring_lost(store, keys, trouble.job):
        return True
    (sweep,) = await Transitions(store).mend([(keys, "")], jobs=[trouble.job])
    return bool(sweep.mended)


async def tidy(store: Store, finding: Finding, *, act: bool) -> str:
    """Put right what the remedy of a finding names, or look whether it is wrong; in one step, so nothing moves
    meanwhile. A job whose record was made readable may stand on no list: the next round of the doctor finds that."""
    _, what, name = (*finding.remedy.split(" ", 2), "")[:3]
    return await Transitions(store).tidy(store.keys(finding.about), what, name, act=act)
