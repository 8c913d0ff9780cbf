"""The own store: found, kept, shared and gone with its owner."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import redis

from ops.store import LONGEST_SOCKET_PATH, Ownership, OwnStore, find_running, find_server, ping
from streams.errors import BadConfiguration, NoStore
from tests.ops.commands import environment

OWNER = """
import sys, time
from pathlib import Path
from ops.store import OwnStore
store = OwnStore(Path(sys.argv[1]), server=Path(sys.argv[2])).start()
print(store.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def program(server: OwnStore) -> Path:
    """The program of each kind of server."""
    return server.server


@pytest.fixture
def run_owner(program: Path, tmp_path: Path) -> Iterator[Callable[[], tuple[subprocess.Popen[str], int]]]:
    """Start an owner process with a store in `tmp_path`; gives the process and the server's pid."""
    owners: list[subprocess.Popen[str]] = []

    def run() -> tuple[subprocess.Popen[str], int]:
        command = [sys.executable, "-c", OWNER, str(tmp_path), str(program)]
        owner = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
        owners.append(owner)
        assert owner.stdout
        return owner, int(owner.stdout.readline())

    yield run
    for owner in owners:
        owner.kill()
        owner.communicate()


def write(url: str, key: str, value: str) -> None:
    with redis.Redis.from_url(url) as client:
        client.set(key, value)


def read(url: str, key: str) -> bytes | None:
    with redis.Redis.from_url(url) as client:
        value = client.get(key)
        assert value is None or isinstance(value, bytes)
        return value


def seconds_until_gone(pid: int) -> float:
    started = time.monotonic()
    while is_running(pid) and time.monotonic() - started < 5:
        time.sleep(0.005)
    return time.monotonic() - started


def is_running(pid: int) -> bool:
    """A zombie is no longer running: it only waits for its parent, or for init, to look."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_store_answers_keeps_its_data_and_leaves_no_process(program: Path, tmp_path: Path) -> None:
    with OwnStore(tmp_path, server=program) as store:
        write(store.url, "job", "kept")
        pid = store.pid
    assert not is_running(pid)
    with OwnStore(tmp_path, server=program) as store:
        assert read(store.url, "job") == b"kept"


def test_a_store_is_durable_and_never_evicts(program: Path, tmp_path: Path) -> None:
    with OwnStore(tmp_path, server=program) as store, redis.Redis.from_url(store.url) as client:
        settings = client.config_get("appendonly", "appendfsync", "save", "maxmemory-policy")
    assert settings == {
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",
        "maxmemory-policy": "noeviction",
    }


def test_the_folder_and_the_socket_are_open_to_their_user_alone(program: Path, tmp_path: Path) -> None:
    with OwnStore(tmp_path / "data", server=program) as store:
        assert store.url == f"unix://{tmp_path}/data/redis.sock"
        assert (tmp_path / "data").stat().st_mode & 0o077 == 0
        assert store.socket.stat().st_mode & 0o077 == 0


def test_odd_characters_in_the_path_survive_in_the_url(program: Path, tmp_path: Path) -> None:
    with OwnStore(tmp_path / "50% of ?#é", server=program) as store:
        write(store.url, "job", "kept")
        assert find_running(store.folder) == store.url


def test_a_folder_too_deep_for_a_socket_gets_a_loopback_port(program: Path, tmp_path: Path) -> None:
    deep = tmp_path / ("d" * LONGEST_SOCKET_PATH)
    with OwnStore(deep, server=program) as store:
        assert store.url.startswith("redis://127.0.0.1:")
        assert find_running(deep) == store.url


def test_a_taken_port_is_refused_by_its_number(program: Path, tmp_path: Path) -> None:
    with OwnStore(tmp_path / "a", server=program, port=0) as store:
        other = OwnStore(tmp_path / "b", server=program, port=store.port)
        with pytest.raises(BadConfiguration, match=f"port {store.port} is not free"):
            other.start()


def test_the_server_is_gone_within_a_second_of_its_owner_and_the_data_stays(
    program: Path, tmp_path: Path, run_owner: Callable[[], tuple[subprocess.Popen[str], int]]
) -> None:
    owner, server_pid = run_owner()
    url = find_running(tmp_path)
    assert url
    write(url, "job", "kept")
    owner.kill()
    assert seconds_until_gone(server_pid) < 1
    assert find_running(tmp_path) is None
    with OwnStore(tmp_path, server=program) as store:
        assert read(store.url, "job") == b"kept"


def test_a_frozen_server_is_gone_with_its_owner_too_and_the_folder_is_taken_until_then(
    tmp_path: Path, run_owner: Callable[[], tuple[subprocess.Popen[str], int]]
) -> None:
    owner, server_pid = run_owner()
    os.kill(server_pid, signal.SIGSTOP)  # it needs half a second to be gone
    killed = time.monotonic()
    owner.kill()
    owner.wait()
    while Ownership(tmp_path).is_taken():
        time.sleep(0.005)
    assert seconds_until_gone(server_pid) < 0.1
    assert time.monotonic() - killed < 1


def test_a_second_owner_is_refused_by_the_pid_of_the_first(
    program: Path,
    tmp_path: Path,
    run_owner: Callable[[], tuple[subprocess.Popen[str], int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owner, server_pid = run_owner()
    monkeypatch.setattr("ops.store.HANDOVER_SECONDS", 0.2)  # it lives: there is nothing to wait for
    with pytest.raises(BadConfiguration, match=f"in use by process {owner.pid}:"):
        OwnStore(tmp_path, server=program).start()
    assert is_running(server_pid)
    assert find_running(tmp_path)


def test_a_killed_server_comes_back_at_the_same_address(program: Path, tmp_path: Path) -> None:
    with OwnStore(tmp_path, server=program, port=0) as store:
        url = store.url
        write(url, "job", "kept")
        store.kill()
        assert not store.is_alive()
        assert ping(url) == ""
        assert find_running(tmp_path) is None
        store.start()
        assert store.url == url
        assert read(url, "job") == b"kept"


def test_a_store_that_loads_long_is_waited_for(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with OwnStore(tmp_path, server=program) as store, redis.Redis.from_url(store.url) as client:
        # It answers once in 1024 loaded commands.
        client.eval("for i = 1, 5000 do redis.call('SET', 'job' .. i, i) end", 0)
    with OwnStore(tmp_path, server=program, extra_args=["--key-load-delay", "200"]) as store:
        assert read(store.url, "job5000") == b"5000"
    assert "the store is loading" in capsys.readouterr().err


def test_a_server_that_does_not_start_shows_why_and_frees_the_folder(program: Path, tmp_path: Path) -> None:
    with pytest.raises(NoStore, match="maxmemory"):
        OwnStore(tmp_path, server=program, extra_args=["--maxmemory", "much"]).start()
    with OwnStore(tmp_path, server=program) as store:
        assert store.is_alive()


def test_no_server_anywhere_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("ops.store.bundled_server", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoStore, match="apt-get install redis-server"):
        find_server()


def test_a_server_that_is_too_old_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("ops.store.bundled_server", lambda: None)
    for name, version in {"valkey-server": "6.2.14", "redis-server": "7.0.0"}.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho 'Redis server v={version} sha=00000000:0'\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_server() == tmp_path / "redis-server"


def test_a_note_about_a_store_that_is_gone_is_not_believed(valkey: OwnStore, tmp_path: Path) -> None:
    """Another server may answer at that address by now."""
    (tmp_path / "store.json").write_text(json.dumps({"pid": os.getpid(), "url": valkey.url, "started": ""}))
    assert find_running(tmp_path) is None
