"""A primary, its replica and three sentinels that watch them: all real, on loopback."""

import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

from tailrace.ops.up.own_store import LIFELINE, OwnStore
from tests.support.eventually import eventually
from tests.support.ports import free_port

NAME = "mymaster"
PASSWORD = "guard"  # of the sentinels; the servers have a user of their own

SENTINEL = """
port {port}
bind 127.0.0.1
dir {folder}
requirepass {password}
sentinel sentinel-pass {password}
sentinel monitor {name} 127.0.0.1 {primary} 2
sentinel down-after-milliseconds {name} 500
sentinel failover-timeout {name} 4000
"""


class Sentinels:
    """`with Sentinels(folder, program) as watched: … watched.url …`."""

    def __init__(self, folder: Path, *, server: Path) -> None:
        at_once = ("--repl-diskless-sync-delay", "0", "--appendfsync", "everysec")
        self.servers = [
            OwnStore(folder / name, server=server, port=free_port(), extra_args=at_once) for name in ("one", "two")
        ]
        self._folder = folder
        self._program = server
        self._ports = [free_port() for _ in range(3)]
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        return f"redis+sentinel://app:secret@{hosts}/{NAME}/0?sentinel_password={PASSWORD}"

    def __enter__(self) -> Self:
        return self.start()

    def start(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def _start(self) -> None:
        for server in self.servers:
            server.start()
            self.ask(server, "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
        first, second = self.servers
        self.ask(second, "REPLICAOF", "127.0.0.1", str(first.port))
        for number, port in enumerate(self._ports):
            folder = self._folder / f"sentinel-{number}"
            folder.mkdir()
            config = folder / "sentinel.conf"
            text = SENTINEL.format(port=port, folder=folder, password=PASSWORD, name=NAME, primary=first.port)
            config.write_text(text)
            command = ["sh", "-c", LIFELINE, "sh", str(self._program), str(config), "--sentinel"]
            log = (folder / "log").open("wb")
            self._processes.append(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True)
            )
            log.close()
        while not all(map(self._told, self._ports)):
            time.sleep(0.01)

    async def ready(self) -> None:
        """Wait until every sentinel knows the replica and the other sentinels."""

        async def known() -> bool:
            told = [self._told(port) for port in self._ports]
            return all((each.get("num-slaves"), each.get("num-other-sentinels")) == (1, 2) for each in told)

        await eventually("the sentinels know each other", known, seconds=15.0)

    async def fail_over(self) -> None:
        """Have the sentinels promote the replica, although the primary lives, and wait until they have.

        They give up after `failover-timeout`, and begin again by themselves only if the primary is down.
        """
        old = self.primary().port

        async def moved() -> bool:
            told = self._told(self._ports[0])
            if told.get("port", old) != old:
                return True
            if told and "failover_in_progress" not in str(told["flags"]):
                with redis.Redis(port=self._ports[0], password=PASSWORD) as sentinel, suppress(redis.ResponseError):
                    sentinel.execute_command("SENTINEL", "FAILOVER", NAME)
            return False

        await eventually("another server is the primary", moved)

    def primary(self) -> OwnStore:
        """The server that the sentinels call the primary."""
        port = self._told(self._ports[0])["port"]
        return next(server for server in self.servers if server.port == port)

    def _told(self, port: int) -> dict[str, int | str]:
        try:
            with redis.Redis(port=port, password=PASSWORD, decode_responses=True) as sentinel:
                return dict(sentinel.sentinel_master(NAME))
        except redis.RedisError:
            return {}

    def flush(self) -> None:
        self.ask(self.primary(), "FLUSHALL")

    @staticmethod
    def ask(server: OwnStore, *command: str) -> None:
        with redis.Redis.from_url(server.url) as client:
            client.execute_command(*command)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        for process in self._processes:
            assert process.stdin
            process.stdin.close()
            process.wait()
        for server in self.servers:
            server.stop()
