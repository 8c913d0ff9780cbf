"""scan: walk the products of a shop and say how far it is after each."""

from typing import Any

import anyio
from msgspec import UNSET

from tailrace.consumers.attempt import Attempt
from tailrace.consumers.registry import Handlers
from tailrace.producers.kinds import Scan

handles = Handlers()

SAMPLE = ["page-1", "page-2", "page-3"]  # walked when no products are named
PAUSE_SECONDS = 0.2  # how long one product takes here


@handles("scan")
async def scan(attempt: Attempt[Scan]) -> dict[str, Any]:
    named = attempt.args.params.product_ids
    products = SAMPLE if named is UNSET else named

    async def look(numbered: tuple[int, str | int]) -> None:
        number, product = numbered
        await anyio.sleep(PAUSE_SECONDS)
        await attempt.progress(number, of=len(products), message=f"scanned {product}")

    walked = await attempt.each(enumerate(products, start=1), look)
    return {"workflow_id": attempt.args.workflow_id, "scanned": walked.done}
