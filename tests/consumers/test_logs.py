"""What a handler logs with the standard library is written, with its job; a failure is written with its traceback."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.deployment import Deployment
from tests.support.eventually import eventually

HANDLERS = """
import asyncio
import logging

import structlog

from tailrace.consumers import Attempt, GiveUp, Handlers, SyncAttempt

handles = Handlers()
log = logging.getLogger("shop")


def say(place):
    log.debug("too little to be said")
    log.info("price of %s", place, extra={"place": place})
    log.warning("bearer %s", "secret-of-the-shop")
    structlog.get_logger().info("own_line", place=place)
    logging.getLogger("httpx").info("chatter")
    logging.getLogger("asyncio").debug("chatter")


@handles("loop")
async def in_loop(attempt: Attempt[dict]) -> None:
    say("loop")
    await asyncio.gather(asyncio.to_thread(say, "loop-thread"), asyncio.create_task(later()))


async def later():
    say("loop-task")


def plain(attempt: SyncAttempt[dict]) -> None:
    say(attempt.job.kind)


handles("thread", run_in="thread")(plain)
handles("process", run_in="process")(plain)


@handles("fails")
async def fails(attempt: Attempt[dict]) -> None:
    raise GiveUp("nothing at redis://:hidden@h")


def fails_elsewhere(attempt: SyncAttempt[dict]) -> None:
    try:
        raise GiveUp("nothing at redis://:hidden@h")
    except GiveUp:
        log.exception("caught")
        raise


handles("fails-elsewhere", run_in="process")(fails_elsewhere)
"""

PLACES = {"loop": "loop", "loop-thread": "loop", "loop-task": "loop", "thread": "thread", "process": "process"}


async def test_what_a_handler_logs_is_written_with_its_job_wherever_it_runs(
    deployment: Deployment, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(HANDLERS)
    consumer = await deployment.consumer("research", TAILRACE_HANDLERS=str(tmp_path / "shop.py"))
    jobs = {kind: await deployment.submit("research", kind=kind) for kind in ("loop", "thread", "process")}
    failing = {kind: await deployment.submit("research", kind=kind) for kind in ("fails", "fails-elsewhere")}

    def lines() -> list[dict[str, Any]]:
        return [json.loads(line) for line in consumer.log.read_text().splitlines() if line.endswith("}")]

    async def are_written() -> bool:
        said = [line for line in lines() if str(line["event"]).startswith("price of ")]
        failed = [line for line in lines() if line["event"] == "attempt_failed"]
        return len(said) == len(PLACES) and len(failed) == len(failing)

    await eventually("all of it is written", are_written)
    for place, kind in PLACES.items():
        facts = {"job": jobs[kind], "attempt": 1, "platform": "research", "owner": consumer.owner}
        (said,) = [line for line in lines() if line["event"] == f"price of {place}"]
        assert said.items() >= {**facts, "level": "info", "logger": "shop", "place": place}.items()
        (own,) = [line for line in lines() if line["event"] == "own_line" and line["place"] == place]
        assert own.items() >= facts.items()
    for kind, job in failing.items():
        (failed,) = [line for line in lines() if line["event"] == "attempt_failed" and line["job"] == job]
        assert failed["exception"].startswith("Traceback (most recent call last)"), kind
        assert "GiveUp: nothing at redis://:***@h" in failed["exception"]
    (caught,) = [line for line in lines() if line["event"] == "caught"]
    assert "Traceback" in caught["exception"]
    assert caught["job"] == failing["fails-elsewhere"]
    everything = consumer.log.read_text()
    assert not [word for word in ("too little", "chatter", "hidden", "secret-of-the-shop") if word in everything]


async def test_the_level_holds_for_what_handlers_say(deployment: Deployment, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(HANDLERS)
    consumer = await deployment.consumer("research", TAILRACE_HANDLERS=str(tmp_path / "shop.py"), LOG_LEVEL="debug")
    job = await deployment.submit("research", kind="process")
    await deployment.ended(job)
    (debug,) = [line for line in consumer.log.read_text().splitlines() if "too little to be said" in line]
    assert job in debug
    assert "chatter" not in consumer.log.read_text()


def test_a_record_is_a_line_for_people_with_its_traceback() -> None:
    code = "import logging, tailrace.streams.process.logs as logs\n"
    code += "logs.configure_logs(); logs.about(job='research.a', attempt=2)\n"
    code += "try: 1 / 0\nexcept ZeroDivisionError: logging.getLogger('shop').exception('no %s', 'luck')"
    variables = {**os.environ, "LOG_FORMAT": "text", "LOG_LEVEL": "info"}
    ran = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    first, *trace = ran.stderr.splitlines()
    assert re.search(r"\[error +\] no luck +\[shop\] attempt=2 job=research.a$", first), ran.stderr
    assert trace[0] == "Traceback (most recent call last):"
    assert trace[-1] == "ZeroDivisionError: division by zero"


def test_a_log_that_cannot_be_written_ends_no_process() -> None:
    """As on a full disk: each write to this device fails so."""
    code = "import logging, structlog, tailrace.streams.process.logs as logs; logs.configure_logs()\n"
    code += (
        "structlog.get_logger().error('lost')\nlogging.getLogger('shop').error('lost')\nprint('alive', flush=True)\n"
    )
    code += "import os; os._exit(0)"
    with open("/dev/full", "w") as full:
        ran = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=full, text=True, check=True)
    assert ran.stdout == "alive\n"


def test_lines_are_for_people_on_a_terminal_and_json_elsewhere() -> None:
    names = "configure_logs, get_logger"
    program = f"from tailrace.streams.process.logs import {names}; configure_logs(); get_logger().info('up')"
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("LOG_", "SERVICE_"))}
    piped = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=True)
    assert json.loads(piped.stderr)["event"] == "up"
    ours, terminal = pty.openpty()
    subprocess.run([sys.executable, "-c", program], env=variables, stderr=terminal, check=True)
    os.close(terminal)
    said = os.read(ours, 4096).decode()
    os.close(ours)
    assert "up" in said
    assert not said.startswith("{")
