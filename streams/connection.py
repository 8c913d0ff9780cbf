"""The way to the store: short commands on a pool, blocking reads on their own, and no retry that we did not choose.

redis-py's defaults would send a command again after a lost reply, let a blocking read die of the socket's timeout and
notice a half-open link only after a minute. Here a command is sent once; the caller knows whether it may be repeated.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Self

from redis import exceptions
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from streams.errors import BadConfiguration, NoStore, StoreFull, UnfitStore
from streams.functions import Script

CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 5.0  # a server that does not answer a short command by then is treated as away

AWAY = (
    exceptions.ConnectionError,  # also BusyLoading and authentication
    exceptions.TimeoutError,
    exceptions.ReadOnlyError,
    exceptions.MasterDownError,
    exceptions.ClusterDownError,
    exceptions.TryAgainError,
    OSError,
)
_AWAY_WORDS = ("BUSY ", "NOREPLICAS", "MISCONF", "UNBLOCKED")

Command = tuple[Any, ...]


class Store:
    """One server as this process reaches it."""

    def __init__(self, url: str, *, connections: int = 32, answer_seconds: float | None = ANSWER_SECONDS) -> None:
        self.url = url
        self._answer_seconds = answer_seconds
        try:
            self._pool = BlockingConnectionPool.from_url(
                url,
                protocol=2,
                max_connections=connections,
                timeout=ANSWER_SECONDS,
                socket_timeout=answer_seconds,
                socket_connect_timeout=CONNECT_SECONDS,
                retry=Retry(NoBackoff(), 0),
                **({} if url.startswith("unix://") else {"socket_keepalive": True}),
            )
        except ValueError as error:
            raise BadConfiguration(f"REDIS_URL: {error}") from None
        self._client = Redis(connection_pool=self._pool)
        self._execute: Callable[..., Awaitable[Any]] = self._client.execute_command
        self._client.response_callbacks.clear()  # replies as the server sends them; `reading` gives them their types

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._client.aclose()
        await self._pool.disconnect()

    def blocking(self, block_seconds: float) -> "Store":
        """Another way to the same server, for one reader that waits up to `block_seconds` on the server."""
        return Store(self.url, connections=1, answer_seconds=block_seconds + ANSWER_SECONDS)

    async def run(self, script: Script, keys: Sequence[str | bytes], args: Sequence[Any]) -> Any:
        """Run a script once. The server may have forgotten it at any time: then it is sent whole."""
        try:
            try:
                return await self._execute("EVALSHA", script.sha, len(keys), *keys, *args)
            except exceptions.NoScriptError:
                return await self._execute("EVAL", script.text, len(keys), *keys, *args)
        except (exceptions.RedisError, OSError) as error:
            raise explain(error) from error

    async def command(self, *command: Any) -> Any:
        try:
            return await self._execute(*command)
        except (exceptions.RedisError, OSError) as error:
            raise explain(error) from error

    async def commands(self, commands: Iterable[Command]) -> list[Any]:
        """Several reads in one trip, in order."""
        pipeline = self._client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        try:
            return list(await pipeline.execute()) if len(pipeline) else []
        except (exceptions.RedisError, OSError) as error:
            raise explain(error) from error


def explain(error: Exception) -> Exception:
    """What an error of the client means for us; an error of our own scripts stays what it is."""
    if isinstance(error, exceptions.AuthenticationError | exceptions.NoPermissionError):
        return BadConfiguration(f"the store refuses these credentials: {error}")
    if isinstance(error, exceptions.OutOfMemoryError):
        return StoreFull("the store has no memory left for new work; running jobs go on")
    if isinstance(error, AWAY) or str(error).startswith(_AWAY_WORDS):
        return NoStore(f"the store does not answer: {error or type(error).__name__}")
    return error


async def check_fitness(store: Store) -> list[str]:
    """Refuse a server that would lose jobs; return what is allowed but not recommended, as sentences."""
    memory, persistence, replication = [
        _fields(raw)
        for raw in await store.commands([("INFO", part) for part in ("memory", "persistence", "replication")])
    ]
    policy = memory.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise UnfitStore(f"the store evicts keys ({policy}) and would drop jobs; set `maxmemory-policy noeviction`")
    if replication.get("role") != "master":
        raise UnfitStore("the store is a read-only replica; give the address of its master")
    try:
        await store.command("XAUTOCLAIM", "tailrace-probe", "none", "none", 0, "0")
    except exceptions.ResponseError as error:
        if "unknown command" in str(error).lower():
            raise UnfitStore("the store is older than Redis 7.0 or Valkey 7.2; take a newer one") from None
    advice = []
    if persistence.get("aof_enabled") != "1":
        advice.append("the store keeps no append-only file: jobs are lost when it restarts; set `appendonly yes`")
    return advice


def _fields(info: bytes) -> dict[str, str]:
    lines = (line.split(":", 1) for line in info.decode().splitlines() if ":" in line)
    return {name: value.strip() for name, value in lines}
