"""Runs races: a store and a gateway for all rounds, two consumers for each, and a record of each round."""

import http.client
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import redis
from msgspec import Struct

from tailrace.ops.race.monitor import Monitor, Write
from tailrace.ops.race.violations import Event, violations
from tailrace.ops.race.watcher import StreamWatcher
from tailrace.ops.up.children import ChildProcess, Family
from tailrace.ops.up.own_store import OwnStore, free_port
from tailrace.ops.up.up import is_ready
from tailrace.streams.errors import TailraceError
from tailrace.streams.history.events import expand
from tailrace.streams.keys import GROUP, PlatformKeys, split_id
from tailrace.streams.process import launch

BEAT, DEADLINE, REAP = 0.4, 1.5, 0.3  # seconds: a short lease, so that a round takes a few seconds
STEPS, STEP_SECONDS = 5, 0.5
JOB_SECONDS = STEPS * STEP_SECONDS
TAKEOVER_SECONDS = DEADLINE + 2 * REAP + 1.0  # when the next attempt has begun at the latest
PATIENCE_SECONDS = 20.0  # for what has no promised time: the start of a process, the answer of a server

KEYS = PlatformKeys("research")
HOST = "127.0.0.1"

Show = Callable[[float, "Write | str"], None]  # called as things happen, with the store's time


class Round(Struct):
    """The record of one race. Times are the store's, in seconds."""

    job: str
    a: str  # the worker that took the job and was frozen
    b: str  # the other one
    began: float
    frozen: float = 0.0
    taken: float = 0.0  # when B began its attempt
    thawed: float = 0.0
    writes: list[Write] = []  # what both tried to write, and what the store wrote by itself
    log: list[Event] = []  # what the store holds
    history: list[Event] = []  # what a client gets
    streams: list[list[Event]] = []  # what live clients gathered
    connections: list[int] = []  # how often each of them connected
    holders: list[str] = []  # the owner of the entry, at each look since A was thawed
    next_job: list[Event] = []  # the history of the job that A was given afterwards
    troubles: list[str] = []

    @property
    def refused(self) -> list[Write]:
        return [write for write in self.writes if not write.accepted]

    def check(self) -> list[str]:
        """Everything that is wrong with this round; nothing: it is clean."""
        found = [*self.troubles, *violations(self.history)]
        said = [event["status"] for event in self.history]
        counts = {status: said.count(status) for status in ("superseded", "completed")}
        found += [f"{status} is there {count} times" for status, count in counts.items() if count != 1]
        if [event["workerId"] for event in self.history if event["status"] == "started"] != [self.a, self.b]:
            found.append("the job was not started by A and then by B")
        if self.log != self.history[1:]:  # `queued` is not stored
            found.append("the store holds more than a client sees")
        for number, stream in enumerate(self.streams, start=1):
            if stream != self.history:
                found.append(f"live client {number} saw another history")
        if any(write.accepted for write in self.writes if write.worker == self.a and write.at >= self.taken):
            found.append("a write of A was accepted after its takeover")
        if self.a in self.holders:
            found.append("the entry went back to A")
        if not self.next_job or self.next_job[-1]["workerId"] != self.a:
            found.append("A did not complete another job")
        return found + [f"the next job: {violation}" for violation in violations(self.next_job)]


class Racetrack:
    """A store and a gateway, for any number of rounds."""

    def __init__(self, family: Family, client: redis.Redis, port: int) -> None:
        self._family = family
        self._client = client
        self._port = port

    def run(self, moment: float, pause: float, show: Show) -> Round:
        """Freeze the worker of the job `moment` seconds into it; thaw it `pause` seconds into the other's attempt."""
        with ExitStack() as ends:
            others = self._owners()
            runners = {name: ends.enter_context(self._consumer(name)) for name in ("worker-1", "worker-2")}
            eventually("one of the workers did not beat", lambda: len(self._owners() - others) == len(runners))
            monitor = Monitor(self._family.url, show)
            ends.callback(monitor.stop)
            monitor.start()
            job = self._submit("careless", {"steps": STEPS, "seconds": STEP_SECONDS})
            watchers = [StreamWatcher((HOST, self._port), job), StreamWatcher((HOST, self._port), job, leaves_after=3)]
            for watcher in watchers:
                watcher.start()
            began = self._said(monitor, job, "started", 1)
            first, second = sorted(self._owners() - others, key=lambda owner: owner != began.worker)
            a, b = (runners[owner.partition(".")[0]] for owner in (first, second))
            race = Round(job, first, second, began.at)

            time.sleep(max(0.0, race.began + moment - self._now()))
            a.signal(signal.SIGSTOP)
            race.frozen = self._now()
            show(race.frozen, "A is frozen (SIGSTOP)")
            race.taken = self._said(monitor, job, "started", 2).at
            if race.taken > race.frozen + TAKEOVER_SECONDS:
                race.troubles.append(f"B took over only {race.taken - race.frozen:.1f} s after A was frozen")
            time.sleep(max(0.0, race.taken + pause - self._now()))
            with looking_at(self._family.url, self._entry(job), race.holders):
                race.thawed = self._now()  # before the signal: what A writes comes after it
                a.signal(signal.SIGCONT)
                show(race.thawed, "A is thawed (SIGCONT)")
                self._said(monitor, job, "completed", 2)
            self._said(monitor, job, "completed", 1)  # A's handler ends as well, and its result is refused

            key = split_id(job)[1]
            race.history = self._call("GET", f"/research/history/{job}")
            race.log = [
                json.loads(expand(job, str(event).encode())) for event in self._client.lrange(KEYS.log(key), 0, -1)
            ]
            race.writes = [write for write in monitor.writes if write.job == key]
            for number, watcher in enumerate(watchers, start=1):
                watcher.join(PATIENCE_SECONDS)
                race.streams.append(watcher.events)
                race.connections.append(watcher.connections)
                if watcher.trouble or watcher.resets:
                    race.troubles.append(f"live client {number}: {watcher.trouble or 'it was sent a reset'}")

            race.troubles += end("B", b)
            show(self._now(), "B has ended; A gets another job")
            another = self._submit("drill", {"steps": 2, "seconds": 0.1})
            self._said(monitor, another, "completed", 1)
            race.next_job = self._call("GET", f"/research/history/{another}")
            race.troubles += end("A", a)
        return race

    def _consumer(self, name: str) -> AbstractContextManager[ChildProcess]:
        return self._family.running(
            name,
            launch.command("tailrace.consumers", KEYS.platform),
            SERVICE_NAME=name,
            TAILRACE_NAMESPACE=None,
            TAILRACE_DURABILITY=None,
            TAILRACE_HANDLERS="tailrace.ops.race.careless_handler",
            TAILRACE_BEAT_SECONDS=str(BEAT),
            TAILRACE_DEADLINE_SECONDS=str(DEADLINE),
            TAILRACE_REAP_SECONDS=str(REAP),
            LLM_SERVER_URL=None,  # no model is asked in a race
            LLM_SERVER_URL_FILE=None,
            TAILRACE_CONFIG=None,  # a race has the built-in platforms and kinds
        )

    def _said(self, monitor: Monitor, job: str, status: str, attempt: int) -> Write:
        """The writes that an attempt tried, as they happen."""
        wanted = (split_id(job)[1], status, attempt)
        write = monitor.wait_for(lambda w: (w.job, w.status, w.attempt) == wanted, PATIENCE_SECONDS)
        if write is None:
            raise TailraceError(f"attempt {attempt} of {job} was not {status} after {PATIENCE_SECONDS:g} s")
        return write

    def _now(self) -> float:
        seconds, microseconds = self._client.time()
        return float(seconds + microseconds / 1e6)

    def _owners(self) -> set[str]:
        return set(map(str, self._client.hkeys(KEYS["beats"])))

    def _entry(self, job: str) -> str:
        return str(self._client.hget(KEYS.record(split_id(job)[1]), "entry"))

    def _submit(self, kind: str, args: dict[str, Any]) -> str:
        job_id: str = self._call("POST", "/api/jobs", {"platform": KEYS.platform, "kind": kind, "args": args})["jobId"]
        return job_id

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        link = http.client.HTTPConnection(HOST, self._port, timeout=PATIENCE_SECONDS)
        try:
            headers = {"Content-Type": "application/json"}
            link.request(method, path, None if body is None else json.dumps(body), headers if body else {})
            response = link.getresponse()
            answer = json.loads(response.read())
        finally:
            link.close()
        if response.status >= 400:
            raise TailraceError(f"{method} {path} answered {response.status}: {answer.get('detail')}")
        return answer


@contextmanager
def open_track(folder: Path) -> Iterator[Racetrack]:
    """Everything of it writes into this folder."""
    with (
        OwnStore(folder / "store") as store,
        closing(Family(store.url, folder)) as family,
        redis.Redis.from_url(store.url, decode_responses=True) as client,
    ):
        port = free_port(0)
        told = {
            "HOST": HOST,
            "PORT": str(port),
            "TAILRACE_NAMESPACE": None,
            "TAILRACE_DURABILITY": None,
            "TAILRACE_CONFIG": None,
        }
        with family.running("gateway", launch.command("tailrace.gateway"), **told):
            eventually("the gateway was not ready", lambda: is_ready(HOST, port))
            yield Racetrack(family, client, port)


def end(letter: str, consumer: ChildProcess) -> list[str]:
    """Let a consumer drain; what went wrong."""
    code = consumer.end(PATIENCE_SECONDS)
    return [f"{letter} ended with code {code}"] if code else []


@contextmanager
def looking_at(url: str, entry: str, holders: list[str]) -> Iterator[None]:
    """Note again and again which consumer holds an entry, until the block ends."""
    enough = threading.Event()

    def look() -> None:
        with redis.Redis.from_url(url, decode_responses=True) as client:
            while not enough.wait(0.01):
                pending = client.xpending_range(KEYS.jobs("normal"), GROUP, entry, entry, 1)
                holders.extend(str(found["consumer"]) for found in pending)

    thread = threading.Thread(target=look, name="looks", daemon=True)
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join()


def eventually(what: str, happens: Callable[[], bool]) -> None:
    patience = time.monotonic() + PATIENCE_SECONDS
    while not happens():
        if time.monotonic() > patience:
            raise TailraceError(f"after {PATIENCE_SECONDS:g} s, {what}")
        time.sleep(0.02)
