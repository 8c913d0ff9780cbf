"""`up`: everything on this machine, from the store to the consumers, for as long as this command runs."""

import argparse
import http.client
import json
import os
import shlex
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from tailrace.consumers.handlers.material import OF_UP
from tailrace.consumers.handlers.model import Model
from tailrace.consumers.settings import ConsumerSettings
from tailrace.gateway.settings import GatewaySettings
from tailrace.ops.hints import command
from tailrace.ops.terminal import say
from tailrace.ops.up.children import Family, KeptChild
from tailrace.ops.up.own_cluster import OwnCluster
from tailrace.ops.up.own_kinds import OwnKind, own_kinds
from tailrace.ops.up.own_store import Ownership, OwnStore, free_port, make_folder
from tailrace.streams.errors import BadConfiguration, TailraceError
from tailrace.streams.policies import Platforms
from tailrace.streams.process import launch
from tailrace.streams.process.settings import Environment
from tailrace.streams.process.shutdown import Shutdown
from tailrace.streams.process.supervisor import FIRST_PAUSE, LONGEST_PAUSE, SETTLED_SECONDS, end_all
from tailrace.streams.store.connection import Store
from tailrace.streams.store.fitness import check_fitness

FIRST = ("research", "default")  # the platforms of the first examples: they are served first
SETTLE_SECONDS = 10.0  # beyond the grace: what a child may take to hand back, close and say goodbye
STORE_LOOK_SECONDS = 0.2
MOST_PRIMARIES = 16
START_SECONDS = 0.6  # what a consumer and its heart take of one processor until they are at work
NOT_FOR_HANDLERS = {"TAILRACE_API_KEYS": None, "TAILRACE_API_KEYS_FILE": None}  # a consumer runs code of others


def run(options: argparse.Namespace) -> int:
    # All settings are read here: a wrong one stops us before anything is started.
    settings = GatewaySettings.read(port=options.port)
    lanes = chosen_lanes(settings.streams.platforms, options.platforms)
    consumers = ConsumerSettings.read(settings.streams.platforms)
    if settings.streams.builtins:
        Model.read()
    refuse_folder_in_use(options.data)  # before the port, which the other one holds as well
    port = free_port(settings.port, settings.host)
    with folder_and_store(options.data, settings.streams.url, options.cluster) as (url, own_store):
        family = Family(url, options.data / "logs")
        try:
            up = Up(family, own_store, lanes, (settings.host, port), consumers, settings)
            anyio.run(up.run)
        finally:
            family.close()
    say("stopped")
    return 0


def refuse_folder_in_use(data: Path) -> None:
    if data.is_dir():
        folder = Ownership(data)
        folder.take()
        folder.give_back()


def chosen_lanes(platforms: Platforms, given: str | None) -> dict[str, list[str]]:
    """The platforms to serve, by the consumer process that serves them."""
    source = "WORKER_PLATFORMS" if given is None else "--platforms"
    words = [word for part in (given or "").split(",") if (word := part.strip())]
    names = words if given is not None else Environment().words("WORKER_PLATFORMS")
    if unknown := [name for name in names if not platforms.serving(name)]:
        raise BadConfiguration(f"{source} names {', '.join(unknown)}; declared are {', '.join(platforms)}")
    wanted = {served for name in names for served in platforms.serving(name)} or set(platforms)
    lanes = {lane: [name for name in members if name in wanted] for lane, members in platforms.lanes().items()}
    return {lane: members for lane, members in lanes.items() if members}


@contextmanager
def folder_and_store(
    data: Path, url: str | None, primaries: int | None
) -> Iterator[tuple[str, OwnStore | OwnCluster | None]]:
    """Own the data folder; with a store of our own in it unless there is a URL of another."""
    if primaries is not None:
        if url is not None or not 3 <= primaries <= MOST_PRIMARIES:
            why = "REDIS_URL names another store; unset it" if url else f"it must be from 3 to {MOST_PRIMARIES}"
            raise BadConfiguration(f"--cluster {primaries}: {why}")
        with OwnCluster(data, primaries, settings=settings_for_others()) as cluster:
            say(f"store      a cluster of {primaries} {cluster.server.name} in {data}")
            yield cluster.url, cluster
        return
    if url is None:
        with OwnStore(data, settings=settings_for_others()) as store:
            say(f"store      {store.server.name} in {data}")
            yield store.url, store
        return
    anyio.run(look_at, url)
    make_folder(data)
    folder = Ownership(data)
    folder.take()
    try:
        yield url, None
    finally:
        folder.give_back()


def settings_for_others() -> dict[str, str]:
    """The settings for commands in another terminal: platforms, policies and namespace."""
    env = Environment()
    config = env.text("TAILRACE_CONFIG")
    told = {
        "TAILRACE_CONFIG": config and str(Path(config).absolute()),
        "TAILRACE_PLATFORMS": env.text("TAILRACE_PLATFORMS"),
        "TAILRACE_NAMESPACE": env.text("TAILRACE_NAMESPACE"),
    }
    return {name: value for name, value in told.items() if value}


async def look_at(url: str) -> None:
    async with Store(url) as store:  # a look at the server, not at its keys
        for advice in await check_fitness(store):
            say(f"store      {advice}")


class Up:
    """The gateway, the consumers and their store, from the first start to the last end."""

    def __init__(
        self,
        family: Family,
        own_store: OwnStore | OwnCluster | None,
        lanes: dict[str, list[str]],
        address: tuple[str, int],
        consumers: ConsumerSettings,
        settings: GatewaySettings,
    ) -> None:
        self._locked = bool(settings.keys)
        self._builtins = settings.streams.builtins
        self._handlers = consumers.handlers
        self._own_store = own_store
        self._platforms = [name for members in lanes.values() for name in members]
        self._logs = family.logs
        self._host, self._port = address
        self._grace_seconds = consumers.grace_seconds
        self._gateway = KeptChild(
            family, "gateway", launch.command("tailrace.gateway"), HOST=self._host, PORT=str(self._port)
        )
        for_consumers = {**NOT_FOR_HANDLERS, OF_UP: str((family.logs.parent / "materials").absolute())}
        self._metrics = metrics_ports(lanes)
        self._consumers = [
            KeptChild(
                family,
                f"consumer-{lane}",
                launch.command("tailrace.consumers", *lanes[lane]),
                **for_consumers,
                TAILRACE_METRICS_PORT=self._metrics.get(lane),
            )
            for lane in sorted(lanes, key=lambda lane: FIRST.index(lane) if lane in FIRST else len(FIRST))
        ]
        self._begun: list[KeptChild] = []

    async def run(self) -> None:
        shutdown = Shutdown()
        try:
            with shutdown.listening():
                async with anyio.create_task_group() as tasks:
                    for server in self._own_store.nodes if self._own_store else ():
                        tasks.start_soon(keep_store, server)
                    tasks.start_soon(self._gateway.keep)
                    tasks.start_soon(self._begin, tasks, shutdown)
                    await shutdown.drain.wait()
                    await self._end(shutdown)
                    tasks.cancel_scope.cancel()
        except* BadConfiguration as refusals:  # one wrong setting may stop all consumers: one sentence will do
            raise refusals.exceptions[0] from None

    async def _begin(self, tasks: TaskGroup, shutdown: Shutdown) -> None:
        """Start the first consumer beside the gateway, say that we are ready when that is, and start the others.

        One after the other: all at once they would keep the processors from each other, and none would serve for long.
        """
        first, *others = self._consumers
        self._begin_one(tasks, first)
        await wait_until_ready(self._host, self._port)
        self._greet()
        for consumer in others:
            if shutdown.drain.is_set():
                return
            self._begin_one(tasks, consumer)
            await anyio.sleep(START_SECONDS / (os.cpu_count() or 1))

    def _begin_one(self, tasks: TaskGroup, consumer: KeptChild) -> None:
        self._begun.append(consumer)
        tasks.start_soon(consumer.keep)

    async def _end(self, shutdown: Shutdown) -> None:
        grace = f"{self._grace_seconds:g} s"
        say(f"stopping: running jobs may take up to {grace} to finish; Ctrl-C again hands them back at once")
        await end_all(self._begun, self._grace_seconds + SETTLE_SECONDS, shutdown)
        await end_all([self._gateway], SETTLE_SECONDS, shutdown)

    def _metrics_line(self) -> str:
        ports = [f"{lane} {port}" for lane, port in self._metrics.items()]
        return f"\nmetrics    {', '.join(ports)}" if ports else ""

    def _greet(self) -> None:
        url = f"http://{f'[{self._host}]' if ':' in self._host else self._host}:{self._port}"
        own = own_kinds(self._handlers) if self._handlers else []
        ours = self._builtins and not self._handlers
        path, body, words = example(self._platforms) if ours else own_example(self._platforms, own)
        key = ' -H "Authorization: Bearer $API_KEY"' if self._locked else ""
        ask = "first      read -rs API_KEY     # one of your keys; it is not shown\n" if self._locked else ""
        print(
            f"""ready      {url}
platforms  {", ".join(self._platforms)}
logs       {self._logs}{self._metrics_line()}

{ask}try        curl -X POST {url}{path}{key} -H 'Content-Type: application/json' -d {shlex.quote(body)}
or         {command(words, self._logs.parent)}
stop       Ctrl-C""",
            flush=True,
        )


def metrics_ports(lanes: Collection[str]) -> dict[str, str]:
    """The metrics port of each consumer: the first has TAILRACE_METRICS_PORT, each of the others the next one."""
    first = Environment().whole("TAILRACE_METRICS_PORT", 0, least=1, most=65536 - len(lanes))
    return {lane: str(first + number) for number, lane in enumerate(lanes)} if first else {}


def example(platforms: list[str]) -> tuple[str, str, str]:
    """A first job for a consumer that runs here: path and body for curl, and the same as a command."""
    if FIRST[0] in platforms:
        query = json.dumps({"query": "why do rivers meander"})
        return "/research/start", query, f"submit research research {shlex.quote(query)} --follow"
    body = json.dumps({"platform": platforms[0], "kind": "scan"})
    return "/api/jobs", body, f"submit {platforms[0]} scan --follow"


def own_example(platforms: list[str], kinds: Sequence[OwnKind]) -> tuple[str, str, str]:
    """A first job of the first kind of the user, on its platform if that is served here."""
    served = [each for each in kinds if each.platform in (None, *platforms)]
    kind, named = served[0] if served else OwnKind("KIND", None)
    platform = named or platforms[0]
    body = json.dumps({"platform": platform, "kind": kind, "args": {}})
    return "/api/jobs", body, f"submit {platform} {shlex.quote(kind)} ARGS --follow"


async def wait_until_ready(host: str, port: int) -> None:
    while True:
        if await anyio.to_thread.run_sync(is_ready, host, port, abandon_on_cancel=True):
            return
        await anyio.sleep(0.03)


def is_ready(host: str, port: int) -> bool:
    link = http.client.HTTPConnection(host, port, timeout=2)  # unlike urllib it never asks a proxy
    try:
        link.request("GET", "/readyz")
        return link.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        link.close()


async def keep_store(store: OwnStore) -> None:
    """Bring the own store back when it died; whatever it had written is in its folder.

    One that does not start, or dies again soon, as on a full disk, is tried again after longer and longer pauses.
    """
    pause, begun, said = FIRST_PAUSE, time.monotonic(), ""
    while True:
        await anyio.sleep(STORE_LOOK_SECONDS)
        if store.is_alive():
            continue
        if time.monotonic() - begun > SETTLED_SECONDS:
            pause, said = FIRST_PAUSE, ""
        why = store.why_down()
        if why != said:
            say(f"store      it died ({why}); it is started again until it stays (see {store.log})")
        said = why
        store.stop()
        await anyio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
        begun = time.monotonic()
        with suppress(TailraceError):  # why, the next look says
            await anyio.to_thread.run_sync(store.start)
