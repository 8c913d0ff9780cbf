"""`audit`: who did what, newest first."""

import argparse

import msgspec

from tailrace.ops.connect import Reached, ask
from tailrace.ops.tables import Rows
from tailrace.ops.terminal import console, plain, print_json
from tailrace.streams.errors import WrongField
from tailrace.streams.views.audit import MOST, AuditPage, read_audit


def run(options: argparse.Namespace) -> int:
    if not 1 <= options.limit <= MOST:
        raise WrongField("limit", f"must be from 1 to {MOST}", options.limit)

    async def look(reached: Reached) -> AuditPage:
        chosen = [reached.platforms.known(options.platform)] if options.platform else list(reached.platforms)
        return await read_audit(reached.store, chosen, options.limit)

    page = ask(options, look)
    if options.json:
        print_json(page)
        return 0
    if not page.acts:
        console().print("no acts")
        return 0
    rows = Rows(("time", "by", "act", "on", "more"), whole=("on",), leaving=("more",))
    for act in page.acts:
        more = msgspec.json.encode(act.more).decode() if act.more else ""
        rows.add(act.time, plain(act.by or ""), plain(act.act), plain(act.job_id or act.platform), plain(more))
    rows.show()
    return 0
