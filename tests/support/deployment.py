"""A small deployment for one test: a store, real consumers and gateways, and what can be seen of it from outside."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import httpx2
import msgspec

from tailrace.producers import Producer, Submission
from tailrace.producers.settings import StreamsSettings
from tailrace.streams.errors import StoreError
from tailrace.streams.history.events import Event, decode_event
from tailrace.streams.history.fold import visible
from tailrace.streams.keys import BANDS, GROUP, split_id
from tailrace.streams.leases import to_lease
from tailrace.streams.messages import Lease, Record
from tailrace.streams.process.settings import Environment
from tailrace.streams.replies import pairs, read_job, read_record
from tailrace.streams.states import TERMINAL, Status
from tailrace.streams.transitions import Transitions
from tests.support.eventually import eventually
from tests.support.follower import Follower
from tests.support.ports import free_port
from tests.support.processes import ConsumerProcess, GatewayProcess, Pace, Process

PACE = Pace()

_decode_history = msgspec.json.Decoder(list[Event]).decode


class Deployment:
    """Everything it started ends with it."""

    def __init__(self, url: str, folder: Path, config: str = "") -> None:
        """`config` is what TAILRACE_CONFIG names for every process: tables of TOML."""
        self.url = url
        self.folder = folder
        self._environment: dict[str, str] = {}
        if config:
            (folder / "tailrace.toml").write_text(config)
            self._environment = {"TAILRACE_CONFIG": str(folder / "tailrace.toml")}
        settings = StreamsSettings.read(Environment({**self._environment, "REDIS_URL": url}))
        self.store = settings.open(url)
        self.producer = Producer(Transitions(self.store), settings.platforms)
        self.http = httpx2.AsyncClient(timeout=10.0)
        self.accepted: list[str] = []  # the ledger: every job that was accepted, in order
        self.gateways: list[GatewayProcess] = []
        self._processes: list[Process] = []
        self._clients: list[asyncio.Task[list[Event]]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        for process in self._processes:
            process.close()
        await self.http.aclose()
        await self.store.aclose()

    # What runs

    async def consumer(
        self, *platforms: str, pace: Pace = PACE, url: str | None = None, **environment: str
    ) -> ConsumerProcess:
        """A consumer that beats. With `url` it reaches the store by another way than the test does."""
        consumer = self.start_consumer(*platforms, pace=pace, url=url, **environment)
        await self.beating(consumer)
        return consumer

    def start_consumer(
        self, *platforms: str, pace: Pace = PACE, url: str | None = None, **environment: str
    ) -> ConsumerProcess:
        consumer = ConsumerProcess(
            url or self.url, platforms, pace, self._log("consumer"), {**self._environment, **environment}
        )
        self._processes.append(consumer)
        return consumer

    async def consumers(
        self, count: int, *platforms: str, pace: Pace = PACE, **environment: str
    ) -> list[ConsumerProcess]:
        """Several alike, started at one time."""
        starting = (self.consumer(*platforms, pace=pace, **environment) for _ in range(count))
        return await asyncio.gather(*starting)

    async def beating(self, consumer: ConsumerProcess) -> None:
        """Wait until its heart has beaten on each of its platforms."""

        async def beats() -> bool:
            assert consumer.alive, f"it ended at once; it said:\n{consumer.log.read_text()}"
            started = consumer.said("consumer_started")
            if not started:
                return False
            served = started[0]["platforms"].split(",")
            try:
                return all([consumer.owner in await self.beats(platform) for platform in served])
            except StoreError:  # in a storm the store may be away just now
                return False

        try:
            await eventually("the consumer beats", beats, seconds=60.0)
        except AssertionError as late:
            raise AssertionError(f"{late}; it said:\n{consumer.log.read_text()}") from None

    async def gateway(self, *, again: GatewayProcess | None = None) -> GatewayProcess:
        """A gateway that answers; or again one, at the address where it was. Histories are read through the first."""
        port = again.port if again else free_port()
        gateway = GatewayProcess(self.url, port, self._log("gateway"), self._environment)
        self._processes.append(gateway)

        async def ready() -> bool:
            assert gateway.alive, f"it ended at once; it said:\n{gateway.log.read_text()}"
            try:
                return (await self.http.get(f"{gateway.url}/readyz")).status_code == 200
            except httpx2.TransportError:
                return False

        if again:
            self.gateways[self.gateways.index(again)] = gateway
        else:
            self.gateways.append(gateway)
        await eventually("the gateway answers", ready)
        return gateway

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}-{len(self._processes)}.log"

    # What is asked for

    async def submit(self, platform: str, *, kind: str = "drill", **args: Any) -> str:
        """A job's id. Drills work for `seconds` in each of their `steps`."""
        submitted = await self.producer.submit(Submission(platform, kind, args))
        self.accepted.append(submitted.id)
        return submitted.id

    # What is seen

    async def history(self, job_id: str) -> list[Event]:
        """What a client sees: over HTTP when there is a gateway, else folded here."""
        if self.gateways:
            reply = await self.http.get(f"{self.gateways[0].url}/research/history/{job_id}")
            assert reply.status_code == 200, reply.text
            return _decode_history(reply.content)
        platform, key = split_id(job_id)
        _, events = await read_job(self.store, self.store.keys(platform), key)
        return [decode_event(raw) for _, raw in visible(job_id, events)]

    async def raw_log(self, job_id: str) -> list[Event]:
        """Every event in the store, whether a client sees it or not; `queued` is not stored."""
        platform, key = split_id(job_id)
        _, events = await read_job(self.store, self.store.keys(platform), key)
        return [decode_event(raw) for raw in events[1:]]

    async def started(self, job_id: str, attempt: int = 1, *, seconds: float = 60.0) -> Event:
        """Wait until an attempt has started."""

        async def look() -> Event | None:
            events = await self.raw_log(job_id)
            return next((e for e in events if e.status is Status.STARTED and e.attempt == attempt), None)

        found = await eventually(f"attempt {attempt} of {job_id} started", look, seconds=seconds)
        assert found
        return found

    async def reached(self, job_id: str, step: int, attempt: int = 1) -> None:
        """Wait until an attempt has shown a step."""

        async def look() -> bool:
            return any(e.attempt == attempt and e.step == step for e in await self.raw_log(job_id))

        await eventually(f"attempt {attempt} of {job_id} reached step {step}", look)

    async def ended(self, job_id: str, *, seconds: float = 60.0) -> list[Event]:
        """Wait for the end; the answer is the whole visible history."""

        async def look() -> bool:
            events = await self.raw_log(job_id)
            return bool(events) and events[-1].status in TERMINAL

        await eventually(f"{job_id} ended", look, seconds=seconds)
        return await self.history(job_id)

    async def all_ended(self, job_ids: Iterable[str], *, seconds: float = 60.0) -> dict[str, list[Event]]:
        return {job_id: await self.ended(job_id, seconds=seconds) for job_id in job_ids}

    async def record(self, job_id: str) -> Record:
        platform, key = split_id(job_id)
        return await read_record(self.store, self.store.keys(platform), key)

    async def beats(self, platform: str) -> dict[str, str]:
        return pairs(await self.store.command("HGETALL", self.store.keys(platform)["beats"]))

    async def leases(self, platform: str) -> list[Lease]:
        found = pairs(await self.store.command("HGETALL", self.store.keys(platform)["leases"]))
        return [to_lease(nonce, text) for nonce, text in found.items()]

    async def holder(self, job_id: str) -> str | None:
        """Under which group consumer the job's entry pends; None when it does not."""
        record = await self.record(job_id)
        jobs = self.store.keys(record.platform).jobs(record.band)
        found = await self.store.command("XPENDING", jobs, GROUP, record.entry, record.entry, 1)
        return found[0][1].decode() if found else None

    async def group_consumers(self, platform: str) -> set[str]:
        """Everyone the platform's group knows, over all bands."""
        names = set()
        for jobs in map(self.store.keys(platform).jobs, BANDS):
            if await self.store.command("EXISTS", jobs):
                rows = await self.store.command("XINFO", "CONSUMERS", jobs, GROUP)
                names |= {row[row.index(b"name") + 1].decode() for row in rows}
        return names

    def follow(self, gateway: GatewayProcess, job_id: str) -> asyncio.Task[list[Event]]:
        """Gather what a client of this gateway sees until the job's end."""
        client = asyncio.get_running_loop().create_task(Follower(self.http, gateway.url, job_id).run())
        self._clients.append(client)
        return client
