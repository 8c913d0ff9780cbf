"""One connection that many callers share: commands leave as they come, answers come back in the same order.

redis-py opens the door (URL, TLS, password), hiredis packs and parses, and this protocol does the rest: no pool, no
task and no timer for each command. One watch looks after all answers that are due; a caller that is cancelled just does
not hear its own. Nothing is ever sent twice. Data that arrives while no answer is due means that the link is out of
step: every later answer would belong to another question, so the link is closed.
"""

import asyncio
import fcntl
import termios
from array import array
from collections import deque
from contextlib import suppress
from typing import Any, cast
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

import hiredis
from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from tailrace.streams.errors import AccessDenied, AnswerLost, BadConfiguration, NoStore

NOT_A_URL = (
    "it is no address; write redis://[user:password@]host[:port][/db], with / ? # @ : in a password as %2F and so on"
)
NOT_A_DATABASE = (
    "its database is no whole number; write redis://host:port/0 or unix://path?db=0, "
    "with / ? # @ : in a password as %2F and so on"
)
NO_SUCH_DATABASE = (  # what servers say to SELECT
    "DB index is out of range",
    "invalid DB index",
    "value is not an integer or out of range",
    "SELECT is not allowed in cluster mode",
)

LONGEST = 12  # times the answer time: a link that brings an answer byte by byte is given up after this
LOOKS = 4  # within the answer time: how often the watch looks whether the link moves

Answer = asyncio.Future[Any]


class Wire(asyncio.Protocol):
    """An open connection."""

    def __init__(self, answer_seconds: float) -> None:
        self._answer_seconds = answer_seconds
        self._look_seconds = answer_seconds / LOOKS
        self._look_due = 0.0
        self._parser = hiredis.Reader()
        self._transport: asyncio.Transport | None = None
        self._due: deque[tuple[Answer, float]] = deque()  # answers not yet heard, and when each was asked for
        self._watch: asyncio.TimerHandle | None = None
        self._moved = 0.0  # when the link last carried a byte, either way
        self._unsent = 0  # bytes that had not left us at the last look
        self._loop = asyncio.get_running_loop()
        self.closed = False

    def take_over(self, connection: AbstractConnection) -> None:
        """Go on with a connection that redis-py has opened; it stays referenced, or it would close itself."""
        self._opened_by = connection
        writer = connection._writer  # there is no public way to be handed an open connection
        assert writer is not None
        self._transport = cast(asyncio.Transport, writer.transport)
        self._transport.set_protocol(self)

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
                self._opened_by._reader = self._opened_by._writer = None
            if self._watch:
                self._watch.cancel()
            for answer, _ in self._due:
                if not answer.done():
                    answer.set_exception(AnswerLost(why))
                    answer.exception()  # whoever waits hears it; nobody is told of those that no one waits for
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
        """A link that carries nothing while an answer is due is dead, even if it looks open.

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
        self._connect_seconds = connect_seconds
        try:
            check_database(urlsplit(url))
            self._pool = ConnectionPool.from_url(url)
            self._pool.connection_kwargs |= {  # not given with the URL: its query would go before them
                "protocol": 2,
                "socket_connect_timeout": connect_seconds,
                "retry": Retry(NoBackoff(), 0),
                **({} if url.startswith("unix://") else {"socket_keepalive": True}),
            }
            self._pool.make_connection()  # type: ignore[no-untyped-call]
        except (TypeError, RedisError) as error:  # an option after `?` that there is not, or may not be this
            raise BadConfiguration(f"REDIS_URL: {error}") from None
        except ValueError:  # it may quote a piece of the password
            raise BadConfiguration(f"REDIS_URL: {NOT_A_URL}") from None

    async def open(self, answer_seconds: float) -> Wire:
        connection: Any = self._pool.make_connection()  # type: ignore[no-untyped-call]
        try:
            async with asyncio.timeout(2 * self._connect_seconds):
                await connection.connect()
        except (RedisError, OSError, TimeoutError, RuntimeError) as error:
            # RuntimeError is how uvloop says that the other side hung up before we had said a word.
            await connection.disconnect(nowait=True)
            raise why_not_open(error, connection.db) from error
        wire = Wire(answer_seconds)
        wire.take_over(connection)
        return wire


def why_not_open(error: Exception, database: int) -> AccessDenied | NoStore:
    """Would another address help, or may the store come back?"""
    said = error.__cause__ if isinstance(error.__cause__, RedisError) else error  # on a unix socket it is wrapped
    if isinstance(said, AuthenticationError | NoPermissionError):
        return AccessDenied(f"the store refuses the credentials of REDIS_URL: {said}")
    if any(words in str(said) for words in NO_SUCH_DATABASE):
        return AccessDenied(f"REDIS_URL names database {database}, which this store does not have: {said}")
    return NoStore(f"the store does not answer: {error or type(error).__name__}")


def check_database(url: SplitResult) -> None:
    """Refuse a database that is no number: redis-py would take 0. Perhaps it is a piece of a password: no quoting."""
    if url.port == 0 or url.fragment:  # redis-py would take 6379, and leave out what is part of a password
        raise BadConfiguration(f"REDIS_URL: {NOT_A_URL}")
    path = [] if url.scheme == "unix" else [unquote(url.path).strip("/")]
    for word in (*filter(None, path), *parse_qs(url.query).get("db", [])):
        if not (word.isascii() and word.isdigit()):
            raise BadConfiguration(f"REDIS_URL: {NOT_A_DATABASE}")
