"""A user of the store for each role: each does its own work, and what it must not do is refused."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tailrace.ops.deploy.users import FILE, users
from tailrace.ops.monitoring.incidents import IncidentWatch
from tailrace.ops.up.own_cluster import OwnCluster
from tailrace.ops.up.own_store import OwnStore
from tailrace.producers import Tailrace
from tailrace.producers.platforms import BUILT_IN
from tailrace.streams.errors import AccessDenied
from tailrace.streams.store.connection import Store
from tailrace.streams.store.fitness import check_fitness
from tailrace.streams.store.roles import ROLES, RoleName, rules
from tailrace.streams.store.shared_keys import close_incident, open_incident, read_incidents
from tailrace.streams.transitions import Transitions
from tests.gateway.gateways import GatewayProcess
from tests.ops.commands import Here
from tests.support.deployment import Deployment
from tests.support.server import QUICK, SERVERS

NOT_FOR_ANYBODY = [
    ("FLUSHALL",),
    ("KEYS", "*"),
    ("CONFIG", "GET", "*"),
    ("SHUTDOWN", "NOSAVE"),
    ("ACL", "LIST"),
    ("SCRIPT", "FLUSH"),
    ("CLIENT", "KILL", "TYPE", "normal"),
    ("GET", "another-application"),
    ("SET", "another-application", "x"),
]


@pytest.fixture(scope="module", params=SERVERS)
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnStore]:
    """A server that has read the file; each user is on, with its name as password."""
    program = SERVERS[request.param]()
    if program is None:
        request.getfixturevalue("leave_out")(f"there is no {request.param} server")
    folder = tmp_path_factory.mktemp("users")
    lines = [line.replace(" off ", f" on >{line.split()[1]} ", 1) for line in FILE.read_text().splitlines()]
    (folder / "users.acl").write_text("\n".join(lines) + "\n")
    extra = (*QUICK, "--aclfile", str(folder / "users.acl"))
    with OwnStore(folder / "data", server=program, extra_args=extra) as store:
        yield store


def url_of(store: OwnStore | OwnCluster, role: RoleName) -> str:
    scheme, _, where = store.url.partition("://")
    return f"{scheme}://{role}:{role}@{where.rpartition('@')[2]}"


@pytest.fixture
async def deployment(guarded: OwnStore, tmp_path: Path) -> AsyncIterator[Deployment]:
    """Its own hands have all rights; what it starts has those of a consumer."""
    async with Deployment(guarded.url, tmp_path) as deployment:
        await deployment.store.command("FLUSHALL")
        yield deployment


def test_the_file_is_made_of_what_is_sent() -> None:
    assert FILE.read_text() == users(), "run `python3 -m tailrace.ops.deploy.users`"


@pytest.mark.parametrize("role", ROLES)
async def test_nobody_may_do_what_tailrace_never_does(guarded: OwnStore, role: RoleName) -> None:
    async with Store(url_of(guarded, role)) as store:
        for command in NOT_FOR_ANYBODY:
            with pytest.raises(AccessDenied):
                await store.command(*command)


async def test_every_role_does_its_own_work(deployment: Deployment, guarded: OwnStore, here: Here) -> None:
    await every_role_works(deployment, guarded, here)


@pytest.mark.chaos
async def test_every_role_does_its_own_work_on_a_cluster(tmp_path: Path, here: Here) -> None:
    with OwnCluster(tmp_path / "cluster", extra_args=QUICK) as cluster:
        for node in cluster.nodes:
            for role in ROLES:
                cluster.ask(node, "ACL", "SETUSER", role, "on", f">{role}", *rules(role))
        async with Deployment(cluster.url, tmp_path) as deployment:
            await every_role_works(deployment, cluster, here)
        for role in ROLES:
            async with Store(url_of(cluster, role)) as store:
                for server in await store.nodes():
                    with pytest.raises(AccessDenied):
                        await server.command("CLUSTER", "FLUSHSLOTS")


async def every_role_works(deployment: Deployment, guarded: OwnStore | OwnCluster, here: Here) -> None:
    consumer = await deployment.consumer("research", url=url_of(guarded, "consumer"))
    with GatewayProcess(url_of(guarded, "gateway")) as gateway:

        async def call(method: str, path: str, body: Any = None, expect: int = 200) -> Any:
            answer = await deployment.http.request(method, gateway.url + path, json=body)
            assert answer.status_code == expect, (path, answer.text)
            return answer.json() if "json" in answer.headers.get("content-type", "") else None

        drill = {"platform": "research", "kind": "drill", "args": {"steps": 2, "seconds": 0.1, "result": "done"}}
        job = (await call("POST", "/api/jobs", drill, 202))["jobId"]
        async with Tailrace(url_of(guarded, "producer")) as tr:
            mine = await tr.submit("research", "drill", {"steps": 1, "seconds": 0.0, "result": "mine"})
            assert await tr.result(job, timeout=20) == "done"
            assert await tr.result(mine.id, timeout=20) == "mine"
            late = await tr.submit("research", "drill", {"steps": 1}, delay_seconds=600)
            assert (await tr.cancel(late.id)).status == "cancelled"
        failing = {**drill, "args": {"fail_times": 9}, "attempts": 1}
        failed = (await call("POST", "/api/jobs", failing, 202))["jobId"]
        await deployment.ended(failed)
        for method, path, body in (
            ("GET", "/readyz", None),
            ("GET", "/metrics", None),
            ("GET", f"/api/jobs/{job}", None),
            ("GET", "/api/platforms", None),
            ("GET", "/api/trends", None),
            ("GET", "/api/dead", None),
            ("GET", "/api/v2/workers/status", None),
            ("POST", "/api/platforms/research/pause", {}),
            ("POST", "/api/platforms/research/resume", {}),
            ("PATCH", "/api/platforms/research", {"rate": 500}),
            ("POST", "/api/platforms/research/schedules", {"name": "often", "kind": "drill", "every_seconds": 60}),
            ("DELETE", "/api/platforms/research/schedules/often", None),
            ("POST", "/api/platforms/research/replay", {}),
            ("POST", "/api/tickets", {"jobId": job}),
        ):
            await call(method, path, body, 204 if method == "DELETE" else 200)
        await deployment.ended(failed)
        commands: list[tuple[RoleName, tuple[str, ...]]] = [
            ("monitor", ("running",)),
            ("monitor", ("platforms",)),
            ("monitor", ("workers",)),
            ("monitor", ("history", job)),
            ("operator", ("pause", "kurly")),
            ("operator", ("resume", "kurly")),
            ("operator", ("platforms", "set", "kurly", "rate=5")),
            ("operator", ("drop", failed)),
            ("operator", ("doctor", "--repair")),
            ("operator", ("schedules", "set", "kurly", "often", "drill", "--every", "60")),
            ("operator", ("schedules", "remove", "kurly", "often")),
            ("operator", ("audit",)),
            ("operator", ("restart", "research")),
        ]
        for role, words in commands:
            code, out, said = await here.beside(*words, REDIS_URL=url_of(guarded, role))
            assert code == 0, (role, words, out, said)
    assert await consumer.ended() == 75, "the restart that the operator asked for"
    async with Store(url_of(guarded, "operator")) as store:
        seen = await IncidentWatch(Transitions(store), BUILT_IN).look()
        assert "TailraceStoreDown" not in {rule.name for rule, _ in seen.all}
        assert await open_incident(store, "slack-1", "WorkerDead kurly", 1000)
        assert await read_incidents(store, "slack-1") == {"WorkerDead kurly": 1000}
        await close_incident(store, "slack-1", "WorkerDead kurly")


async def test_what_a_role_must_not_do_is_refused(deployment: Deployment, guarded: OwnStore, here: Here) -> None:
    keys = deployment.store.keys("research")
    job = await deployment.submit("research", steps=1)
    claiming = ("XREADGROUP", "GROUP", "consumers", "me", "COUNT", 1, "STREAMS", keys.jobs("normal"), ">")
    forbidden: dict[RoleName, list[tuple[Any, ...]]] = {
        "producer": [claiming, ("XPENDING", keys.jobs("normal"), "consumers"), ("HSET", "tr:platforms", "a", "b")],
        "gateway": [claiming, ("BLPOP", keys.bell("me"), 1), ("SET", "tr:incidents:slack", "x")],
        "consumer": [("GET", "tr:session:abc"), ("GETDEL", "tr:ticket:abc"), ("SET", "tr:session:abc", "x")],
        "operator": [("GETDEL", "tr:ticket:abc")],
        "monitor": [claiming, ("HSET", keys["control"], "paused", "me"), ("XADD", keys.jobs("normal"), "*", "a", "b")],
    }
    for role, commands in forbidden.items():
        async with Store(url_of(guarded, role)) as store:
            for command in commands:
                with pytest.raises(AccessDenied):
                    await store.command(*command)
    for words in (("pause", "research"), ("cancel", job), ("submit", "research", "drill")):
        code, _, said = await here.beside(*words, REDIS_URL=url_of(guarded, "monitor"))
        assert code != 0, words
        assert "no permissions to run" in said, said


@pytest.mark.parametrize(("role", "work"), [("producer", "consumer"), ("monitor", "gateway"), ("gateway", "consumer")])
async def test_a_user_of_another_role_is_found_out_at_the_start(
    guarded: OwnStore, role: RoleName, work: RoleName
) -> None:
    async with Store(url_of(guarded, role)) as store:
        if role != "monitor":  # which may run no script, and so cannot be asked
            await check_fitness(store, role)
        with pytest.raises(AccessDenied):
            await check_fitness(store, work)
