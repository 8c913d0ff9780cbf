"""The own store: found, kept, shared and gone with its owner."""

import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import psutil
import pytest
import redis

from tailrace.ops.up.own_store import (
    LONGEST_SOCKET_PATH,
    Ownership,
    OwnStore,
    find_server,
    make_folder,
)
from tailrace.ops.up.up import keep_store
from tailrace.streams.errors import BadConfiguration, NoStore, TailraceError
from tailrace.streams.process.data_folder import find_running, is_taken, ping
from tests.ops.commands import environment
from tests.ops.endings import is_running, seconds_until_gone
from tests.support.eventually import eventually
from tests.support.ports import free_port

OWNER = """
import sys, time
from pathlib import Path
from tailrace.ops.up.own_store import OwnStore
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


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where sockets with short paths go; pytest's own folders are too deep."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr("tailrace.ops.up.own_store.SHORT", Path(folder))
        yield Path(folder)


def test_a_folder_too_deep_for_a_socket_gets_one_with_a_short_path_and_no_port(
    program: Path, tmp_path: Path, short: Path
) -> None:
    deep = tmp_path / ("d" * LONGEST_SOCKET_PATH)
    with OwnStore(deep, server=program) as store:
        assert store.socket.parent == short / f"tailrace-{os.geteuid()}"
        assert store.socket.parent.stat().st_mode & 0o777 == 0o700
        assert store.socket.stat().st_mode & 0o077 == 0
        assert find_running(deep) == store.url
        assert psutil.Process(store.pid).net_connections("inet") == [], "it listens on no port"
        url = store.url
        write(url, "job", "kept")
        store.kill()
        assert store.start().url == url, "it comes back at the same address"
        assert read(url, "job") == b"kept"
    assert OwnStore(tmp_path / ("e" * LONGEST_SOCKET_PATH), server=program).url != url


@pytest.mark.parametrize("trap", ["link", "file"])
def test_a_short_path_that_another_user_has_prepared_is_refused(tmp_path: Path, short: Path, trap: str) -> None:
    prepared = short / f"tailrace-{os.geteuid()}"
    prepared.symlink_to(tmp_path) if trap == "link" else prepared.touch()
    with pytest.raises(BadConfiguration, match="a shorter path with --data"):
        OwnStore(tmp_path / ("d" * LONGEST_SOCKET_PATH)).start()


def test_a_folder_that_was_open_to_others_is_closed_and_so_are_the_files_in_it(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(0o755)
    before = os.umask(0)
    try:
        with OwnStore(folder, server=program) as store:
            write(store.url, "job", "kept")
            assert folder.stat().st_mode & 0o777 == 0o700
            made = [path for path in folder.rglob("*") if path.stat().st_mode & 0o077]
            assert made == []
            assert len([path for path in folder.rglob("*.aof") if path.is_file()]) == 1
    finally:
        os.umask(before)


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(BadConfiguration, match="belongs to another user; name another with --data"):
        make_folder(tmp_path)


class Fragile:
    """A server program that does not start while its folder holds a file `full`, as on a full disk."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.full = folder / "full"
        self.program = folder / "server"
        words = "Can't open the append-only file: No space left on device"
        self.program.write_text(f'#!/bin/sh\n[ -e {self.full} ] && echo "{words}" >&2 && exit 1\nexec {program} "$@"\n')
        self.program.chmod(0o755)


async def test_a_store_that_cannot_start_again_is_tried_until_it_can(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fragile = Fragile(program, tmp_path)
    with OwnStore(tmp_path / "data", server=fragile.program) as store:
        write(store.url, "job", "kept")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep_store, store)
            fragile.full.touch()
            store.kill()

            async def tried() -> bool:
                return read_log(store).count("No space left") >= 3

            await eventually("it is tried", tried)
            fragile.full.unlink()

            async def is_back() -> bool:
                return store.is_alive() and ping(store.url) == "+PONG"

            await eventually("it is back", is_back)
            assert read(store.url, "job") == b"kept"
            tasks.cancel_scope.cancel()
    said = capsys.readouterr().err
    assert said.count("No space left on device") == 1, "one sentence for one cause"
    assert said.count("store      it died") <= 2, "once when it was killed, once when it did not start"


def read_log(store: OwnStore) -> str:
    return store.log.read_text()


def test_a_folder_that_cannot_be_written_is_one_sentence(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server runs, and then there is no room for the note where it is."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tailrace.ops.up.own_store.tell_others", full)
    with pytest.raises(NoStore, match="cannot be written: No space left on device"):
        OwnStore(tmp_path, server=program).start()
    assert not is_taken(tmp_path)


def test_a_folder_is_free_once_the_last_process_of_its_server_has_ended(tmp_path: Path) -> None:
    ownership = Ownership(tmp_path)
    ownership.take()
    assert ownership.file
    descriptor = ownership.file.fileno()
    with subprocess.Popen(["sleep", "0.3"], pass_fds=[descriptor]) as still_ending:
        ownership.give_back()
        assert not is_taken(tmp_path)
        assert still_ending.wait() == 0


def test_a_taken_port_is_refused_by_its_number(program: Path, tmp_path: Path) -> None:
    with OwnStore(tmp_path / "a", server=program, port=0) as store:
        other = OwnStore(tmp_path / "b", server=program, port=store.port)
        with pytest.raises(TailraceError, match=f"port {store.port} of 127.0.0.1 cannot be used"):
            other.start()


def test_the_server_ends_with_its_owner_and_the_data_stays(
    program: Path, tmp_path: Path, run_owner: Callable[[], tuple[subprocess.Popen[str], int]]
) -> None:
    owner, server_pid = run_owner()
    url = find_running(tmp_path)
    assert url
    write(url, "job", "kept")
    owner.kill()
    seconds_until_gone([server_pid])
    assert find_running(tmp_path) is None
    with OwnStore(tmp_path, server=program) as store:
        assert read(store.url, "job") == b"kept"


def test_a_frozen_server_is_gone_with_its_owner_too_and_the_folder_is_taken_until_then(
    tmp_path: Path, run_owner: Callable[[], tuple[subprocess.Popen[str], int]]
) -> None:
    owner, server_pid = run_owner()
    os.kill(server_pid, signal.SIGSTOP)  # it needs half a second to be gone
    owner.kill()
    owner.wait()
    while is_taken(tmp_path):
        time.sleep(0.005)
    assert not is_running(server_pid)


@pytest.mark.chaos
@pytest.mark.parametrize("frozen", [False, True])
def test_the_server_is_gone_within_a_second_of_its_owner(
    frozen: bool, run_owner: Callable[[], tuple[subprocess.Popen[str], int]]
) -> None:
    owner, server_pid = run_owner()
    if frozen:
        os.kill(server_pid, signal.SIGSTOP)
    owner.kill()
    assert seconds_until_gone([server_pid]) < 1


def test_a_second_owner_is_refused_by_the_pid_of_the_first(
    program: Path,
    tmp_path: Path,
    run_owner: Callable[[], tuple[subprocess.Popen[str], int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owner, server_pid = run_owner()
    monkeypatch.setattr("tailrace.ops.up.own_store.HANDOVER_SECONDS", 0.2)  # it lives: there is nothing to wait for
    with pytest.raises(BadConfiguration, match=f"in use by process {owner.pid}:"):
        OwnStore(tmp_path, server=program).start()
    assert is_running(server_pid)
    assert find_running(tmp_path)


def test_a_killed_server_comes_back_at_the_same_address(program: Path, tmp_path: Path) -> None:
    with OwnStore(tmp_path, server=program, port=free_port()) as store:
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
    monkeypatch.setattr("tailrace.ops.up.own_store.bundled_server", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoStore, match="apt-get install redis-server"):
        find_server()


def test_a_server_that_is_too_old_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tailrace.ops.up.own_store.bundled_server", lambda: None)
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
