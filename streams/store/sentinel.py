"""The way to the primary that sentinels watch: they are asked before each connection.

All of them are asked at one time, and the address that most name is taken: one sentinel that was cut off from the
others may still name the old primary. The server there must say that it is a primary, or it is not used (`Node`). A
connection that is lost, or to a server that turned into a replica, is closed; the next one asks again.
"""

import asyncio
from collections import Counter
from typing import Any
from urllib.parse import parse_qsl, urlencode

import hiredis

from tailrace.streams.errors import AccessDenied, BadConfiguration, NoStore, StoreError
from tailrace.streams.store.addresses import NOT_A_SENTINEL_URL, SENTINEL_PORT, as_host, take_apart
from tailrace.streams.store.wire import Door, Wire

Address = tuple[str, int]

OWN_OPTIONS = ("sentinel_username", "sentinel_password")  # the others are for the server


class SentinelDoor:
    """Opens connections to the primary of a name."""

    def __init__(self, url: str, connect_seconds: float) -> None:
        self._connect_seconds = connect_seconds
        addresses = take_apart(url, SENTINEL_PORT, NOT_A_SENTINEL_URL)
        self._name, _, database = addresses.path.strip("/").partition("/")
        if not self._name:
            raise BadConfiguration(f"REDIS_URL {NOT_A_SENTINEL_URL}")
        options = dict(parse_qsl(addresses.query.removeprefix("?"), keep_blank_values=True))
        own = {name: options.pop(name) for name in OWN_OPTIONS if name in options}
        self._server = addresses._replace(query=f"?{urlencode(options)}" if options else "")
        self._path = f"/{database}" if database else ""
        Door(self._server.url(*addresses.hosts[0], self._path), connect_seconds)  # a wrong option is refused now
        login = {name.removeprefix("sentinel_"): value for name, value in own.items()}
        asked = self._server._replace(login="", query=f"?{urlencode({**options, **login})}" if options or login else "")
        self._sentinels = [Door(asked.url(*host), connect_seconds) for host in addresses.hosts]

    async def open(self, answer_seconds: float) -> Wire:
        host, port = await self._ask()
        return await Door(self._server.url(as_host(host), port, self._path), self._connect_seconds).open(answer_seconds)

    async def _ask(self) -> Address:
        """The address of the primary that most sentinels name. Raises `NoStore` when none of them names one."""
        asking = [asyncio.create_task(self._ask_one(sentinel)) for sentinel in self._sentinels]
        votes: Counter[Address] = Counter()
        refusals: list[str] = []
        try:
            for answer in asyncio.as_completed(asking, timeout=2 * self._connect_seconds):
                try:
                    address = await answer
                except AccessDenied:
                    refusals.append("they refuse sentinel_username and sentinel_password of REDIS_URL")
                    continue
                except (StoreError, TimeoutError) as error:
                    refusals.append(str(error) or "they do not answer")
                    continue
                votes[address] += 1
                if votes[address] > len(asking) / 2:
                    return address
        finally:
            for each in asking:
                each.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        if votes:
            return votes.most_common(1)[0][0]
        raise NoStore(f"no sentinel names a primary called {self._name}: {'; '.join(sorted(set(refusals)))}")

    async def _ask_one(self, sentinel: Door) -> Address:
        wire = await sentinel.open(self._connect_seconds)
        try:
            question: tuple[Any, ...] = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._name)
            reply = await wire.send(hiredis.pack_command(question))
        finally:
            wire.close()
        if isinstance(reply, hiredis.ReplyError):
            wrong = "is not a sentinel" if str(reply).startswith("ERR unknown command") else "answers"
            raise NoStore(f"{sentinel.name} {wrong}: {reply}")
        if reply is None:
            raise NoStore("a sentinel knows no such name")
        host, port = reply
        return host.decode(), int(port)
