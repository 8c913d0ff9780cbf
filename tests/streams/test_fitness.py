"""Whether a server is fit to keep jobs: asked at the start, and again while processes run."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.errors import AccessDenied, UnfitStore
from tailrace.streams.store import fitness
from tailrace.streams.store.connection import Store
from tailrace.streams.store.fitness import NOT_FROM_SCRIPTS, ONLY_ON_CLUSTERS, ONLY_WITH_REPLICAS, check_fitness
from tailrace.streams.store.roles import commands
from tests.gateway.gateways import gateway_thread
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.problems import problem_of
from tests.support.processes import GatewayProcess

SOURCES = ("streams", "gateway", "consumers", "producers")
ROOT = Path(__file__).parents[2]
SENT = re.compile(r'(?:\.command|[\[( ])\(\s*"([A-Z]+)"(?:, "([A-Z]+)")?[,)]')


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with Store(store_url) as store:
        yield store


@pytest.fixture
def own(server: OwnStore, tmp_path: Path) -> Iterator[OwnStore]:
    """A server whose settings a test may change."""
    with OwnStore(tmp_path / "own", server=server.server) as own:
        yield own


async def refusals(deployment: Deployment) -> list[str]:
    """The one line that a consumer and a gateway write when they refuse their store."""
    consumer = deployment.start_consumer("kurly")
    gateway = GatewayProcess(deployment.url, free_port(), deployment.folder / "gateway.log", {})
    try:
        assert set(await asyncio.gather(consumer.ended(), gateway.ended())) == {78}
    finally:
        gateway.close()
    lines = [process.log.read_text().splitlines() for process in (consumer, gateway)]
    assert [len(each) for each in lines] == [1, 1]
    return [each[0] for each in lines]


async def test_a_server_in_cluster_mode_is_refused(server: OwnStore, tmp_path: Path) -> None:
    clustered = OwnStore(
        tmp_path,
        server=server.server,
        port=free_port(),
        extra_args=["--cluster-enabled", "yes", "--cluster-port", "0"],
    )
    with clustered:
        async with Deployment(clustered.url, tmp_path) as deployment:
            with pytest.raises(UnfitStore, match=r"runs in cluster mode; write REDIS_URL as redis\+cluster://127"):
                await check_fitness(deployment.store)
            for said in await refusals(deployment):
                assert f"redis+cluster://127.0.0.1:{clustered.port}" in said


async def user(store: Store, *rules: str) -> str:
    """The address for a user with these rules."""
    await store.command("ACL", "SETUSER", "narrow", "reset", "on", ">secret", "~tr:*", "+@all", *rules)
    return store.url.replace("://", "://narrow:secret@")


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ("-xadd", "XADD"),
        ("-hget", "HGET"),
        ("-xgroup|create", "XGROUP CREATE"),
        ("-xread", "XREAD"),
        ("-time", "TIME"),
        ("-blpop", "BLPOP"),
        ("-evalsha", "EVALSHA"),
        ("-@hash", "HDEL, .*HGET"),
    ],
)
async def test_a_user_that_may_not_run_a_command_is_told_which(store: Store, rule: str, named: str) -> None:
    async with Store(await user(store, rule)) as narrow:
        with pytest.raises(AccessDenied, match=f"does not let the user of REDIS_URL run .*{named}"):
            await check_fitness(narrow)


async def test_a_user_that_may_not_use_our_keys_is_told_so(store: Store) -> None:
    async with Store(await user(store, "resetkeys", "~other:*")) as narrow:
        (advice,) = await check_fitness(narrow)
        assert "user of REDIS_URL use keys such as tr:{default}:control; allow them with ACL SETUSER" in advice
        with pytest.raises(AccessDenied, match="does not let the user of REDIS_URL do that; allow it"):
            await narrow.command("HLEN", narrow.keys("default")["leases"])


async def test_a_user_of_these_keys_and_commands_alone_is_enough(store: Store) -> None:
    allowed = [f"+{command.lower()}" for command in (*commands(), *NOT_FROM_SCRIPTS)]
    handshake = ["+eval", "+info", "+client", "+select", "+ping"]
    keys = await store.command("DBSIZE")
    async with Store(await user(store, "-@all", *handshake, *allowed)) as narrow:
        await check_fitness(narrow)
    assert await store.command("DBSIZE") == keys, "the question changes nothing"


async def test_every_command_that_python_sends_is_asked_for(valkey_url: str) -> None:
    """Each is the first word of a tuple, or of the arguments of `command`."""
    async with Store(valkey_url) as store:
        known = {name.decode().upper() for name in await store.command("COMMAND", "LIST")}
    sent = set()
    for file in (file for folder in SOURCES for file in (ROOT / folder).rglob("*.py")):
        for first, second in SENT.findall(file.read_text()):
            sent.add(f"{first}|{second}" if first == "XINFO" else first)
    asking = {"AUTH", "CLIENT", "EVAL", "INFO", "SELECT"}  # before anything else, as every client does
    other = {"KEYS", "READONLY"}  # a word of the loader, and one of the server
    words = {word for word in sent - asking - other if word.partition("|")[0] in known}
    others = {*NOT_FROM_SCRIPTS, *ONLY_ON_CLUSTERS, *ONLY_WITH_REPLICAS, "CLUSTER"}
    assert sorted(words - {*commands(), *others}) == []
    assert {"XREAD", "HGETALL", "TIME", "XINFO|STREAM"} <= words


async def test_consumer_and_gateway_end_with_78_and_one_sentence_when_a_command_is_forbidden(
    store: Store, tmp_path: Path
) -> None:
    url = await user(store, "-xadd")
    async with Deployment(url, tmp_path) as deployment:
        for said in await refusals(deployment):
            assert "run XADD" in said
            assert "secret" not in said


async def test_a_store_that_begins_to_evict_takes_no_new_job_until_it_stops(
    own: OwnStore, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fitness, "EVERY_SECONDS", 0.1)
    body: dict[str, Any] = {"platform": "kurly", "kind": "drill"}
    async with Store(own.url) as store:
        with gateway_thread(own.url) as gateway:
            async with httpx2.AsyncClient(base_url=gateway.url, timeout=20) as http:
                assert (await http.post("/api/jobs", json=body)).status_code == 202
                await store.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")

                async def answers(status: int) -> bool:
                    return (await http.post("/api/jobs", json=body)).status_code == status

                await eventually("new jobs are refused", lambda: answers(503))
                refused = await http.post("/api/jobs", json=body)
                told = problem_of(refused, 503, "STORE_UNFIT")
                assert "allkeys-lru" in told["detail"]
                assert "jobIds" not in told
                assert int(refused.headers["retry-after"]) > 0
                problem_of(await http.get("/readyz"), 503, "STORE_UNFIT")
                await store.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
                await eventually("new jobs are accepted", lambda: answers(202))
                assert (await http.get("/readyz")).status_code == 200


async def test_a_verdict_is_logged_once_and_so_is_its_end(
    own: OwnStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "tailrace")
    monkeypatch.setattr(fitness, "EVERY_SECONDS", 0.02)
    async with Store(own.url) as store:
        watch = fitness.Fitness(store)
        looking = asyncio.create_task(watch.run())
        await store.command("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
        await eventually("it is unfit", lambda: asyncio.sleep(0, watch.unfit))
        await asyncio.sleep(0.2)  # several looks
        await store.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
        await eventually("it is fit", lambda: asyncio.sleep(0, not watch.unfit))
        looking.cancel()
    assert caplog.text.count("store_unfit") == 1
    assert caplog.text.count("store_fit_again") == 1


async def test_what_is_only_not_recommended_is_advice(own: OwnStore) -> None:
    async with Store(own.url) as store:
        await store.command("CONFIG", "SET", "appendonly", "no")
        (advice,) = await check_fitness(store)
        assert "append-only" in advice
