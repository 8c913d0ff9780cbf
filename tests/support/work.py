"""How much a call makes the server look at: told by MONITOR and not by a clock, so the same on every machine."""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from redis.asyncio import Redis

from tailrace.streams.store.connection import Store

LINE = re.compile(r'[\d.]+ \[\d+ (\S+)\] "(.*)"', re.DOTALL)
FROM_A_SCRIPT = "lua"
END = "nothing-more-is-asked"

SINGLE = re.compile(
    "ECHO|EVAL|EVALSHA|EXISTS|EXPIRE|GET|HDEL|HEXISTS|HGET|HINCRBY|HLEN|HMGET|HSET|HSETNX|INCR|LINDEX|LLEN|PEXPIRE|"
    "RPUSH|SADD|SCARD|SET|SISMEMBER|SREM|TIME|TYPE|XACK|XADD|XDEL|XLEN|ZADD|ZCARD|ZCOUNT|ZRANK|ZREM|ZSCORE"
)
"""Commands that look at one element for each of their words. Any other looks at as many as it says, or at all of its
key."""

SIZES = {b"hash": "HLEN", b"list": "LLEN", b"set": "SCARD", b"stream": "XLEN", b"zset": "ZCARD", b"string": "EXISTS"}


async def elements(store: Store, call: Callable[[], Awaitable[Any]]) -> int:
    """The most elements that one command looks at in the course of a call; that of a script with all that it runs."""
    told = await monitored(store, call)
    sizes = await sizes_of(
        store, {words[1] for _, words in told if len(words) > 1 and not SINGLE.fullmatch(words[0].upper())}
    )
    found: list[int] = []
    for source, words in told:
        if source != FROM_A_SCRIPT:
            found.append(0)
        found[-1] += looked_at(words, sizes)
    return max(found)


async def monitored(store: Store, call: Callable[[], Awaitable[Any]]) -> list[tuple[str, list[str]]]:
    """The sender and the words of each command that the server runs during a call."""
    told: list[tuple[str, list[str]]] = []
    async with Redis.from_url(store.url) as client, client.monitor() as monitor:
        await call()
        await store.command("ECHO", END)
        while END not in (line := (await monitor.connection.read_response()).decode(errors="replace")):
            source, words = LINE.fullmatch(line).groups()  # type: ignore[union-attr] # else it is no line of MONITOR
            told.append((source, words.split('" "')))
    return told


async def sizes_of(store: Store, keys: Iterable[str]) -> Counter[str]:
    names = list(keys)
    kinds = await store.commands([("TYPE", name) for name in names])
    there = [(name, SIZES[kind]) for name, kind in zip(names, kinds, strict=True) if kind != b"none"]
    counts = await store.commands([(command, name) for name, command in there])
    return Counter({name: count for (name, _), count in zip(there, counts, strict=True)})


def looked_at(words: Sequence[str], sizes: Counter[str]) -> int:
    name = words[0].upper()
    if SINGLE.fullmatch(name):
        return len(words) - 1
    most = most_of(name, [word.upper() for word in words[1:]])
    return sizes[words[1]] if most is None else min(sizes[words[1]], most)


def most_of(name: str, rest: Sequence[str]) -> int | None:
    """How many elements a command asks for at most; None: for all."""
    if "COUNT" in rest:
        return int(rest[rest.index("COUNT") + 1])
    if "LIMIT" in rest:
        return int(rest[rest.index("LIMIT") + 2])
    if name in ("LRANGE", "ZRANGE"):
        first, last = int(rest[1]), int(rest[2])
        return last - first + 1 if (first < 0) == (last < 0) else None
    if name == "XRANGE" and rest[1] == rest[2]:
        return 1
    if name == "XPENDING" and len(rest) >= 5:
        return int(rest[4])
    if name == "SRANDMEMBER" and len(rest) == 2:
        return abs(int(rest[1]))
    return None
