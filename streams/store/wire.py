"""One connection that many callers share: commands leave as they come, answers come back in the same order.

`Door` opens it, hiredis packs and parses, and this protocol does the rest: no pool, no task and no timer for each
command. redis-py hands out an open connection only through private parts, and to import it is a quarter of a worker's
start.

One watch looks after all answers that are due; the answer of a cancelled caller is dropped. Nothing is ever
sent twice. Data that arrives while no answer is due means that the link is out of step: every later answer would belong
to another question, so the link is closed.
"""

import asyncio
import fcntl
import socket
import termios
from array import array
from collections import deque
from contextlib import suppress
from typing import Any, cast

import hiredis

from tailrace.streams.errors import AccessDenied, AnswerLost, NoStore, StoreError
from tailrace.streams.store.addresses import read_url, tls_context

NO_SUCH_DATABASE = (  # what servers say to SELECT
    "DB index is out of range",
    "invalid DB index",
    "value is not an integer or out of range",
    "SELECT is not allowed in cluster mode",
)
NO_SUCH_LOGIN = (  # what servers say to AUTH, or to anything before it
    *("NOAUTH", "WRONGPASS", "NOPERM", "ERR invalid password", "ERR invalid username-password"),
    *("ERR AUTH <password> called without", "ERR Client sent AUTH, but no password"),
)

# For those who read CLIENT LIST. Servers before 7.2 do not know it, and a user may be forbidden to say it.
LIBRARY = ("CLIENT", "SETINFO", "LIB-NAME", "tailrace")

LONGEST = 12  # times the answer time: a link that brings an answer byte by byte is given up after this
LOOKS = 4  # within the answer time: how often the watch looks whether the link moves

Answer = asyncio.Future[Any]


class Wire(asyncio.Protocol):
    """An open connection."""

    def __init__(self, answer_seconds: float) -> None:
        self._look_due = 0.0
        self._parser = hiredis.Reader()
        self._transport: asyncio.Transport | None = None
        self._due: deque[tuple[Answer, float]] = deque()  # answers not yet heard, and when each was asked for
        self._watch: asyncio.TimerHandle | None = None
        self.answer_within(answer_seconds)
        self._moved = 0.0  # when the link last carried a byte, either way
        self._unsent = 0  # bytes that had not left us at the last look
        self._loop = asyncio.get_running_loop()
        self.closed = False

    def answer_within(self, seconds: float) -> None:
        """Set how long the server may take to answer. Called while no answer is due."""
        self._answer_seconds = seconds
        self._look_seconds = seconds / LOOKS
        if self._watch:  # it would look by the time that was
            self._watch.cancel()
            self._watch = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.closed:  # its opener has given up
            self._transport.abort()

    def send(self, packed: bytes) -> Answer:
        """Send a packed command; the answer is a value, or a `hiredis.ReplyError` as a value."""
        answer = self._loop.create_future()
        if self.closed or self._transport is None or self._transport.is_closing():
            answer.set_exception(NoStore("the connection to the store is closed"))
            return answer
        self._due.append((answer, self._loop.time()))
        self._transport.write(packed)
        if self._watch is None:
            self._unsent = 0
            self._look_later()
        return answer

    @property
    def silent_seconds(self) -> float:
        """For how long an answer has been due while the link carried nothing."""
        return self._loop.time() - max(self._due[0][1], self._moved) if self._due else 0.0

    def close(self, why: str = "the connection to the store was closed") -> None:
        if not self.closed:
            self.closed = True
            if self._transport:
                self._transport.abort()
            if self._watch:
                self._watch.cancel()
            for answer, _ in self._due:
                if not answer.done():
                    answer.set_exception(AnswerLost(why))
                    answer.exception()  # the waiting caller gets it; without one, asyncio must not report it
            self._due.clear()

    def data_received(self, data: bytes) -> None:
        self._moved = self._loop.time()
        self._parser.feed(data)
        try:
            while self._due and (reply := self._parser.gets()) is not False:
                answer, _ = self._due.popleft()
                if not answer.done():
                    answer.set_result(reply)
        except hiredis.ProtocolError as error:
            self.close(f"the store does not speak its protocol: {error}")
            return
        if not self._due and self._parser.has_data():
            self.close("the store sent an answer to no question: the connection is out of step")

    def connection_lost(self, error: Exception | None) -> None:
        self.close(f"the store closed the connection{f': {error}' if error else ''}")

    def eof_received(self) -> None:
        self.close("the store closed the connection")

    def _look(self) -> None:
        """Close a link that carries nothing while an answer is due: it is dead, even if it looks open.

        What counts is silence, not duration: a large answer, or a large request, may take its time on a slow link.
        """
        self._watch = None
        if not self._due:
            return
        now, asked = self._loop.time(), self._due[0][1]
        unsent = self._count_unsent()
        if unsent < self._unsent:
            self._moved = now
        self._unsent = unsent
        if now - self._look_due >= self._look_seconds:  # our own loop stood still: the answer may be there already
            self._look_later()
        elif now - asked >= LONGEST * self._answer_seconds:
            self.close(f"the store took longer than {LONGEST * self._answer_seconds:g} s for an answer")
        elif (left := max(asked, self._moved) + self._answer_seconds - now) <= 0:
            self.close(f"the store did not answer within {self._answer_seconds:g} s")
        else:
            self._look_later(min(left, self._look_seconds))

    def _look_later(self, seconds: float | None = None) -> None:
        self._look_due = self._loop.time() + (self._look_seconds if seconds is None else seconds)
        self._watch = self._loop.call_at(self._look_due, self._look)

    def _count_unsent(self) -> int:
        """The bytes of our requests that the other side has not taken yet."""
        assert self._transport is not None
        left = array("i", [0])
        with suppress(OSError):  # a kind of socket that cannot tell
            fcntl.ioctl(self._transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, left)
        return self._transport.get_write_buffer_size() + left[0]


class Door:
    """Opens connections to one URL."""

    def __init__(self, url: str, connect_seconds: float) -> None:
        """Raises `BadConfiguration` when the URL is wrong."""
        self._connect_seconds = connect_seconds
        self._target = read_url(url)
        self.name = self._target.name

    async def open(self, answer_seconds: float) -> Wire:
        """Raises `AccessDenied` when the credentials do not fit, `NoStore` when the server does not answer."""
        wire = Wire(2 * self._connect_seconds)
        try:
            async with asyncio.timeout(2 * self._connect_seconds):
                async with asyncio.timeout(self._connect_seconds):
                    await self._connect(wire)
                await self._enter(wire)
                wire.answer_within(answer_seconds)
        except AccessDenied:
            wire.close()
            raise
        except (OSError, TimeoutError, RuntimeError, StoreError) as error:
            # RuntimeError is how uvloop says that the other side hung up before we had said a word.
            wire.close()
            why = "no answer in time" if isinstance(error, TimeoutError) else error
            raise NoStore(f"the store does not answer: {self._target.name}: {why}") from error
        except BaseException:
            wire.close()
            raise
        return wire

    async def _connect(self, wire: Wire) -> None:
        loop, target = asyncio.get_running_loop(), self._target
        if not target.host:
            await loop.create_unix_connection(lambda: wire, target.path)
            return
        tls = None if target.tls is None else tls_context(target.tls)  # made again: certificates are renewed
        transport, _ = await loop.create_connection(lambda: wire, target.host, target.port, ssl=tls)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    async def _enter(self, wire: Wire) -> None:
        """Log in, select the database and name the connection, in one trip."""
        target = self._target
        words: list[tuple[Any, ...]] = [("AUTH", *target.login)] if target.login else []
        words += [("CLIENT", "SETNAME", target.client_name)] if target.client_name else []
        words += [("SELECT", target.database)] if target.database else []
        words += [LIBRARY]
        answers = [wire.send(hiredis.pack_command(each)) for each in words]
        for word, answer in zip(words, answers, strict=True):
            refusal = await answer
            if isinstance(refusal, hiredis.ReplyError) and (word != LIBRARY or str(refusal).startswith("NOAUTH")):
                raise self._explain(refusal)

    def _explain(self, refusal: Exception) -> Exception:
        """The error for a refused login: a wrong setting, or a store that may come back."""
        if str(refusal).startswith(NO_SUCH_LOGIN):
            return AccessDenied(f"the store refuses the credentials of REDIS_URL: {refusal}")
        if any(words in str(refusal) for words in NO_SUCH_DATABASE):
            return AccessDenied(
                f"REDIS_URL names database {self._target.database}, which this store does not have: {refusal}"
            )
        return NoStore(str(refusal))
