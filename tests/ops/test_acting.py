"""The commands that act and look: what they print, the codes they end with, and that a wrong line changes nothing."""

import asyncio
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
import redis

from tailrace.ops.bootstrap import CHECKOUT
from tailrace.streams.operations import Again
from tailrace.streams.store.connection import Store
from tailrace.streams.views.presence import Presence
from tests.ops.commands import Here, environment, tailrace
from tests.support.builders import Desk
from tests.support.deployment import Deployment
from tests.support.flowing import spawn, wait, waiting_parent

T = TypeVar("T")

Scene = Callable[[Callable[[Desk], Awaitable[T]]], T]


@pytest.fixture
def scene(valkey_url: str) -> Scene[Any]:
    """Move jobs on the platform `research` by hand."""

    def play(act: Callable[[Desk], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            async with Store(valkey_url) as store:
                return await act(Desk(store, "research"))

        return asyncio.run(run())

    return play


@pytest.fixture
def size(valkey_url: str) -> Iterator[Callable[[], int]]:
    with redis.Redis.from_url(valkey_url) as client:
        yield lambda: int(client.dbsize())


async def fail_three(desk: Desk) -> None:
    for key in ("a", "b", "c"):
        await desk.fail(await desk.start(key), f"bad {key}")


def test_a_waiting_job_is_cancelled(scene: Scene[Any], here: Here, valkey_url: str) -> None:
    scene(lambda desk: desk.submit("a"))
    for _ in range(2):
        assert here("cancel", "research.a", "--reason", "not now", "--by", "ann", REDIS_URL=valkey_url) == (
            0,
            "research.a cancelled\n",
            "",
        )
    last = scene(lambda desk: desk.history("a"))[-1]
    assert (last.status, last.by, last.reason) == ("cancelled", "ann", "not now")
    _, out, _ = here("show", "research.a", "--json", REDIS_URL=valkey_url)
    assert json.loads(out)["cancelled"] == {"by": "ann", "reason": "not now"}


def test_a_running_job_is_asked_to_stop(scene: Scene[Any], here: Here, valkey_url: str) -> None:
    scene(lambda desk: desk.start("a"))
    code, out, _ = here("cancel", "research.a", REDIS_URL=valkey_url)
    assert code == 0
    assert out.startswith("research.a runs and is asked to stop; `python3 -m ops follow research.a`")
    code, out, _ = here("cancel", "research.a", "--json", REDIS_URL=valkey_url)
    assert (code, json.loads(out)) == (0, {"jobId": "research.a", "status": "cancelling"})
    _, out, _ = here("show", "research.a", "--json", REDIS_URL=valkey_url)
    assert json.loads(out)["cancelling"]["by"]


def test_a_failed_job_is_retried_and_dropped(scene: Scene[Any], here: Here, valkey_url: str) -> None:
    scene(fail_three)
    assert here("retry", "research.a", REDIS_URL=valkey_url) == (0, "research.a waits again\n", "")
    assert scene(lambda desk: desk.story("a"))[-1] == "reopened 1"
    assert json.loads(here("retry", "research.c", "--json", REDIS_URL=valkey_url)[1]) == {
        "jobId": "research.c",
        "status": "waiting",
        "failedChild": None,
    }
    assert here("drop", "research.b", REDIS_URL=valkey_url) == (0, "research.b dropped\n", "")
    assert here("show", "research.b", REDIS_URL=valkey_url)[0] == 1


async def fail_by_child(desk: Desk) -> None:
    await waiting_parent(desk, "research.b")
    (child,) = await desk.claim()
    await desk.fail(child)
    (parent,) = await desk.claim()
    error = b',"error":{"type":"ChildFailed","message":"m","child":"research.b"}'
    await desk.transitions.fail(desk.keys, "a", parent.nonce, Again(0, 0, 100), error)


def test_to_retry_a_job_that_failed_by_a_child_names_that_one(scene: Scene[Any], here: Here, valkey_url: str) -> None:
    scene(fail_by_child)
    code, out, _ = here("retry", "research.a", REDIS_URL=valkey_url)
    said = "research.a waits again, but research.b below it has failed; `python3 -m ops retry research.b` runs that one"
    assert (code, out) == (0, f"{said}, and brings research.a back by itself\n")


REFUSED = [
    ("cancel", "completed", "job research.a has ended: it is completed, and there is nothing left to cancel"),
    ("retry", "waiting", "job research.a has not ended: it is waiting, and only a failed or a cancelled job"),
    ("retry", "completed", "job research.a has ended: it is completed, and only a failed or a cancelled job"),
    ("drop", "running", "job research.a has not ended: it is running, and only a failed or a cancelled job"),
]


@pytest.mark.parametrize(("command", "state", "sentence"), REFUSED)
def test_a_job_in_another_state_is_left_alone_and_the_state_is_named(
    scene: Scene[Any], here: Here, valkey_url: str, command: str, state: str, sentence: str
) -> None:
    async def bring(desk: Desk) -> None:
        await desk.submit("a")
        if state != "waiting":
            (held,) = await desk.claim()
            if state == "completed":
                await desk.complete(held)

    scene(bring)
    code, out, err = here(command, "research.a", REDIS_URL=valkey_url)
    assert (code, out) == (1, "")
    assert err.startswith(f"tailrace: {sentence}")
    assert "`python3 -m ops show research.a`" in err
    assert (
        "`python3 -m ops show research.a --data /else`"
        in here(command, "research.a", "--data", "/else", REDIS_URL=valkey_url)[2]
    )


@pytest.mark.parametrize("command", ["cancel", "retry", "drop"])
def test_an_unknown_job_and_a_malformed_id_are_told_apart(
    here: Here, valkey_url: str, size: Callable[[], int], command: str
) -> None:
    assert here(command, "research.none", REDIS_URL=valkey_url) == (
        1,
        "",
        "tailrace: there is no job research.none, or it is no longer kept\n",
    )
    code, _, err = here(command, "../x", REDIS_URL=valkey_url)
    assert code == 2
    assert err.startswith("tailrace: JOB: must be <platform>.<key>")
    assert size() == 0


def test_dead_letters_are_listed_by_kind_and_error(scene: Scene[Any], here: Here, valkey_url: str) -> None:
    code, out, _ = here("dead", REDIS_URL=valkey_url)
    assert (code, out) == (0, "0 failed\n")
    scene(fail_three)
    for words in (["dead"], ["dead", "research"], ["dead", "--kind", "drill", "--error", "ValueError"]):
        code, out, _ = here(*words, REDIS_URL=valkey_url)
        lines = out.splitlines()
        assert (code, lines[-1]) == (0, "3 failed")
        assert [line.split()[0] for line in lines[1:4]] == ["research.c", "research.b", "research.a"]
        assert "ValueError" in lines[1]
        assert "bad c" in lines[1]
    for words in (["dead", "kurly"], ["dead", "--kind", "scan"], ["dead", "--error", "KeyError"]):
        assert here(*words, REDIS_URL=valkey_url)[1] == "0 failed\n"
    _, out, _ = here("dead", "--json", "--limit", "1", REDIS_URL=valkey_url)
    (job,) = json.loads(out)
    assert (job["jobId"], job["error"]) == ("research.c", {"type": "ValueError", "message": "bad c"})
    assert here("dead", "--limit", "2", REDIS_URL=valkey_url)[1].endswith("2 failed, and perhaps more: see --limit\n")


def test_a_replay_needs_a_yes_where_nobody_can_be_asked(scene: Scene[Any], here: Here, valkey_url: str) -> None:
    scene(fail_three)
    refused = tailrace("replay", "research", REDIS_URL=valkey_url)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--yes: is required" in refused.stderr
    assert "run 3 failed jobs of research again" in refused.stderr
    words = ["replay", "research", "--error", "ValueError", "--limit", "2", "--yes"]
    assert here(*words, REDIS_URL=valkey_url)[:2] == (0, "2 replayed, 1 left\n")
    _, out, _ = here("replay", "research", "--yes", "--json", REDIS_URL=valkey_url)
    assert json.loads(out) == {"replayed": 1, "left": 0}
    nothing = here("replay", "research", REDIS_URL=valkey_url)
    assert nothing[:2] == (0, "0 replayed, 0 left\n"), "nothing to ask about"
    assert [held.key for held in scene(lambda desk: desk.claim("ann", 9))] == ["a", "b", "c"]


@pytest.mark.parametrize(("answer", "code", "printed"), [("y\n", 0, "3 replayed, 0 left\n"), ("\n", 1, "")])
def test_a_person_is_asked_before_a_replay(
    scene: Scene[Any], valkey_url: str, answer: str, code: int, printed: str
) -> None:
    scene(fail_three)
    keyboard, terminal = pty.openpty()
    os.write(keyboard, answer.encode())
    command = [sys.executable, "-m", "ops", "replay", "research"]
    result = subprocess.run(
        command,
        cwd=CHECKOUT,
        env=environment(REDIS_URL=valkey_url),
        stdin=terminal,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(keyboard)
    os.close(terminal)
    assert (result.returncode, result.stdout) == (code, printed)
    assert "run 3 failed jobs of research again? [y/N]" in result.stderr


def test_a_platform_is_paused_and_resumed(scene: Scene[Any], here: Here, valkey_url: str) -> None:
    scene(lambda desk: desk.submit("a"))
    code, out, _ = here("pause", "research", "--by", "ann", REDIS_URL=valkey_url)
    assert (code, out) == (0, "research paused; `python3 -m ops resume research` lets it go on\n")
    assert "was paused already, by ann at 2" in here("pause", "research", REDIS_URL=valkey_url)[1]
    assert scene(lambda desk: desk.claim()) == []
    assert re.search(r"paused by ann, \d+(\.\d)? s ago", here("platforms", REDIS_URL=valkey_url)[1])
    assert here("resume", "research", REDIS_URL=valkey_url)[:2] == (0, "research goes on\n")
    assert here("resume", "research", REDIS_URL=valkey_url)[:2] == (0, "research was not paused\n")
    assert len(scene(lambda desk: desk.claim())) == 1


def test_platforms_are_listed_with_their_counts(
    scene: Scene[Any], here: Here, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How long it waits for a beat that does not come.
    monkeypatch.setattr("tailrace.ops.cli.platforms.Presence", partial(Presence, patience_seconds=0.3))

    async def bring(desk: Desk) -> None:
        await desk.submit("later", delay_seconds=600)
        await fail_three(desk)
        await desk.start("busy")
        await desk.submit("next", "last")

    scene(bring)
    code, out, _ = here("platforms", REDIS_URL=valkey_url)
    assert code == 0
    (line,) = (line.split() for line in out.splitlines() if line.startswith("research"))
    assert line[:8] == ["research", "2", "1", "1", "0", "0", "3", "0"]
    told = {each["platform"]: each for each in json.loads(here("platforms", "--json", REDIS_URL=valkey_url)[1])}
    assert (told["research"]["waiting"], told["research"]["consumers"]) == (2, [])
    assert told["kurly"]["waiting"] == 0


async def test_workers_are_listed_and_restarted(deployment: Deployment, here: Here) -> None:
    consumer = await deployment.consumer("research")
    job = await deployment.submit("research", steps=3, seconds=0.5)
    await deployment.started(job)
    printed = tailrace("workers", REDIS_URL=deployment.url).stdout
    assert consumer.owner in printed
    assert "alive" in printed
    (told,) = json.loads((await here.beside("workers", "--json", REDIS_URL=deployment.url))[1])
    assert (told["owner"], told["platforms"], told["alive"]) == (consumer.owner, ["research"], True)
    result = tailrace("restart", "research", REDIS_URL=deployment.url)
    assert result.returncode == 0
    assert f"asked to drain and start again: {consumer.owner};" in result.stdout
    assert await consumer.ended() == 75
    assert (await deployment.ended(job))[-1].status == "completed"
    code, _, err = await here.beside("restart", "research", REDIS_URL=deployment.url)
    assert code == 1
    assert "python3 -m ops consume research" in err
    code, out, err = await here.beside("workers", REDIS_URL=deployment.url)
    assert (code, out) == (0, "")
    assert "python3 -m ops up" in err


async def test_the_flags_of_submit_become_the_options_of_the_job(deployment: Deployment, here: Here) -> None:
    words = ["submit", "research", "drill", "--id", "k", "--delay", "600", "--attempts", "7", "--timeout", "1.5"]
    words += ["--order-key", "cart:7", "--limit-key", "shop/1", "--dedupe", "d@1", "--keep", "60", "--priority", "low"]
    words += ["--expires-at", "2099-01-01T00:00:00Z"]
    assert tailrace(*words, REDIS_URL=deployment.url).stdout == "research.k\n"
    shown = json.loads((await here.beside("show", "research.k", "--json", REDIS_URL=deployment.url))[1])
    assert (shown["state"], shown["priority"], shown["options"]) == (
        "delayed",
        "low",
        {"attempts": 7, "timeout_seconds": 1.5},
    )
    assert (shown["orderKey"], shown["limitKey"], shown["dedupeKey"]) == ("cart:7", "shop/1", "d@1")
    assert shown["runAt"] < shown["expiresAt"] == "2099-01-01T00:00:00.000Z"
    assert (await deployment.record("research.k")).marks == "order=cart:7 limit=shop/1 keep=60 dedupe=d@1"
    code, out, err = await here.beside("submit", "research", "drill", "--dedupe", "d@1", REDIS_URL=deployment.url)
    assert (code, out) == (0, "research.k\n")
    assert "has the dedupe key d@1 already" in err
    await here.beside("submit", "kurly", "drill", "--id", "one", REDIS_URL=deployment.url)
    await here.beside("submit", "kurly", "drill", "--id", "two", "--first", REDIS_URL=deployment.url)
    assert [held.key for held in await Desk(deployment.store, "kurly").claim()] == ["two"]


WRONG: dict[str, tuple[list[str], str]] = {
    "a negative delay": (["submit", "research", "own", "--delay", "-1"], "--delay: "),
    "a delay that is no number": (["submit", "research", "own", "--delay", "nan"], "--delay: "),
    "no time": (["submit", "research", "own", "--run-at", "tomorrow"], "--run-at: "),
    "two times": (["submit", "research", "own", "--delay", "5", "--run-at", "2099-01-01T00:00:00Z"], "--run-at: "),
    "a time without its offset": (["submit", "research", "own", "--expires-at", "2099-01-01"], "--expires-at: "),
    "no attempts": (["submit", "research", "own", "--attempts", "0"], "--attempts: "),
    "a negative timeout": (["submit", "research", "own", "--timeout", "-1"], "--timeout: "),
    "an order key with a space": (["submit", "research", "own", "--order-key", "a b"], "--order-key: "),
    "an empty limit key": (["submit", "research", "own", "--limit-key", ""], "--limit-key: "),
    "first and later": (["submit", "research", "own", "--first", "--delay", "5"], "--first: "),
    "an endless keep": (["submit", "research", "own", "--keep", "inf"], "--keep: "),
    "a dedupe key with braces": (["submit", "research", "own", "--dedupe", "{x}"], "--dedupe: "),
    "a dedupe mode without a key": (["submit", "research", "own", "--dedupe-mode", "throttle"], "--dedupe: "),
    "an unknown dedupe mode": (["submit", "research", "own", "--dedupe", "x", "--dedupe-mode", "y"], "--dedupe-mode: "),
    "throttle without a time": (
        ["submit", "research", "own", "--dedupe", "x", "--dedupe-mode", "throttle"],
        "--dedupe-ttl: ",
    ),
    "an undeclared platform": (["pause", "coupang"], "platform: 'coupang' is not declared; known are oliveyoung"),
    "an undeclared platform to restart": (["restart", "coupang"], "platform: 'coupang' is not declared"),
    "an undeclared platform of the dead": (["dead", "coupang"], "platform: 'coupang' is not declared"),
    "an undeclared platform to replay": (["replay", "coupang", "--yes"], "platform: 'coupang' is not declared"),
    "a kind with a space": (["dead", "--kind", "a b"], "--kind: "),
    "an empty error": (["replay", "research", "--yes", "--error", ""], "--error: "),
    "a limit of 0": (["replay", "research", "--yes", "--limit", "0"], "--limit: "),
    "a long reason": (["cancel", "research.a", "--reason", "x" * 301], "--reason: "),
    "nobody": (["pause", "research", "--by", ""], "--by: "),
}


@pytest.mark.parametrize(("words", "sentence"), WRONG.values(), ids=WRONG)
def test_a_wrong_word_is_named_and_nothing_changes(
    here: Here, valkey_url: str, size: Callable[[], int], words: list[str], sentence: str
) -> None:
    code, out, err = here(*words, REDIS_URL=valkey_url)
    assert (code, out) == (2, "")
    assert err.startswith(f"tailrace: {sentence}")
    assert size() == 0


COMMANDS = [
    ["cancel", "research.a"],
    ["retry", "research.a"],
    ["drop", "research.a"],
    ["dead"],
    ["replay", "research", "--yes"],
    ["pause", "research"],
    ["resume", "research"],
    ["restart", "research"],
    ["workers"],
    ["platforms"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_without_a_store_every_command_says_how_to_start_one(command: list[str], tmp_path: Path, here: Here) -> None:
    code, out, err = here(*command, "--data", str(tmp_path))
    assert (code, out) == (69, "")
    assert "python3 -m ops up" in err


async def awaiting(desk: Desk) -> None:
    held = await desk.start("a")
    await spawn(desk, held, "research.b", "kurly.c")
    await wait(desk, held, "signal", "~1", name="approval")


def test_a_signal_is_sent_and_the_tree_is_shown(scene: Scene[Any], here: Here, valkey_url: str) -> None:
    scene(awaiting)
    ended, told, _ = here("flow", "research.a", REDIS_URL=valkey_url)
    assert (ended, told.splitlines()) == (
        0,
        ["research.a  awaiting  drill", "  kurly.c  waiting", "  research.b  waiting  drill"],
    )
    _, told, _ = here("flow", "research.a", "--json", REDIS_URL=valkey_url)
    assert [child["jobId"] for child in json.loads(told)["children"]] == ["kurly.c", "research.b"]
    send = ("signal", "research.a", "approval", '{"ok":true}')
    assert here(*send, REDIS_URL=valkey_url) == (0, "research.a awaited approval and goes on\n", "")
    assert here(*send, "--json", REDIS_URL=valkey_url)[1] == (
        '{"jobId":"research.a","signal":"approval","status":"again"}\n'
    )
    assert here("signal", "research.a", "no spaces", REDIS_URL=valkey_url)[0] != 0
    assert here("signal", "research.a", "approval", "{", REDIS_URL=valkey_url)[2].startswith(
        "tailrace: DATA: is not JSON"
    )
