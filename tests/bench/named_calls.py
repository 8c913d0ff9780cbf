"""Tells SLOWLOG what each script was asked to do: it keeps the first 32 words of a call, and all of these are keys.

A client that connects through `naming` sends, before each call of a script, the operations of that call as the name of
its connection. SLOWLOG notes this name beside the time. The time is that of the call alone, so the detour does not
lengthen it.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import hiredis

from tailrace.streams.functions import Script, functions, script_of

CHUNK = 1024 * 1024


def packed(*words: Any) -> bytes:
    ready: bytes = hiredis.pack_command(words)
    return ready


def known_scripts() -> dict[bytes, Script]:
    """Every script, by what follows EVALSHA and by what follows EVAL."""
    scripts = map(script_of, functions())
    return {word.encode(): script for script in scripts for word in (script.sha, script.text)}


def operations(words: Sequence[bytes], script: Script) -> Counter[str]:
    """How many operations of each transition a call has."""
    found: Counter[str] = Counter()
    at = 3 + int(words[2])
    while at < len(words):
        count = int(words[at])
        at += 1
        for _ in range(count):
            name = words[at].decode()
            found[name] += 1
            at += 1 + len(script.functions[name].args)
    return found


def named(found: Counter[str]) -> str:
    """`40*complete+claim`."""
    return "+".join(f"{count}*{name}" if count > 1 else name for name, count in found.items())


@asynccontextmanager
async def naming(store: Path, listening: Path, told: Counter[str]) -> AsyncIterator[str]:
    """A URL that leads to the server behind the socket `store`; `told` counts calls by their names."""
    known = known_scripts()

    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests = hiredis.Reader()
        while data := await reader.read(CHUNK):
            requests.feed(data)
            while (words := requests.gets()) is not False:
                script = known.get(words[1]) if words[0] in (b"EVALSHA", b"EVAL") else None
                if script:
                    name = named(operations(words, script))
                    told[name] += 1
                    writer.write(packed("CLIENT", "REPLY", "SKIP") + packed("CLIENT", "SETNAME", name))
                writer.write(packed(*words))
            await writer.drain()
        writer.close()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        writer.close()

    serving: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        from_store, to_store = await asyncio.open_unix_connection(str(store))
        await asyncio.gather(ask(reader, to_store), answer(from_store, writer), return_exceptions=True)

    async with await asyncio.start_unix_server(serve, str(listening)):
        yield f"unix://{listening}"
    await asyncio.wait([task for task in serving if task], timeout=5)  # its clients have gone
