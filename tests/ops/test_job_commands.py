"""submit, follow, history, show and running: what they print, and the codes they end with."""

import asyncio
import json
import re
from functools import partial
from pathlib import Path

import pytest
import redis

from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.keys import PlatformKeys, split_id
from tailrace.streams.store.connection import Store
from tailrace.streams.views.presence import Presence
from tests.ops.commands import Here, begin, check_running_jobs, on_terminal, tailrace
from tests.support.builders import Desk, forge
from tests.support.deployment import Deployment
from tests.support.faults import Link
from tests.support.processes import GatewayProcess

SOON = {"TAILRACE_BEAT_SECONDS": "0.3", "TAILRACE_DEADLINE_SECONDS": "1.5"}  # to learn that no worker beats


async def test_a_job_is_submitted_and_followed_to_its_result(standing: Deployment) -> None:
    args = json.dumps({"steps": 2, "seconds": 0.05, "text": "on it", "result": {"answer": 42}})
    result = tailrace("submit", "research", "drill", args, "--id", "k1", "--follow", REDIS_URL=standing.url)
    assert result.returncode == 0
    assert result.stdout == 'research.k1\n{"answer": 42}\n'
    lines = result.stderr.splitlines()
    assert [line.split()[1 + (line.split()[1][0] == "#")] for line in lines] == [
        "queued",
        "started",
        "progress",
        "progress",
        "completed",
    ]
    assert lines[2].endswith("1 of 2  on it")


async def test_following_tells_of_a_lost_worker_and_of_the_one_that_takes_over(valkey_url: str, here: Here) -> None:
    async with Store(valkey_url) as store:
        desk = Desk(store, "research")
        (accepted,) = await desk.submit("taken")
        (held,) = await desk.claim("ann")
        await desk.reclaim(held)
        (held,) = await desk.claim("bob")
        await desk.complete(held, "done")
    assert accepted[0] == "accepted"
    _, told, _ = await here.beside("follow", "research.taken", REDIS_URL=valkey_url)
    lines = told.splitlines()
    lost = lines.index("worker ann is lost: attempt 1 is over, what it still writes is refused")
    assert "superseded" in lines[lost - 1]
    assert lines.index("worker bob takes over with attempt 2") > lost
    assert sum(line.startswith("worker ") for line in lines) == 2


async def test_a_submit_that_follows_tells_of_a_takeover(valkey_url: str) -> None:
    """In a terminal it stands above the bar, which shows the attempt that counts."""
    words = ("submit", "research", "drill", "--id", "shown", "--follow")
    async with Store(valkey_url) as store:
        desk = Desk(store, "research")
        assert tailrace(*words[:-1], REDIS_URL=valkey_url).returncode == 0
        (held,) = await desk.claim("ann")
        await desk.reclaim(held)
        (held,) = await desk.claim("bob")
        await desk.complete(held, "done")
    screen = await asyncio.to_thread(on_terminal, *words, columns=120, REDIS_URL=valkey_url)
    assert "worker ann is lost: attempt 1 is over" in screen
    assert "worker bob takes over with attempt 2" in screen


def test_a_mistyped_platform_or_kind_is_answered_with_the_nearest(valkey_url: str, here: Here) -> None:
    for words in (("submit", "reserch", "drill"), ("pause", "reserch"), ("replay", "reserch", "--yes")):
        code, out, err = here(*words, REDIS_URL=valkey_url)
        assert (code, out) == (2, "")
        assert "platform: 'reserch' is not declared; known are" in err
        assert err.endswith("did you mean research?\n")
    code, out, err = here("submit", "ably", "dril", REDIS_URL=valkey_url)
    assert (code, err) == (0, "tailrace: dril is not a built-in kind; did you mean drill? It is submitted as it is.\n")
    assert here("submit", "ably", "billing", REDIS_URL=valkey_url)[2] == ""


async def test_a_submit_whose_answer_is_lost_is_repeated_and_else_names_the_job(valkey_url: str, here: Here) -> None:
    async with Link(valkey_url) as link, Store(valkey_url) as store:
        link.drop_reply(to=b"EVAL")
        code, printed, said = await here.beside("submit", "kurly", "drill", REDIS_URL=link.url)
        assert (code, said) == (0, "")
        assert link.dropped.is_set()
        first = printed.strip()

        link.drop_reply(to=b"EVAL")
        lost = asyncio.create_task(here.beside("submit", "kurly", "drill", REDIS_URL=link.url))
        await link.dropped.wait()
        link.cut()
        code, printed, said = await lost
        assert (code, printed) == (69, "")
        found = re.search(r"job (kurly\.(\S+)) may have been accepted; to try again safely, add --id (\S+)", said)
        assert found, said
        assert found[2] == found[3]
        await link.heal()
        code, printed, _ = await here.beside("submit", "kurly", "drill", "--id", found[2], REDIS_URL=link.url)
        assert (code, printed.strip()) == (0, found[1])
        assert found[1] != first
        assert len(await Desk(store, "kurly").line()) == 2


async def test_for_machines_a_submit_answers_in_json(standing: Deployment, here: Here) -> None:
    words = ["submit", "research", "drill", '{"steps": 1, "seconds": 0, "result": [1]}', "--id", "k2", "--json"]
    accepted = {"jobId": "research.k2", "state": "waiting", "replayed": False, "deduplicated": False}
    result = tailrace(*words, "--follow", REDIS_URL=standing.url)
    first, last = map(json.loads, result.stdout.splitlines())
    assert (result.returncode, first) == (0, accepted)
    assert (last["jobId"], last["status"], last["result"]) == ("research.k2", "completed", [1])
    _, again, _ = await here.beside(*words, REDIS_URL=standing.url)
    assert json.loads(again) == {**accepted, "state": "completed", "replayed": True}
    code, failing, _ = await here.beside("submit", "research", "own", "--json", "--follow", REDIS_URL=standing.url)
    assert code == 1
    assert json.loads(failing.splitlines()[-1])["error"]["type"] == "UnknownKind"


def test_for_machines_a_submit_tells_that_another_job_has_its_dedupe_key(valkey_url: str, here: Here) -> None:
    first, other = (
        json.loads(here("submit", "kurly", "drill", "--dedupe", "d", "--json", REDIS_URL=valkey_url)[1]) for _ in "ab"
    )
    assert other == {**first, "deduplicated": True}


async def test_what_is_to_come_is_told_with_its_time_and_its_reason(valkey_url: str, here: Here) -> None:
    async with Store(valkey_url) as store:
        desk = Desk(store, "research")
        await desk.submit("a", run_at="2099-01-31T09:00:00Z")
        await desk.past_due("a")
        (held,) = await desk.claim()
        await desk.fail(held, attempts=3, seconds=3600.0)
        events = await desk.history("a")
    _, told, _ = await here.beside("history", "research.a", REDIS_URL=valkey_url)
    lines = [line.rstrip() for line in told.splitlines()]
    assert [line.split()[2 + (line.split()[2].isdigit())] for line in lines[1:]] == [
        "queued",
        "delayed",
        "started",
        "retrying",
    ]
    assert lines[2].endswith("until 2099-01-31T09:00:00.000Z")
    assert events[-1].error
    assert f"{events[-1].error.type}: {events[-1].error.message}" in lines[4]
    assert lines[4].endswith(f"again at {events[-1].retryAt}")


async def test_a_job_that_fails_ends_the_command_with_1(standing: Deployment) -> None:
    words = ("submit", "research", "drill", '{"fail_times": 9}', "--follow", "--data", "/else")
    result = tailrace(*words, REDIS_URL=standing.url)
    assert result.returncode == 1
    assert f"see `python3 -m ops show {result.stdout.strip()} --data /else`" in result.stderr
    assert result.stdout.count("\n") == 1, "only the id: there is no result"
    assert "failed: RuntimeError: drill: attempt 3 of 9" in result.stderr.splitlines()[-1]


def test_the_same_id_twice_is_one_job_and_another_body_is_refused(valkey_url: str, here: Here) -> None:
    for _ in range(2):
        code, out, _ = here("submit", "hwahae", "drill", "--id", "once", REDIS_URL=valkey_url)
        assert (code, out) == (0, "hwahae.once\n")
    code, _, err = here("submit", "hwahae", "drill", '{"steps": 1}', "--id", "once", REDIS_URL=valkey_url)
    assert code == 1
    assert "another body" in err


def test_args_come_from_a_file_or_from_stdin(valkey_url: str, tmp_path: Path, here: Here) -> None:
    args = tmp_path / "args.json"
    args.write_text('{"steps": 3}')
    _, job, _ = here("submit", "research", "drill", f"@{args}", REDIS_URL=valkey_url)
    assert json.loads(here("show", job.strip(), "--json", REDIS_URL=valkey_url)[1])["args"] == {"steps": 3}
    job = tailrace(
        "submit", "research", "drill", "-", "--priority", "high", told='{"steps": 4}', REDIS_URL=valkey_url
    ).stdout
    shown = tailrace("show", job.strip(), REDIS_URL=valkey_url).stdout.splitlines()
    assert 'args      {"steps":4}' in shown
    assert "priority  high" in shown
    assert "state     waiting" in shown


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["research", "drill", '{"steps": }'], "ARGS: is not JSON: Expecting value: line 1 column 11"),
        (["research", "drill", '{"steps": NaN}'], "ARGS: is not JSON: NaN"),
        (["research", "drill", "[" * 100_000], "ARGS: is nested too deeply"),
        (["research", "drill", "@/no/such/file"], "/no/such/file: cannot be read"),
        (["research", "drill", '{"steps": -1}'], "args.steps: "),
        (["research", "drill", '{"stops": 1}'], "args.stops: "),
        (["nowhere", "drill"], "platform: 'nowhere' is not declared; known are oliveyoung"),
        (["research", "a kind"], "kind: "),
        (["research", "drill", "--id", "a.b"], "--id: "),
        (
            ["research", "drill", "--dedupe", "k", "--dedupe-mode", "debounce"],
            "--dedupe-mode: debounce replaces a job while it is delayed; set --delay or --run-at",
        ),
        (["research", "drill", "--priority", "now"], "--priority: must be one of urgent, high, normal, low"),
    ],
)
def test_a_wrong_value_is_named_and_nothing_is_stored(
    words: list[str], sentence: str, valkey_url: str, here: Here
) -> None:
    code, out, err = here("submit", *words, REDIS_URL=valkey_url)
    assert (code, out) == (2, "")
    assert err.startswith(f"tailrace: {sentence}")
    with redis.Redis.from_url(valkey_url) as client:
        assert client.dbsize() == 0


def test_args_over_a_megabyte_are_refused(valkey_url: str) -> None:
    result = tailrace("submit", "research", "drill", "-", told='"' + "x" * 1024 * 1024 + '"', REDIS_URL=valkey_url)
    assert result.returncode == 2
    assert "over 1 MB" in result.stderr


@pytest.mark.parametrize("command", ["follow", "history", "show"])
def test_an_unknown_job_and_a_malformed_id_are_told_apart(command: str, valkey_url: str, here: Here) -> None:
    unknown = here(command, "research.none", REDIS_URL=valkey_url)
    assert unknown == (1, "", "tailrace: there is no job research.none, or it is no longer kept\n")
    code, _, err = here(command, "../x", REDIS_URL=valkey_url)
    assert code == 2
    assert err.startswith("tailrace: JOB: must be <platform>.<key>")


@pytest.mark.parametrize("command", [["running"], ["doctor"], ["show", "research.1"], ["submit", "research", "drill"]])
def test_without_a_store_every_command_says_how_to_start_one(command: list[str], tmp_path: Path, here: Here) -> None:
    code, out, err = here(*command, "--data", str(tmp_path))
    assert (code, out) == (69, "")
    assert "python3 -m ops up" in err


async def test_history_and_follow_show_what_every_client_sees(
    standing: Deployment, gateway: GatewayProcess, here: Here
) -> None:
    job = await standing.submit("research", steps=3, seconds=0.2)
    follower = begin("follow", job, "--json", REDIS_URL=standing.url)
    platform, key = split_id(job)
    await standing.reached(job, 1)
    await standing.store.command("RPUSH", PlatformKeys(platform).log(key), forge(job, 9, 1, "progress", 1))
    await standing.ended(job)
    reply = await standing.http.get(f"{gateway.url}/research/history/{job}")
    followed, _ = follower.communicate(timeout=20)
    assert follower.returncode == 0
    assert [json.loads(line) for line in followed.splitlines()] == reply.json()
    _, told, _ = await here.beside("history", job, "--json", REDIS_URL=standing.url)
    assert json.loads(told) == reply.json()
    table = tailrace("history", job, REDIS_URL=standing.url).stdout.splitlines()
    assert len(table) == 1 + len(reply.json())
    assert "zombie" not in "".join(table)


async def test_follow_outlives_a_store_that_goes_away(tmp_path: Path) -> None:
    with OwnStore(tmp_path / "store") as server:
        async with Store(server.url) as store:
            held = await Desk(store, "research").start("a")
        follower = begin("follow", "research.a", "--json", REDIS_URL=server.url)
        assert follower.stdout
        statuses = [json.loads(follower.stdout.readline())["status"] for _ in range(2)]
        server.kill()
        server.start()
        async with Store(server.url) as store:
            await Desk(store, "research").complete(held)
        rest, _ = follower.communicate(timeout=20)
        statuses += [json.loads(line)["status"] for line in rest.splitlines()]
    assert statuses == ["queued", "started", "completed"]
    assert follower.returncode == 0


async def test_what_a_handler_says_cannot_steer_the_terminal(standing: Deployment, here: Here) -> None:
    job = await standing.submit("research", steps=1, seconds=0, text="a\x1b[2Jb\nc")
    await standing.ended(job)
    _, said, _ = await here.beside("history", job, REDIS_URL=standing.url)
    assert "a\N{REPLACEMENT CHARACTER}[2Jb c" in said


async def test_running_tells_the_same_as_http_and_the_script_prints_it(
    standing: Deployment, gateway: GatewayProcess
) -> None:
    jobs = [await standing.submit("hwahae", steps=1, seconds=600) for _ in range(3)]
    await standing.started(jobs[0])
    there = (await standing.http.get(f"{gateway.url}/api/v2/jobs/running")).json()
    here = json.loads(tailrace("running", "--json", REDIS_URL=standing.url).stdout)
    for answer in (here, there):
        assert answer["data"]["running"][0].pop("elapsed_seconds") >= 0
    assert here == there
    assert here["data"]["summary"] == {"running_count": 1, "queued_count": 2}

    printed = tailrace("running", REDIS_URL=standing.url).stdout
    script = check_running_jobs(gateway.url).stdout
    for text in (printed, script):
        assert jobs[0] in text
        assert text.endswith("1 running, 2 waiting\n")


def test_the_script_says_so_when_nothing_answers() -> None:
    result = check_running_jobs("http://127.0.0.1:9")
    assert result.returncode == 1
    assert "no answer from http://127.0.0.1:9" in result.stderr


async def test_show_says_in_words_why_a_job_waits(valkey_url: str, here: Here) -> None:
    async with Store(valkey_url) as store:
        desk = Desk(store, "kurly", max_running=1)
        await desk.submit("a", "b", "c")
        await desk.claim()
        await desk.beat("ann")
    shown = tailrace("show", "kurly.c", REDIS_URL=valkey_url, **SOON).stdout
    assert "kurly runs 1 job at a time, and kurly.a is running." in shown
    assert "1 job stands before it: kurly.b." in shown
    assert "It is at position 2 of the queue." in shown
    assert "No consumer of kurly is alive; silent: ann." in shown
    told = json.loads((await here.beside("show", "kurly.c", "--json", REDIS_URL=valkey_url, **SOON))[1])["waiting"]
    assert [each["reason"] for each in told["for"]] == ["no_consumer", "busy", "ahead"]
    assert (told["position"], told["positionExact"]) == (2, True)
    assert "waiting" not in json.loads((await here.beside("show", "kurly.a", "--json", REDIS_URL=valkey_url))[1])


async def test_show_says_so_while_the_consumer_is_frozen(deployment: Deployment, here: Here) -> None:
    consumer = await deployment.consumer("kurly")
    await deployment.ended(await deployment.submit("kurly", steps=1, seconds=0.01))
    held = await deployment.submit("kurly", steps=100, seconds=0.5)
    await deployment.started(held)
    job = await deployment.submit("kurly")

    async def reasons(**pace: str) -> list[str]:
        _, shown, _ = await here.beside("show", job, "--json", REDIS_URL=deployment.url, **pace)
        told = json.loads(shown)["waiting"]
        return [each["reason"] for each in told["for"]]

    assert await reasons() == ["busy"]
    consumer.freeze()
    assert (await reasons(**SOON))[0] == "no_consumer"


def test_no_line_for_people_ends_with_spaces(valkey_url: str, here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in ("platforms", "workers"):  # how long they wait for a beat that does not come
        monkeypatch.setattr(f"tailrace.ops.cli.{command}.Presence", partial(Presence, patience_seconds=0.3))

    async def scene() -> None:
        async with Store(valkey_url) as store:
            desk = Desk(store, "research")
            await desk.submit("a", "longer", "c")
            await desk.fail((await desk.claim(slots=2))[0], "bad")
            await desk.beat("ann")

    asyncio.run(scene())
    for words in (["running"], ["platforms"], ["workers"], ["dead"], ["history", "research.a"], ["show", "research.c"]):
        code, out, err = here(*words, REDIS_URL=valkey_url, **SOON)
        assert (code, bool(out)) == (0, True), err
        assert [line for line in out.splitlines() if line != line.rstrip()] == []
