"""`--watch`, `drill` and `worker-control.sh`: an operator looks and tries."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from typing import Any

from tailrace.ops.bootstrap import CHECKOUT
from tests.ops.commands import Here, environment
from tests.support.deployment import Deployment
from tests.support.processes import GatewayProcess


def start(told: dict[str, str], *words: str, **ends: Any) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", "ops", *words], cwd=CHECKOUT, env=told, **ends)


def until(fd: int, wanted: bytes, times: int) -> bytes:
    """What a terminal shows until these bytes were there so often."""
    seen, patience = b"", time.monotonic() + 20
    while seen.count(wanted) < times:
        assert time.monotonic() < patience, seen
        if select.select([fd], [], [], 0.2)[0]:
            seen += os.read(fd, 65536)
    return seen


async def test_a_table_is_drawn_again_until_ctrl_c(standing: Deployment) -> None:
    ours, theirs = pty.openpty()
    told = {**environment(REDIS_URL=standing.url), "TERM": "xterm", "COLUMNS": "100"}
    process = start(told, "platforms", "--watch", stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        seen = until(ours, b"\x1b[H\x1b[2J", 2)
        assert seen.count(b"kurly") >= 1
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


async def test_for_machines_each_look_is_a_line(standing: Deployment) -> None:
    told = environment(REDIS_URL=standing.url)
    with start(told, "running", "--watch", "--json", stdout=subprocess.PIPE) as process:
        assert process.stdout
        looks = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
    assert [look["success"] for look in looks] == [True, True]


async def test_a_drill_tells_which_platforms_work(standing: Deployment, here: Here) -> None:
    code, printed, said = await here.beside("drill", "research", "kurly", "--json", REDIS_URL=standing.url)
    assert code == 0, said
    found = json.loads(printed)
    assert [(each["platform"], each["status"]) for each in found] == [("research", "completed"), ("kurly", "completed")]
    assert all(each["worker"] and each["seconds"] < 10 for each in found)
    words = ("drill", "research", "ably", "--seconds", "1")
    code, printed, said = await here.beside(*words, REDIS_URL=standing.url)
    assert code == 1
    assert "not done within 1 s: ably;" in said
    assert [line.split()[:2] for line in printed.splitlines()[1:]] == [["research", "completed"], ["ably", "waiting"]]
    code, _, said = await here.beside("drill", "nowhere", REDIS_URL=standing.url)
    assert (code, "nowhere" in said) == (2, True)


def control(*words: str, url: str) -> subprocess.CompletedProcess[str]:
    script = CHECKOUT / "ops" / "worker-control.sh"
    return subprocess.run([script, *words], env=environment(API_URL=url), capture_output=True, text=True, check=False)


async def test_worker_control_looks_and_acts(gateway: GatewayProcess) -> None:
    url = gateway.url
    assert "workers" in json.loads(control("status", url=url).stdout)["data"]
    assert json.loads(control("pause", "hwahae", url=url).stdout)["paused"] is True
    assert json.loads(control("resume", "hwahae", url=url).stdout)["paused"] is False
    for words, code in ((("pause",), 2), (("stop", "hwahae"), 2), (("pause", "a/b"), 2), (("pause", "nowhere"), 1)):
        done = control(*words, url=url)
        assert (done.returncode, done.stderr.startswith("worker-control: ")) == (code, True), words
    assert control("status", url="http://127.0.0.1:1").returncode == 1
