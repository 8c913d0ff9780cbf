"""`up`: everything from one command, and nothing left of it."""

import http.client
import json
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

from tailrace.ops.race.violations import violations
from tailrace.ops.up.own_store import OwnStore
from tailrace.ops.up.up import metrics_ports
from tailrace.streams.errors import BadConfiguration
from tailrace.streams.history.events import expand
from tailrace.streams.keys import PlatformKeys, split_id
from tailrace.streams.process.data_folder import find_running
from tests.ops.commands import Here, tailrace
from tests.ops.endings import is_running, seconds_until_gone
from tests.ops.up_process import Up


@pytest.fixture
def run_up(tmp_path: Path) -> Iterator[Callable[..., Up]]:
    """Start `up` on a data folder of this test and wait until it says that it is ready."""
    started: list[Up] = []

    def run(platforms: str = "research", **variables: str) -> Up:
        up = Up(tmp_path / "data", platforms, **variables)
        started.append(up)
        up.wait_until_ready()
        return up

    yield run
    for up in started:
        up.clean_up()


@pytest.fixture(scope="module")
def steady_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One `up` for all tests that leave it running."""
    up = Up(tmp_path_factory.mktemp("up") / "data")
    try:
        up.wait_until_ready()
        yield up
    finally:
        up.clean_up()


def running(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [process for process in processes if is_running(process.pid)]


def pending_signals(process: psutil.Process) -> set[int]:
    """The signals that were sent to a process and not heard yet."""
    (mask,) = re.findall(r"^ShdPnd:\s*(\w+)$", Path(f"/proc/{process.pid}/status").read_text(), re.MULTILINE)
    return {number for number in range(1, 65) if int(mask, 16) >> (number - 1) & 1} - {signal.SIGCHLD}


def stored(url: str, job: str) -> list[dict[str, Any]]:
    """What a store holds of a job."""
    platform, key = split_id(job)
    with redis.Redis.from_url(url) as client:
        return [json.loads(expand(job, kept)) for kept in client.lrange(PlatformKeys(platform).log(key), 0, -1)]


def test_a_job_is_done_ctrl_c_leaves_no_process_and_the_next_up_knows_the_job(run_up: Callable[..., Up]) -> None:
    up = run_up("research,hwahae")
    assert f"http://127.0.0.1:{up.port}/research/start" in up.said()
    assert "platforms  hwahae, research\n" in up.said()
    assert f" --follow --data {up.data}\n" in up.said(), "as it must be typed in another terminal"
    job = up.submit(steps=2, seconds=0.05)
    history = up.wait_for(job, "completed")
    children = up.children()
    assert len(children) >= 7, "a store, a gateway, two consumers and their hearts"
    up.interrupt()
    assert up.ended() == 0
    assert running(children) == []
    assert run_up().history(job) == history


def kill_with_a_child_frozen(up: Up) -> list[int]:
    """kill -9 of an `up`; the processes that it leaves."""
    frozen = up.wait_for_consumer("hwahae")
    os.killpg(frozen.pid, signal.SIGSTOP)
    up.wait_for_consumer("research")
    children = [child.pid for child in up.children()]
    up.process.kill()
    up.process.wait()
    return children


def test_every_child_ends_after_kill_9_even_one_that_is_frozen(run_up: Callable[..., Up]) -> None:
    seconds_until_gone(kill_with_a_child_frozen(run_up("research,hwahae")))


@pytest.mark.chaos
def test_every_child_is_gone_two_seconds_after_kill_9_even_one_that_is_frozen(run_up: Callable[..., Up]) -> None:
    assert seconds_until_gone(kill_with_a_child_frozen(run_up("research,hwahae"))) < 2


def kill_consumer_in_a_job(up: Up) -> tuple[psutil.Process, float, list[dict[str, Any]]]:
    """The killed one, the seconds from its end to the second attempt by the store's clock, and the whole history."""
    consumer = up.wait_for_consumer("research")
    job = up.submit(steps=2, seconds=1)
    up.wait_for(job, "progress")
    consumer.kill()
    killed = time.time()
    history = up.wait_for(job, "completed")
    again = next(event for event in history if event["attempt"] == 2)
    return consumer, datetime.fromisoformat(again["time"]).timestamp() - killed, history


def test_a_killed_consumer_comes_back_and_its_job_is_done_by_the_second_attempt(steady_up: Up) -> None:
    up = steady_up
    consumer, seconds, history = kill_consumer_in_a_job(up)
    assert seconds > 1.5 - 0.3, "a deadline after the last beat at the earliest"
    assert violations(history) == []
    assert (history[-1]["attempt"], history[-1]["workerId"]) != (2, history[1]["workerId"])
    assert f"consumer-research (process {consumer.pid}) was killed by SIGKILL; another starts in 0.1 s" in up.said()


@pytest.mark.chaos
def test_a_job_of_a_killed_consumer_is_taken_over_in_time(steady_up: Up) -> None:
    _, seconds, _ = kill_consumer_in_a_job(steady_up)
    assert seconds < 1.5 + 2 * 0.3 + 1 + 1, "a deadline, two looks, a second, and one for the start of a process"


def test_a_killed_store_and_a_killed_gateway_come_back_with_the_job_still_running(steady_up: Up) -> None:
    up = steady_up
    up.wait_for_consumer("research")
    job = up.submit(steps=4, seconds=0.5)
    up.wait_for(job, "progress")
    servers = [c for c in up.children() if c.name().endswith("-server") or c.cmdline()[-1] == "tailrace.gateway"]
    assert len(servers) == 2
    for server in servers:
        server.kill()

    def completed() -> bool:
        try:
            return bool(up.history(job)[-1]["status"] == "completed")
        except (OSError, http.client.HTTPException, LookupError):
            return False

    up.wait_until("completed", completed)
    assert [event["attempt"] for event in up.history(job)] == [None, 1, 1, 1, 1, 1, 1]


def test_a_second_ctrl_c_hands_a_running_job_back_at_once(run_up: Callable[..., Up]) -> None:
    up = run_up(TAILRACE_GRACE_SECONDS="600")
    up.wait_for_consumer("research")
    job = up.submit(steps=600, seconds=1)
    up.wait_for(job, "started")
    children = up.children()
    up.interrupt()
    log = up.data / "logs" / "consumer-research.log"
    up.wait_until("its consumer drains", lambda: "draining" in log.read_text())  # two signals not heard yet are one
    up.interrupt()
    assert up.ended() == 0
    assert running(children) == []
    with OwnStore(up.data) as store:
        last = stored(store.url, job)[-1]
    assert (last["status"], last["reason"]) == ("superseded", "released")


def test_a_busy_consumer_hears_both_of_two_quick_signals_and_hands_its_job_back(run_up: Callable[..., Up]) -> None:
    up = run_up()
    consumer = up.wait_for_consumer("research")
    job = up.submit(steps=60, seconds=1)
    up.wait_for(job, "started")
    consumer.suspend()  # as busy as can be: it hears nothing
    up.wait_until("it is stopped", lambda: consumer.status() == psutil.STATUS_STOPPED)
    up.process.terminate()
    up.wait_until("its first signal is passed on", lambda: pending_signals(consumer) >= {signal.SIGTERM})
    up.process.terminate()
    up.wait_until("its second signal is passed on", lambda: len(pending_signals(consumer)) == 2)
    consumer.resume()
    assert up.ended() == 0
    with OwnStore(up.data) as store:
        last = stored(store.url, job)[-1]
    assert (last["status"], last["reason"]) == ("superseded", "released")


def test_a_second_up_on_the_same_folder_is_refused_and_the_first_goes_on(steady_up: Up) -> None:
    second = tailrace("up", "--data", str(steady_up.data), "--port", "0")
    assert second.returncode == 78
    assert f"in use by process {steady_up.process.pid}" in second.stderr
    assert steady_up.call("GET", "/readyz")["status"] == "ready"


def test_a_material_is_processed_with_nothing_configured(steady_up: Up) -> None:
    asked = {"platform": "research", "kind": "process-material", "args": {"materialId": "m1"}}
    done = steady_up.wait_for(steady_up.call("POST", "/api/jobs", asked)["jobId"], "completed")[-1]["result"]
    assert (done["status"], done["sample"], done["stored"]) == ("ready", True, True)
    assert len(list((steady_up.data / "materials" / "processed").iterdir())) == 1


def test_commands_find_the_store_of_a_running_up_and_no_argument_tells_where_it_is(steady_up: Up) -> None:
    assert tailrace("running", "--data", str(steady_up.data)).returncode == 0
    roles = [
        child.cmdline()
        for child in steady_up.children()
        if {"tailrace.gateway", "tailrace.consumers"} & {*child.cmdline()}
    ]
    assert roles
    assert not [argument for cmdline in roles for argument in cmdline if "redis" in argument]


SHADOWS = {
    **{f"{name}.py": "raise RuntimeError('shadowed')\n" for name in ("gateway", "streams", "json", "redis")},
    "ops/__init__.py": "raise RuntimeError('shadowed')\n",
    "shop/__init__.py": "",
    "shop/prices.py": "PRICE = 7\n",
    "consumers.py": """\
from tailrace.consumers import Attempt, Handlers, SyncAttempt
from shop.prices import PRICE

handles = Handlers()


@handles("price")
async def price(attempt: Attempt[dict]) -> int:
    return PRICE


@handles("other-price", run_in="process")
def other_price(attempt: SyncAttempt[dict]) -> int:
    import json

    return json.loads(str(PRICE))
""",
}


@pytest.mark.parametrize("handlers", ["./consumers.py", "shop.handlers"])
def test_nothing_in_the_working_directory_takes_the_place_of_our_modules(
    handlers: str, valkey_url: str, tmp_path: Path, run_up: Callable[..., Up]
) -> None:
    for name, text in {**SHADOWS, "shop/handlers.py": SHADOWS["consumers.py"]}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    up = run_up(cwd=str(tmp_path), TAILRACE_HANDLERS=handlers, REDIS_URL=valkey_url)
    up.wait_until_ready()
    assert f"submit research price ARGS --follow --data {up.data}\n" in up.said(), "a kind of the user's is suggested"
    for kind in ("price", "other-price"):
        job = up.call("POST", "/api/jobs", {"platform": "research", "kind": kind, "args": {}})["jobId"]
        assert up.wait_for(job, "completed")[-1]["result"] == 7
    assert "shadowed" not in up.said() + (up.data / "logs" / "consumer-research.log").read_text()


def test_with_redis_url_that_store_is_used_and_left_alone_and_sigterm_lets_a_running_job_finish(
    valkey_url: str, run_up: Callable[..., Up]
) -> None:
    up = run_up(REDIS_URL=valkey_url)
    up.wait_for_consumer("research")
    job = up.submit(steps=4, seconds=0.3)
    up.wait_for(job, "progress")
    assert find_running(up.data) is None
    up.process.terminate()
    assert up.ended() == 0
    last = stored(valkey_url, job)[-1]
    assert (last["status"], last["attempt"]) == ("completed", 1)


def test_a_taken_port_is_refused_before_anything_is_started(tmp_path: Path, here: Here) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        code, _, err = here("up", "--data", str(tmp_path / "data"), "--port", str(port))
    assert code == 1
    assert err.startswith(f"tailrace: port {port} of 127.0.0.1 cannot be used")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("variables", "words", "sentence"),
    [
        ({}, ["--platforms", "hwahae,nowhere"], "--platforms names nowhere; declared are oliveyoung,"),
        ({"WORKER_PLATFORMS": "nowhere"}, [], "WORKER_PLATFORMS names nowhere; declared are oliveyoung,"),
        ({"TAILRACE_BEAT_SECONDS": "9"}, [], "the deadline must be at least three beats"),
        ({"HOST": "0.0.0.0"}, [], "HOST is '0.0.0.0'"),
        ({"LLM_SERVER_URL": "foo"}, [], "LLM_SERVER_URL is not the address of a server"),
        ({"LLM_SERVER_URL_FILE": "/nope"}, [], "LLM_SERVER_URL_FILE: cannot read /nope"),
        ({"TAILRACE_API_KEYS": ", ,"}, [], "TAILRACE_API_KEYS has no key in it"),
        ({"TAILRACE_API_KEYS_FILE": "/dev/null"}, [], "TAILRACE_API_KEYS_FILE: /dev/null is empty"),
        ({"REDIS_URL": ""}, [], "REDIS_URL is empty"),
        ({"REDIS_URL": "redis://127.0.0.1:1/zz"}, [], "REDIS_URL names a database that is not a whole number"),
        ({"TAILRACE_PLATFORMS": "a b"}, [], "TAILRACE_PLATFORMS: platform 'a b'"),
    ],
)
def test_a_wrong_setting_is_named_before_anything_is_started(
    variables: dict[str, str], words: list[str], sentence: str, tmp_path: Path, here: Here
) -> None:
    code, _, err = here("up", "--data", str(tmp_path / "data"), "--port", "0", *words, **variables)
    assert code == 78
    assert sentence in err
    assert not (tmp_path / "data").exists()


def test_a_store_that_does_not_answer_ends_up_with_69(tmp_path: Path) -> None:
    result = tailrace("up", "--data", str(tmp_path / "data"), "--port", "0", REDIS_URL=f"unix://{tmp_path}/none.sock")
    assert result.returncode == 69
    assert "the store does not answer" in result.stderr


def test_handlers_that_cannot_be_imported_stop_everything_with_one_sentence(tmp_path: Path) -> None:
    words = ["up", "--data", str(tmp_path / "data"), "--port", "0", "--platforms", "research,hwahae"]
    result = tailrace(*words, TAILRACE_HANDLERS="no.such.module")
    assert result.returncode == 78
    assert result.stderr.splitlines()[-1].count("cannot import no.such.module") == 1
    assert find_running(tmp_path / "data") is None


def test_each_consumer_of_an_up_has_its_own_metrics_port(monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = {"research": ["research"], "extract": ["extract", "single_product"]}
    assert metrics_ports(lanes) == {}
    monkeypatch.setenv("TAILRACE_METRICS_PORT", "9400")
    assert metrics_ports(lanes) == {"research": "9400", "extract": "9401"}
    monkeypatch.setenv("TAILRACE_METRICS_PORT", "65535")
    with pytest.raises(BadConfiguration, match="TAILRACE_METRICS_PORT is '65535'; it must be a whole number"):
        metrics_ports(lanes)
