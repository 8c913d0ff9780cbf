"""`bench`: figures for everything, in a pipe and in a terminal, and nothing left of it however it ends."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import psutil
import pytest
import redis

from tailrace.ops.bench.figures import Figure, compare, rate, spread, written
from tailrace.ops.bench.live_clients import LiveClient
from tailrace.ops.bench.measures import MEASURES
from tailrace.ops.bench.workbench import Pace, open_workbench
from tailrace.ops.bootstrap import CHECKOUT
from tailrace.ops.up.own_cluster import OwnCluster
from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.errors import TailraceError
from tests.ops.commands import Here, environment, on_terminal, tailrace
from tests.support.eventually import eventually

FIGURES = {
    *("raw.ping", "raw.script", "raw.xadd", "submit", "bulk", "drain", "progress"),
    *("latency", "recovery", "sse.delay", "sse.hot", "memory.waiting", "memory.ended"),
}


def relatives(folder: Path) -> list[psutil.Process]:
    """Every process with a path of this folder in its arguments or environment."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if str(folder) in " ".join([*process.cmdline(), process.environ().get("TAILRACE_CONFIG", "")]):
                found.append(process)
    return found


@contextmanager
def begun(folder: Path, *words: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A `bench` under way, whose talk the caller reads."""
    command = [sys.executable, "-m", "ops", "bench", "--data", str(folder), *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=CHECKOUT, env=environment(**variables), text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.chaos
def test_everything_is_measured_on_a_store_of_its_own(tmp_path: Path) -> None:
    result = tailrace("bench", "--quick", "--json", TMPDIR=str(tmp_path), TAILRACE_CONCURRENCY="wrong")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert (report["own_store"], report["quick"], report["append_only_file"]) == (True, True, True)
    figures = {figure["name"]: figure for figure in report["figures"]}
    assert figures.keys() == FIGURES
    for name, figure in figures.items():
        if name in {"latency", "sse.delay"}:
            assert 0 < figure["p50"] <= figure["p90"] <= figure["p99"]
        else:
            assert figure["value"] > 0
    assert {name for name, figure in figures.items() if "of_raw" in figure} == {"submit", "bulk", "drain", "progress"}
    said = [line.partition(":")[0] for line in result.stderr.splitlines()]
    assert said == [f"{number}/{len(MEASURES)} {name}" for number, name in enumerate(MEASURES, start=1)]
    assert list(tmp_path.iterdir()) == []
    assert relatives(tmp_path) == []


@pytest.mark.chaos
def test_a_cluster_is_measured_and_nothing_is_left_in_it(valkey: OwnStore, tmp_path: Path) -> None:
    with OwnCluster(tmp_path / "cluster", 3, server=valkey.server) as cluster:
        result = tailrace("bench", "--quick", "--json", "--only", "raw,submit,drain,memory", REDIS_URL=cluster.url)
        assert result.returncode == 0, result.stderr
        report = json.loads(result.stdout)
        assert (report["nodes"], report["own_store"]) == (3, False)
        assert all(figure["value"] > 0 for figure in report["figures"])
        assert [cluster.ask(node, "DBSIZE") for node in cluster.nodes] == [0, 0, 0]


def test_a_terminal_shows_how_far_it_is_and_then_a_table(tmp_path: Path) -> None:
    only = ("--quick", "--only", "drain,raw", "--data", str(tmp_path))
    screen = on_terminal("bench", *only, columns=120)
    bar, _, result = screen.rpartition("\x1b[2K")  # the bar is wiped before the table comes
    assert "2/2 drain" not in screen, "a line for each is for pipes"
    assert bar.index("raw: what this store can do") < bar.index("drain: jobs that do nothing")
    names = [line.split()[0] for line in result.splitlines() if line.strip()]
    assert [name for name in names if name in FIGURES] == ["raw.ping", "raw.script", "raw.xadd", "drain"]
    assert list(tmp_path.iterdir()) == []


def test_nothing_of_it_stays_in_a_store_of_yours(store_url: str, tmp_path: Path) -> None:
    with redis.Redis.from_url(store_url, decode_responses=True) as client:
        client.set("bench", "yours")
        client.set("tr:{bench-notes}:job:1", "yours")
        result = tailrace(
            "bench", "--quick", "--only", "submit,drain,sse", "--data", str(tmp_path), REDIS_URL=store_url
        )
        assert result.returncode == 0, result.stderr
        assert result.stdout.split()[0] == "measure"
        assert set(client.keys()) == {"bench", "tr:{bench-notes}:job:1"}
    assert relatives(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_bench_leaves_no_key_and_no_process(
    number: signal.Signals, valkey_url: str, tmp_path: Path
) -> None:
    with (
        redis.Redis.from_url(valkey_url) as client,
        begun(tmp_path, "--only", "recovery", REDIS_URL=valkey_url) as bench,
    ):

        async def runs() -> bool:
            return any(b"leases" in key for key in client.scan_iter())

        await eventually("its job runs", runs)
        assert len(relatives(tmp_path)) > 1
        bench.send_signal(number)
        assert bench.wait(20) == 130
        assert client.dbsize() == 0
    assert relatives(tmp_path) == []
    assert os.listdir(tmp_path) == []


async def test_a_killed_bench_takes_its_processes_and_its_store_along(tmp_path: Path) -> None:
    with begun(tmp_path, "--only", "recovery") as bench:

        async def runs() -> bool:
            return (
                sum("tailrace.consumers.heart" in " ".join(process.cmdline()) for process in relatives(tmp_path)) == 2
            )

        await eventually("its consumers run", runs)
        bench.kill()

        async def gone() -> bool:
            return relatives(tmp_path) == []

        await eventually("everything is gone", gone)


@pytest.mark.parametrize(("only", "wrong"), [("drain,fly", "there is no fly"), (" ,", "it names nothing")])
def test_a_measure_that_does_not_exist_is_refused(only: str, wrong: str, here: Here) -> None:
    code, out, err = here("bench", "--only", only)
    assert (code, out) == (2, "")
    assert err == f"tailrace: --only: {wrong}; choose among {', '.join(MEASURES)}\n"


def test_a_store_that_is_away_is_one_sentence() -> None:
    result = tailrace("bench", "--only", "raw", REDIS_URL="redis://127.0.0.1:1")
    assert (result.returncode, result.stdout) == (69, "")
    assert len(result.stderr.splitlines()) == 1


async def test_a_process_ends_with_its_measure(valkey_url: str, tmp_path: Path) -> None:
    with open_workbench(valkey_url, tmp_path, ["x"]) as bench:
        with bench.consumer(bench.keys["x"]):
            assert len(relatives(tmp_path)) > 0
        assert relatives(tmp_path) == []


async def test_a_consumer_that_ends_is_told_with_its_last_words(valkey_url: str, tmp_path: Path) -> None:
    async def never() -> bool:
        return False

    told = pytest.raises(TailraceError, match=r"^consumer ended with code 78: .* must be at least three beats$")
    with (
        open_workbench(valkey_url, tmp_path, ["x"]) as bench,
        told,
        bench.consumer(bench.keys["x"], pace=Pace(1, 1, 1)),
    ):
        await bench.until("it works", never)


def test_a_percentile_is_one_of_the_values() -> None:
    figure = spread("latency", "", "ms", [float(value) for value in range(100, 0, -1)])
    assert (figure.p50, figure.p90, figure.p99) == (50, 90, 99)
    figure = spread("latency", "", "ms", [7.0])
    assert (figure.p50, figure.p90, figure.p99) == (7, 7, 7)
    assert written(figure).split() == ["7.00", "ms", "(p90", "7.00,", "p99", "7.00)"]


def test_a_share_is_of_the_raw_figure_beside_it() -> None:
    raw = rate("raw.xadd", "", "commands/s", 1000, 0.5)
    bulk = rate("bulk", "", "jobs/s", 1000, 2.0, beside="raw.xadd")
    assert [figure.of_raw for figure in compare([raw, bulk])] == [None, 0.25]
    assert compare([bulk]) == [bulk]
    assert written(bulk).split() == ["500", "jobs/s"]
    assert written(Figure("recovery", "", "s", value=3.01)).split() == ["3.01", "s"]


async def test_a_client_counts_each_event_once_however_the_bytes_are_cut(dice: Random) -> None:
    told = b"HTTP/1.1 200 OK\r\n\r\n12\r\nretry: 1000\n\n"
    told += b"".join(b'id: %d-7\ndata: {"step":%d,"data":1}\n\n' % (number, number) for number in range(50))
    told += b"\r\n1a\r\nevent: end\ndata: {}\n\n"
    for _ in range(200):
        client = LiveClient("x.1")
        cuts = sorted(dice.sample(range(20, len(told)), dice.randrange(12)))
        for start, end in zip([0, *cuts], [*cuts, len(told)], strict=True):
            client.data_received(told[start:end])
        await client.ended
        assert client.deliveries.count == 50


async def test_a_stream_that_breaks_off_is_told() -> None:
    client = LiveClient("x.1")
    client.data_received(b"HTTP/1.1 200 OK\r\n\r\n")
    client.connection_lost(None)
    with pytest.raises(TailraceError, match="the gateway closed the stream"):
        await client.ended
    client = LiveClient("x.1")
    client.data_received(b"HTTP/1.1 404 Not Found\r\n\r\n")
    with pytest.raises(TailraceError, match="404"):
        await client.ended
