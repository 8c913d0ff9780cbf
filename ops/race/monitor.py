"""Reads MONITOR of a store as attempts to write events, and whether each was written."""

import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from tailrace.streams.functions import functions
from tailrace.streams.history.events import read_body
from tailrace.streams.leases import to_leases
from tailrace.streams.replies import pairs
from tailrace.streams.states import Status

SAYING = frozenset({"report", "complete", "fail"})  # the transitions by which an attempt says something

_LINE = re.compile(rb"\+([0-9.]+) \[\d+ (\S+)[^\]]*\] (.*)", re.DOTALL)
_WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE = re.compile(rb"\\(x[0-9a-f]{2}|.)", re.DOTALL)
_FEED, _LOG, _LEASES = b":events", b":log:", b":leases"
_CONTROL = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b"}


class Write(Struct):
    """An event that an attempt or the store tried to write."""

    at: float  # the store's time, in seconds
    job: str  # its key
    worker: str | None
    attempt: int
    status: str
    step: int | str | None
    accepted: bool = False


class Monitor:
    """Listens to a store from `start` to `stop`. Commands appear before what the scripts they run do."""

    def __init__(self, url: str, show: Callable[[float, Write], None]) -> None:
        """`show` is called for each write as it becomes known."""
        self._link = connect(url)
        self._lines = self._link.makefile("rb")
        self._show = show
        self._thread = threading.Thread(target=self._listen, name="monitor", daemon=True)
        self._changed = threading.Condition()
        self._open: list[tuple[bytes, Write]] = []  # asked for by the script under way, with the event's last bytes
        self._logged: dict[bytes, bytes] = {}  # what it has written into histories, by key and number
        self._owners: dict[bytes, str] = {}  # the worker of each nonce
        self.writes: list[Write] = []

    def start(self) -> None:
        self._link.sendall(b"MONITOR\r\n")
        self._lines.readline()  # +OK: from here on nothing is missed
        self._thread.start()

    def stop(self) -> None:
        self._link.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._lines.close()
        self._link.close()

    def wait_for(self, wanted: Callable[[Write], bool], seconds: float) -> Write | None:
        """The first write that is wanted, as soon as it is there; None when it does not come in time."""
        with self._changed:
            self._changed.wait_for(lambda: any(map(wanted, self.writes)), seconds)
            return next(filter(wanted, self.writes), None)

    def _listen(self) -> None:
        for line in self._lines:
            if found := _LINE.match(line.rstrip(b"\r\n")):
                with self._changed:
                    self._hear(float(found[1]), found[2], [unescape(word) for word in _WORD.findall(found[3])])
                    self._changed.notify_all()

    def _hear(self, at: float, client: bytes, words: Sequence[bytes]) -> None:
        command = words[0].lower()
        if client == b"lua":
            if command == b"hset" and words[1].endswith(_LEASES):
                self._owners |= {lease.nonce.encode(): lease.owner for lease in to_leases(pairs(words[2:]))}
            elif command == b"rpush" and _LOG in words[1]:
                key = words[1].rpartition(_LOG)[2]
                self._logged |= {b"%b %b" % (key, event.partition(b"-")[0]): event for event in words[2:]}
            elif command == b"xadd" and words[1].endswith(_FEED):
                fields = words[words.index(b"*") + 1 :]
                for name, event in zip(fields[::2], fields[1::2], strict=True):
                    # A large event is a pointer in the feed; its history has it whole.
                    self._written(at, name.partition(b" ")[0].decode(), event or self._logged[name])
            return
        # Another command: what the script before it did not write by now was refused.
        for _, write in self._open:
            self._add(write)
        self._open, self._logged = [], {}
        if command in (b"evalsha", b"eval"):
            keys = int(words[2])
            self._open = list(self._asked(at, words[3 + keys :]))

    def _written(self, at: float, job: str, event: bytes) -> None:
        for index, (tail, _) in enumerate(self._open):
            if event.endswith(tail):
                del self._open[index]
                break
        # Not as it was asked for: the store decides whether a failure is tried again, and says `started` by itself.
        self._add(to_write(at, job, event.partition(b" ")[2], accepted=True))

    def _asked(self, at: float, arguments: Sequence[bytes]) -> Iterator[tuple[bytes, Write]]:
        """The events among the operations of a call: how many, then the name and the arguments of each."""
        place = 0
        while place < len(arguments) and arguments[place].isdigit():
            count, place = int(arguments[place]), place + 1
            for _ in range(count):
                function = functions().get(arguments[place].decode())
                if function is None:
                    return  # a script of another program
                values = dict(zip(function.args, arguments[place + 1 :], strict=False))
                if function.name in SAYING:
                    job = values["key"].decode()
                    for tail, event in self._events(job, values):
                        yield tail, to_write(at, job, event)
                place += 1 + len(function.args)

    def _events(self, job: str, values: dict[str, bytes]) -> Iterator[tuple[bytes, bytes]]:
        """The events that an operation brings, each with its last bytes: several of a report, one of any other."""
        if "more" in values:
            yield values["more"] + b"}", self._failure(job, values)
        else:
            for event in (values.get("events") or values["event"]).split(b"\n"):
                yield event, event

    def _failure(self, job: str, values: dict[str, bytes]) -> bytes:
        """The failure that an attempt sends: the store makes the event of it, with the worker's name."""
        owner = self._owners.get(values["nonce"], "~")
        begun = [w.attempt for w in self.writes if (w.job, w.worker, w.status) == (job, owner, Status.STARTED)]
        return f"{begun[-1] if begun else 0} {Status.FAILED} {owner} null".encode() + values["more"] + b"}"

    def _add(self, write: Write) -> None:
        self.writes.append(write)
        self._show(write.at, write)


def to_write(at: float, job: str, body: bytes, *, accepted: bool = False) -> Write:
    """An event as it is kept, without its id."""
    said = read_body(job, body)
    return Write(at, job, said.workerId, said.attempt or 0, said.status, said.step, accepted)


def unescape(word: bytes) -> bytes:
    def one(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes.fromhex(code[1:].decode()) if len(code) == 3 else _CONTROL.get(code, code)

    return _ESCAPE.sub(one, word)


def connect(url: str) -> socket.socket:
    address = urlsplit(url)
    if address.scheme == "unix":
        link = socket.socket(socket.AF_UNIX)
        link.connect(unquote(address.path))
        return link
    return socket.create_connection((address.hostname or "127.0.0.1", address.port or 6379))
