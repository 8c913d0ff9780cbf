"""How many histories of 50 events a gateway serves: `python tests/bench/history.py`, beside a bare ASGI answer.

Needs `wrk`. The bare answer is uvicorn with httptools and a few bytes: what this machine gives at best right now.
"""

import argparse
import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tailrace.ops.up.own_store import OwnStore, free_port
from tailrace.streams.store.connection import Store
from tests.gateway.gateways import CHECKOUT, GatewayProcess, wait_for_answer
from tests.support.builders import Desk

EVENTS = 50

HELLO = """
import sys, uvicorn
async def hello(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"hello"})
uvicorn.run(hello, port=int(sys.argv[1]), loop="uvloop", http="httptools", log_level="error", lifespan="off", ws="none")
"""


@contextmanager
def hello() -> Iterator[str]:
    port = free_port(0)
    process = subprocess.Popen([sys.executable, "-c", HELLO, str(port)], cwd=CHECKOUT, text=True)
    try:
        wait_for_answer(f"http://127.0.0.1:{port}", process)
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.kill()
        process.wait()


async def prepare(url: str) -> None:
    """A job that runs and one that has ended, both with 50 events."""
    async with Store(url) as store:
        desk = Desk(store, "research")
        for key, ends in (("live", False), ("ended", True)):
            held = await desk.start(key)
            reports = EVENTS - (3 if ends else 2)  # queued, started and perhaps the end are events too
            await desk.transitions.commit(desk.keys, [desk.reporting(held, number + 1) for number in range(reports)])
            if ends:
                await desk.complete(held)


def requests_per_second(url: str, seconds: int) -> float:
    said = subprocess.run(
        ["wrk", "-c", "32", "-t", "1", "-d", str(seconds), url], capture_output=True, text=True, check=True
    ).stdout
    assert "Non-2xx" not in said, said
    found = re.search(r"Requests/sec:\s+([0-9.]+)", said)
    assert found, said
    return float(found[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=3, help="for each figure")
    options = parser.parse_args()
    if not shutil.which("wrk"):
        sys.exit("install wrk first: apt-get install wrk")
    with tempfile.TemporaryDirectory() as folder, OwnStore(Path(folder)) as own:
        asyncio.run(prepare(own.url))
        with GatewayProcess(own.url, {"LOG_LEVEL": "error"}) as gateway, hello() as bare:
            history = f"{gateway.url}/research/history/research."
            rates = {"bare": 0.0}
            for name, url in (
                ("bare", bare),
                ("live", history + "live"),
                ("ended", history + "ended"),
                ("ended, a page", history + "ended?limit=50"),
            ):
                rates[name] = requests_per_second(url, options.seconds)
                share = rates[name] / rates["bare"]
                sys.stdout.write(f"{name:15} {rates[name]:9,.0f} requests/s  {share:5.0%} of bare\n")


if __name__ == "__main__":
    main()
