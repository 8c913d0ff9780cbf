"""`apply` and `platforms set`: the difference is shown, then the running system goes by it."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tailrace.streams.store.connection import Store
from tailrace.streams.store.kept_policies import read_policies
from tests.ops.commands import Here

FILE = """
[platforms.naver]
rate = 30
rate_seconds = 60
[schedules.nightly]
platform = "naver"
kind = "drill"
cron = "0 3 * * *"
"""


@pytest.fixture
async def store(valkey_url: str) -> AsyncIterator[Store]:
    async with Store(valkey_url) as store:
        yield store


async def rate_of(store: Store, platform: str) -> int | None:
    kept = (await read_policies(store, [platform])).get(platform)
    return kept.policy.rate if kept else None


async def test_a_rule_is_set_and_shown(store: Store, here: Here) -> None:
    words = ("platforms", "set", "research", "rate=30", "rate_seconds=60", "order=strict")
    code, printed, said = await here.beside(*words, REDIS_URL=store.url)
    assert code == 0, said
    assert printed.splitlines() == [
        "research: rate 0 -> 30",
        "research: rate_seconds 1 -> 60",
        "research: order block -> strict",
    ]
    assert await rate_of(store, "research") == 30
    code, printed, said = await here.beside(*words, REDIS_URL=store.url)
    assert (code, printed, said) == (0, "", "nothing to change\n")
    code, printed, _ = await here.beside("platforms", "set", "research", "rate=0", "--json", REDIS_URL=store.url)
    assert (json.loads(printed)["rate"], json.loads(printed)["order"]) == (0, "strict")


async def test_what_cannot_be_set_is_named_and_changes_nothing(store: Store, here: Here) -> None:
    for words, sentence in [
        (("set", "research", "attempts=200"), "tailrace: attempts: is 200, above the 100 of max_starts"),
        (("set", "research", "rat=1"), "tailrace: rat: is not a known field; did you mean rate?"),
        (("set", "research", "rate"), "tailrace: platforms: write name=value, such as rate=30, not 'rate'"),
        (("set", "resarch", "rate=1"), "tailrace: platform: 'resarch' is not declared"),
        (("set", "research"), "tailrace: platforms: write set PLATFORM name=value"),
        (("set", "research", "order=fifo"), "tailrace: order: must be one of block, skip, strict, not 'fifo'"),
        (("set", "research", "lane=a b"), "tailrace: lane: must be 1 to 64 of A-Z a-z 0-9 . _ -, not 'a b'"),
        (("research",), "tailrace: platforms: write set PLATFORM name=value"),
    ]:
        code, printed, said = await here.beside("platforms", *words, REDIS_URL=store.url)
        assert (code, printed) == (2, ""), words
        assert said.startswith(sentence), said
    assert await rate_of(store, "research") is None


async def test_a_file_is_shown_and_then_applied(store: Store, here: Here, tmp_path: Path) -> None:
    file = tmp_path / "tailrace.toml"
    file.write_text(FILE)
    shown = [
        "naver: rate 0 -> 30",
        "naver: rate_seconds 1 -> 60",
        "schedule nightly on naver: is kept as the file says",
    ]
    code, printed, said = await here.beside("apply", str(file), "--dry-run", REDIS_URL=store.url)
    assert (code, printed.splitlines(), said) == (0, shown, "nothing was changed: --dry-run\n")
    assert await rate_of(store, "naver") is None
    code, printed, said = await here.beside("apply", str(file), REDIS_URL=store.url)
    assert (code, printed.splitlines(), said) == (0, shown, f"applied {file}\n")
    assert await rate_of(store, "naver") == 30
    code, printed, said = await here.beside("apply", str(file), REDIS_URL=store.url)
    assert (code, printed, said) == (0, "", "nothing to change\n")
    code, printed, _ = await here.beside("platforms", "--json", REDIS_URL=store.url)
    assert "naver" in [each["platform"] for each in json.loads(printed)], "a command without the file knows it"


async def test_a_schedule_that_left_the_file_is_named_and_removed_on_request(
    store: Store, here: Here, tmp_path: Path
) -> None:
    file = tmp_path / "tailrace.toml"
    file.write_text(FILE)
    await here.beside("apply", str(file), REDIS_URL=store.url)
    by_hand = ("schedules", "set", "naver", "mine", "drill", "--every", "60")
    assert (await here.beside(*by_hand, REDIS_URL=store.url))[0] == 0
    file.write_text("[platforms.naver]\nrate = 30\nrate_seconds = 60\n")
    left = "schedule nightly on naver: is not in the file any more; --prune removes it\n"
    code, printed, said = await here.beside("apply", str(file), REDIS_URL=store.url)
    assert (code, printed, said) == (0, left, "nothing to change\n")
    code, printed, _ = await here.beside("apply", str(file), "--prune", REDIS_URL=store.url)
    assert (code, printed) == (0, "schedule nightly on naver: is removed\n")
    kept = json.loads((await here.beside("schedules", "naver", "--json", REDIS_URL=store.url))[1])
    assert [each["name"] for each in kept] == ["mine"]


async def test_a_file_that_contradicts_itself_changes_nothing(store: Store, here: Here, tmp_path: Path) -> None:
    file = tmp_path / "tailrace.toml"
    file.write_text("[platforms.kurly]\nrate = 30\n[platforms.naver]\nattempts = 200\n")
    code, _, said = await here.beside("apply", str(file), REDIS_URL=store.url)
    assert code == 78
    sentence = "platform naver: attempts: is 200, above the 100 of max_starts"
    assert said.startswith(f"tailrace: TAILRACE_CONFIG: {file}: {sentence}")
    assert await rate_of(store, "kurly") is None
    file.write_text('[schedules.n]\nplatform = "kurly"\nkind = "drill"\nevery_seconds = 5\nargs = { steps = "x" }\n')
    code, _, said = await here.beside("apply", str(file), REDIS_URL=store.url)
    assert (code, said) == (2, "tailrace: schedules.n.args.steps: must be a whole number, not a string\n")
    code, _, said = await here.beside("apply", str(tmp_path / "none.toml"), REDIS_URL=store.url)
    assert (code, "cannot read" in said) == (78, True)


async def test_who_changed_what_is_kept(store: Store, here: Here, tmp_path: Path) -> None:
    await here.beside("platforms", "set", "research", "rate=30", "--by", "ann", REDIS_URL=store.url)
    await here.beside("pause", "kurly", "--by", "bob", REDIS_URL=store.url)
    (tmp_path / "tailrace.toml").write_text("[platforms.kurly]\nrate = 7\n")
    await here.beside("apply", str(tmp_path / "tailrace.toml"), "--by", "eve", REDIS_URL=store.url)
    code, printed, _ = await here.beside("audit", REDIS_URL=store.url)
    assert code == 0
    assert [line.split()[1:4] for line in printed.splitlines()[1:]] == [
        ["eve", "apply", "kurly"],
        ["bob", "pause", "kurly"],
        ["ann", "configure", "research"],
    ]
    code, printed, _ = await here.beside("audit", "kurly", "--limit", "1", "--json", REDIS_URL=store.url)
    assert [act["more"] for act in json.loads(printed)["acts"]] == [{"changed": {"rate": [0, 7]}}]
