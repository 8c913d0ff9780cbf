"""`doctor` and the server: what makes a store unfit is named before it does harm, also for cron."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tailrace.ops.doctor.known_bad import check_version
from tailrace.ops.doctor.store_checks import check_disk, check_memory, check_persistence
from tests.ops.commands import Here
from tests.support.builders import Desk


async def test_an_evicting_store_is_refused(desk: Desk, here: Here, valkey_url: str) -> None:
    await desk.store.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        code, said, _ = await here.beside("doctor", REDIS_URL=valkey_url)
    finally:
        await desk.store.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
    assert code == 1
    assert "✗ fitness      the store evicts keys (allkeys-lru)" in said


@pytest.mark.parametrize(("used", "level"), [(50, "fine"), (79, "fine"), (81, "advice"), (91, "wrong")])
def test_memory_that_fills_is_told_before_it_is_full(used: int, level: str) -> None:
    assert check_memory({"used_memory": str(used), "maxmemory": "100"}).level == level
    assert check_memory({"used_memory": str(used), "maxmemory": "0"}).level == "fine"


@pytest.mark.parametrize(
    ("free", "file", "level"),
    [
        (10**12, 0, "fine"),
        (10**9 + 1, 0, "fine"),
        (10**9 - 1, 0, "advice"),
        (10**10, 6 * 10**9, "advice"),
        (1, 0, "wrong"),
    ],
)
def test_a_disk_that_fills_is_told_before_it_is_full(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: int, file: int, level: str
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    assert check_disk(tmp_path, {"aof_current_size": str(file)}).level == level


@pytest.mark.parametrize("name", ["aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status"])
def test_writes_that_fail_are_told(name: str) -> None:
    assert check_persistence({name: "err", "aof_enabled": "1"}).level == "wrong"


@pytest.mark.parametrize(
    ("server", "version", "levels"),
    [
        ("redis", "7.0.4", ["advice", "wrong", "advice"]),
        ("redis", "7.0.15", []),
        ("redis", "7.2.11", []),
        ("valkey", "8.1.9", ["wrong"]),
        ("valkey", "8.1.10", []),
        ("valkey", "9.0.2", ["advice", "wrong"]),
        ("valkey", "9.0.6", []),
        ("valkey", "9.1.1", ["wrong"]),
        ("valkey", "9.1.2", []),
        ("valkey", "unstable", []),
    ],
)
def test_versions_with_known_defects_are_named(server: str, version: str, levels: list[str]) -> None:
    found = list(check_version(server, version))
    assert [finding.level for finding in found] == levels
    assert all(f"upgrade to {server} " in finding.next for finding in found)


async def test_a_default_user_that_may_not_write_is_found(desk: Desk, here: Here, valkey_url: str) -> None:
    """Redis 7.0 reads the append-only file as that user, and drops what scripts wrote if it may not write it."""
    await desk.store.command("ACL", "SETUSER", "all", "on", "nopass", "~*", "&*", "+@all")
    url = valkey_url.replace("unix://", "unix://all:x@")
    await desk.store.command("CONFIG", "SET", "appendonly", "yes")
    try:
        await desk.store.command("ACL", "SETUSER", "default", "-@all", "+acl", "+config")
        code, said, _ = await here.beside("doctor", REDIS_URL=url)
    finally:
        await desk.store.command("ACL", "SETUSER", "default", "+@all")
    assert code == 1
    assert "✗ users        the user `default` may not write: when the server restarts, it drops all" in said
    _, said, _ = await here.beside("doctor", REDIS_URL=url)
    assert "✓ users        the user `default` may write" in said
    await desk.store.command("ACL", "DELUSER", "all")


async def test_cron_gets_json_and_an_exit_code(desk: Desk, here: Here, valkey_url: str) -> None:
    await desk.store.command("HSET", desk.keys["leases"], "n9", "rubbish")
    code, said, _ = await here.beside("doctor", "--json", REDIS_URL=valkey_url)
    (found,) = [finding for finding in json.loads(said) if finding.get("level") == "wrong"]
    assert (code, found["about"], found["remedy"]) == (1, "research", "tidy lease n9")
    code, said, _ = await here.beside("doctor", "--json", "--repair", REDIS_URL=valkey_url)
    (mended,) = [finding for finding in json.loads(said) if finding.get("level") == "repaired"]
    assert (code, mended["says"]) == (0, found["says"])
    code, said, talk = await here.beside("doctor", "--json", REDIS_URL="redis://127.0.0.1:1")
    assert (code, said) == (69, "")
    assert "127.0.0.1:1" in talk
