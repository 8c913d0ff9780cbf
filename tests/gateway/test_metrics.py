"""Metrics: what Prometheus reads is what the store holds."""

from collections.abc import Callable, Iterator

import anyio
import httpx2
import pytest

from tailrace.gateway.metrics import beat_watch
from tailrace.gateway.metrics.beat_watch import BeatWatch
from tailrace.gateway.metrics.exposition import GatewayMetrics, ProcessCounts
from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.errors import NoStore
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Tally, Transitions
from tailrace.streams.views.health import Health, PlatformHealth, StoreHealth, take_health
from tailrace.streams.views.overview import unused
from tailrace.streams.views.presence import ConsumerPresence, Presence
from tests.gateway.costs import TRIES, commands, store_work
from tests.gateway.gateways import GatewayProcess
from tests.support.builders import Desk
from tests.support.eventually import eventually
from tests.support.samples import Samples

DeskOn = Callable[[str], Desk]


async def scraped(http: httpx2.AsyncClient) -> Samples:
    answer = await http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return Samples(answer.text)


async def test_metrics_count_what_is_there(http: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a", "b", "c", "d", "e")
    await desk.submit("later", delay_seconds=60)
    running, failing, lost = await desk.claim("ann", 3)
    await desk.fail(failing)
    await desk.reclaim(lost)
    await desk.transitions.pause(desk.keys, "somebody")
    seen = await scraped(http)
    for state, count in {"running": 1, "waiting": 3, "delayed": 1, "failed": 1}.items():
        assert seen.value("tailrace_jobs", platform="research", state=state) == count
    assert seen.value("tailrace_paused", platform="research") == 1
    assert seen.value("tailrace_paused", platform="ably") == 0
    assert seen.value("tailrace_oldest_waiting_seconds", platform="research") >= 0
    since = (await desk.record("d")).accepted_ms / 1000
    assert seen.value("tailrace_oldest_waiting_timestamp_seconds", platform="research") == since
    assert seen.value("tailrace_ended_total", platform="research", outcome="failed") == 1
    assert seen.value("tailrace_lost_attempts_total", platform="research") == 1
    assert running.key == "a"


async def test_metrics_tell_of_the_store_and_of_this_process(http: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a")
    before = await scraped(http)
    for path in ("/research/history/research.a", "/research/history/research.b", "/api/jobs/research.a", "/nothing/a"):
        await http.get(path)
    async with http.stream("GET", "/research/stream/research.a") as stream:
        lines = stream.aiter_lines()
        await anext(lines)
        seen = await scraped(http)

    def grown(route: str, code: str) -> float:
        name = "tailrace_requests_total"
        return seen.value(name, route=route, code=code) - before.value(name, route=route, code=code)

    assert grown("/research/history/{job_id}", "200") == 1
    assert grown("/research/history/{job_id}", "404") == 1
    assert grown("/api/jobs/{job_id}", "200") == 1
    assert grown("other", "404") == 1
    assert seen.value("tailrace_sse_clients") == 1
    assert seen.value("tailrace_sse_events_total") - before.value("tailrace_sse_events_total") >= 1
    assert seen.value("tailrace_store_up") == 1
    assert (seen.value("tailrace_store_evicts"), seen.value("tailrace_store_writes_failing")) == (0, 0)
    assert seen.value("tailrace_store_memory_bytes") > 0
    assert seen.value("tailrace_build_info", role="gateway") == 1
    assert "process_resident_memory_bytes" in seen.names()
    assert not any("research.a" in value for _, labels in seen for _, value in labels)


async def test_metrics_are_answered_while_the_store_is_away(frail: OwnStore) -> None:
    with GatewayProcess(frail.url) as gateway:
        async with httpx2.AsyncClient(base_url=gateway.url, timeout=10) as http:
            assert (await scraped(http)).value("tailrace_store_up") == 1
            frail.stop()
            seen = await scraped(http)
            assert seen.value("tailrace_store_up") == 0
            assert seen.value("tailrace_requests_total", route="/metrics", code="200") == 1
            assert "tailrace_jobs" not in seen.names()


async def test_a_platform_with_corrupt_keys_hides_no_other(http: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a")
    for name in ("ended_failed", "ticks"):
        await desk.store.command("SET", desk.store.keys("kurly")[name], "corrupt")
    seen = await scraped(http)
    assert seen.value("tailrace_store_up") == 1
    assert seen.value("tailrace_jobs", platform="research", state="waiting") == 1
    assert not [labels for name, labels in seen if name == "tailrace_jobs" and ("platform", "kurly") in labels]


async def test_a_scrape_costs_the_same_with_one_job_as_with_a_thousand(http: httpx2.AsyncClient, desk: Desk) -> None:
    async def cost() -> int:
        costs = []
        for _ in range(TRIES):
            before = await commands(desk.store)
            await scraped(http)
            costs.append(await commands(desk.store) - before)
        return min(costs)

    await desk.submit(*(f"first-{n}" for n in range(30)))
    few = await cost()
    await desk.submit(*(f"job-{n}" for n in range(1000)))
    assert await cost() <= few


async def cost_of_a_scrape(store: Store, platforms: int) -> tuple[int, int]:
    """Commands of one scrape, and bytes that the store answered, by its own count; as the route asks."""
    names = [f"p{number}" for number in range(platforms)]
    transitions = Transitions(store)
    presence = Presence(transitions, names, patience_seconds=0)

    async def scrape() -> None:
        seen = GatewayMetrics(await take_health(transitions, names), await presence.see(), ProcessCounts(0, 0))
        assert seen.text().count(b"tailrace_paused{") == platforms

    await scrape()  # the first one loads scripts, and asks consumers for their deadlines
    return await store_work(store, scrape)


async def test_the_cost_of_a_scrape_grows_with_platforms_and_not_with_jobs_or_consumers(desk_on: DeskOn) -> None:
    """In commands and bytes, counted by the server: the same for 0 as for 2,000 jobs and for 1 as for 300 consumers,
    but for one line about each consumer; and with ten times the platforms ten times as much, not a hundred."""
    desk = desk_on("p3")
    await desk.beat("ann")
    (few, few_bytes), (many, many_bytes) = [await cost_of_a_scrape(desk.store, count) for count in (10, 100)]
    assert many < 10 * few
    assert many_bytes < 10 * few_bytes
    await desk.submit(*(f"job-{number}" for number in range(2000)))
    await desk.claim("ann", 40)
    with_jobs, bytes_with_jobs = await cost_of_a_scrape(desk.store, 10)
    await desk.store.commands([("HSET", desk.keys["beats"], f"worker-{number:03}", 1) for number in range(300)])
    crowded, crowded_bytes = await cost_of_a_scrape(desk.store, 10)
    assert with_jobs - few < 200, "the first jobs in line are looked at for the oldest one, however many there are"
    assert crowded == with_jobs
    assert crowded_bytes - bytes_with_jobs < 300 * 30, "name and counter of each"


async def test_consumers_are_counted_by_platform_in_one_pass() -> None:
    names = tuple(f"p{number}" for number in range(100))

    class Looked(tuple[str, ...]):
        looks = 0

        def __iter__(self) -> Iterator[str]:
            Looked.looks += 1
            return super().__iter__()

        def __contains__(self, name: object) -> bool:
            Looked.looks += 1
            return super().__contains__(name)

    consumers = [
        ConsumerPresence(f"w{number}", Looked(names), 1, age, 20.0, 10.0) for number, age in enumerate((1.0, 1.0, 15.0))
    ]
    health = Health(
        StoreHealth(0, 0.0, 0, 0, evicts=False, keeps_file=True, failing=()),
        [PlatformHealth(unused(name), Tally(0, 0, 0, 0), None) for name in names],
    )
    seen = Samples(GatewayMetrics(health, consumers, ProcessCounts(0, 0)).text().decode())
    assert seen.value("tailrace_consumers", platform="p7") == 2
    assert seen.value("tailrace_silent_consumers", platform="p99") == 1
    assert Looked.looks <= 2 * len(consumers), "not once more for each platform"


@pytest.mark.parametrize("failing", [(), ("aof_last_write_status",)])
async def test_a_store_that_cannot_write_is_told_as_one_that_answers(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, failing: tuple[str, ...]
) -> None:
    """It runs no script then: it would look as if it were down, and the alert would name the wrong paragraph."""

    async def server(_: Store) -> StoreHealth:
        return StoreHealth(0, 0.0, 0, 0, evicts=False, keeps_file=True, failing=failing)

    async def refused(*_: object) -> None:
        raise NoStore("the store does not serve now: MISCONF Errors writing to the AOF file: No space left on device")

    monkeypatch.setattr("tailrace.streams.views.health.look_at_store", server)
    monkeypatch.setattr("tailrace.streams.views.health.look_at_platforms", refused)
    if failing:
        assert (await take_health(desk.transitions, ["research"])).store.failing == failing
    else:
        with pytest.raises(NoStore):
            await take_health(desk.transitions, ["research"])


async def test_consumers_are_watched_between_scrapes_and_not_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Looks:
        count = 0

        async def glance(self) -> None:
            self.count += 1
            if self.count == 1:
                raise NoStore("away")

    monkeypatch.setattr(beat_watch, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(beat_watch, "INTEREST_SECONDS", 0.2)
    looks, watching = Looks(), BeatWatch()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watching.run)
        await anyio.sleep(0.03)
        assert looks.count == 0
        watching.want(looks)  # type: ignore[arg-type] # all it needs

        async def looked() -> bool:
            return looks.count > 3

        await eventually("it looks again and again, whatever happens", looked)
        await anyio.sleep(0.3)  # the interest is over
        seen = looks.count
        await anyio.sleep(0.05)
        assert looks.count == seen
        tasks.cancel_scope.cancel()
