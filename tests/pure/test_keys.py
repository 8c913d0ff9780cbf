"""keys: every name in the store, and what may become part of one."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot

from tailrace.streams.errors import BadConfiguration, WrongField
from tailrace.streams.keys import (
    JOB_KEYS,
    PLATFORM_KEYS,
    Keyspace,
    PlatformKeys,
    check_key,
    check_platform,
    check_word,
    job_of_record,
    join_id,
    split_id,
)

PLATFORMS = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,31}", fullmatch=True)
KEYS = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)


def test_names_are_plain_to_read() -> None:
    keys = PlatformKeys("kurly")
    assert keys["jobs_normal"] == keys.jobs("normal") == "tr:{kurly}:jobs:normal"
    assert keys["ended_failed"] == "tr:{kurly}:ended:failed"
    assert keys.record("a-1") == "tr:{kurly}:job:a-1"
    assert keys.log("a-1") == "tr:{kurly}:log:a-1"
    assert keys.args("a-1") == "tr:{kurly}:args:a-1"
    assert keys.id("a-1") == "kurly.a-1"


def test_a_namespace_and_a_placement_stand_in_every_name() -> None:
    staging = Keyspace("shop-staging", {"kurly": "b"})
    assert staging.platform("ably")["jobs_normal"] == "tr:shop-staging:{ably}:jobs:normal"
    assert staging.platform("kurly").record("a-1") == "tr:shop-staging:{b}kurly:job:a-1"
    assert (staging.platform("kurly").tag, staging.platform("ably").tag) == ("b", "ably")
    assert staging.session("ab") == "tr:shop-staging:session:ab"
    assert staging.ticket("ab") == "tr:shop-staging:ticket:ab"
    assert Keyspace().platform("kurly")["leases"] == PlatformKeys("kurly")["leases"]


@pytest.mark.parametrize("name", ["Shop", "a b", "a:b", "{a}", "-a", "a" * 33, "platforms", "session", "ticket"])
def test_a_namespace_that_would_spoil_a_key_is_refused(name: str) -> None:
    with pytest.raises(BadConfiguration, match=r"must have 1 to 32 .*; it is"):
        Keyspace(name)


@pytest.mark.parametrize("space", [Keyspace(), Keyspace("n"), Keyspace("n", {"kurly": "b"})])
def test_the_name_of_a_record_tells_its_job(space: Keyspace) -> None:
    record = space.platform("kurly").record("a-1")
    assert job_of_record(record) == ("kurly", "a-1")
    assert fnmatchcase(record, space.records)


@given(PLATFORMS, KEYS)
def test_all_keys_of_a_platform_are_in_one_slot_and_no_two_are_the_same(platform: str, key: str) -> None:
    keys = PlatformKeys(platform)
    names = [keys[name] for name in PLATFORM_KEYS] + [getattr(keys, name)(key) for name in JOB_KEYS]
    assert len(set(names)) == len(names)
    assert len({key_slot(name.encode()) for name in names}) == 1


@given(PLATFORMS, KEYS)
def test_a_job_id_is_put_together_and_taken_apart(platform: str, key: str) -> None:
    assert split_id(join_id(platform, key)) == (platform, key)


@given(st.text(max_size=100))
def test_nothing_but_a_job_id_is_taken_apart(text: str) -> None:
    try:
        platform, key = split_id(text)
    except WrongField:
        return
    assert join_id(platform, key) == text
    assert (check_platform(platform), check_key(key)) == (platform, key)


WRONG_PLATFORMS = ["", "../x", "a}b{", "a" * 33, "Kurly", "-a", "_a", "a.b", "a b", "a\n", "한글", "{a}", "a:b", "²"]


@pytest.mark.parametrize("name", WRONG_PLATFORMS)
def test_a_platform_that_would_spoil_a_key_is_refused(name: str) -> None:
    with pytest.raises(WrongField) as refusal:
        check_platform(name)
    assert refusal.value.field == "platform"
    with pytest.raises(WrongField):
        PlatformKeys(name)


@pytest.mark.parametrize("key", ["", "a.b", "a" * 65, "a/b", "a b", "a}b", "a:b", "a\n", "é", "*"])
def test_a_key_that_would_spoil_another_is_refused(key: str) -> None:
    with pytest.raises(WrongField, match="id: must have 1 to 64") as refusal:
        check_key(key)
    assert refusal.value.field == "id"


@pytest.mark.parametrize("word", ["", "a b", "a" * 65, 'a"b', "a\\b", "a\n", "ü"])
def test_a_word_that_would_spoil_an_event_is_refused(word: str) -> None:
    with pytest.raises(WrongField) as refusal:
        check_word(word, "kind")
    assert refusal.value.field == "kind"


@pytest.mark.parametrize("word", ["scan", "make-plan", "v1.scan", "host-1.4711", "A_b"])
def test_kinds_and_consumer_names_may_have_dots(word: str) -> None:
    assert check_word(word, "kind") == word
