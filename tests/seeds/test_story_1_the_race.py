"""Story 1: a research job of 10 s, leases of 5 s, two workers. One attempt, each step once.

The seed looked every 3 s; at most a third of the deadline is allowed here, because a rarer look could misjudge.
"""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Callable
from typing import NoReturn

from tests.support.deployment import Deployment
from tests.support.processes import Pace

SEED = Pace(deadline=5.0, beat=1.0, reap=1.5)

CLIENT = """
set -eu
job=$(curl -sS -X POST "$API_URL/research/start" -H 'Content-Type: application/json' \\
  -d '{"query": "What is a tailrace?"}' | grep -o '"jobId":"[^"]*"' | cut -d '"' -f 4)
curl -sSN --max-time 40 "$API_URL/research/stream/$job" >&2
curl -sS "$API_URL/research/history/$job" | "$PYTHON" -m json.tool
"""
"""The seed's own client. Where it slept for 15 s, this one listens to the stream, which ends with the job."""


async def test_the_seeds_shell_client_sees_each_step_once(
    deployment: Deployment, leave_out: Callable[[str], NoReturn]
) -> None:
    if not shutil.which("curl"):
        leave_out("there is no curl on this machine")
    gateway, _ = await asyncio.gather(deployment.gateway(), deployment.consumers(2, "research", pace=SEED))
    client = await asyncio.create_subprocess_exec(
        "sh",
        "-c",
        CLIENT,
        env={"API_URL": gateway.url, "PYTHON": sys.executable, "PATH": os.environ["PATH"]},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, stream = await client.communicate()
    assert client.returncode == 0, stream.decode()
    history = json.loads(said)
    assert [event["step"] or event["status"] for event in history] == [
        *("queued", "started", 1, 2, 3, 4, 5, "completed")
    ]
    assert {event["attempt"] for event in history[1:]} == {1}
    assert {event["workerId"] for event in history[1:]} == {history[1]["workerId"]}
    assert all(event["time"].endswith("Z") for event in history)
    live = [json.loads(line[6:]) for line in stream.decode().splitlines() if line.startswith('data: {"')]
    assert live == history
