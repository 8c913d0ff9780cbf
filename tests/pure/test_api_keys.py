"""API keys as they are configured and compared, limits as they are counted, and what logs do not show."""

import hashlib
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.gateway.access.api_keys import NO_KEYS, Keys, Scope, entry_of, new_secret
from tailrace.gateway.access.limits import BODY_BYTES, Bucket, Caps, Patience
from tailrace.gateway.access.reach import Narrowed
from tailrace.gateway.settings import GatewaySettings
from tailrace.producers.platforms import BUILT_IN
from tailrace.streams.errors import BadConfiguration, Forbidden
from tailrace.streams.process.logs import mask, mask_values, standard_formatter
from tailrace.streams.process.settings import Environment

PLATFORMS = ("ably", "kurly", "research")
SECRET, ANOTHER = "0123456789abcdef", "fedcba9876543210"


def read(text: str) -> Keys:
    return Keys.read(text, PLATFORMS)


def test_a_key_alone_is_good_for_everything() -> None:
    key = read(SECRET).find(SECRET.encode())
    assert key
    assert all(key.may(scope) for scope in Scope)
    assert key.platforms is None


def test_a_key_may_be_limited() -> None:
    key = read(f"{SECRET}:submit+read:ably+kurly").find(SECRET.encode())
    assert key
    assert [scope for scope in Scope if key.may(scope)] == ["submit", "read"]
    assert key.platforms == frozenset({"ably", "kurly"})
    unscoped = read(f"{SECRET}::ably").find(SECRET.encode())
    assert unscoped
    assert unscoped.may(Scope.ACT)


def test_admin_is_all_scopes() -> None:
    key = read(f"{SECRET}:admin").find(SECRET.encode())
    assert key
    assert all(key.may(scope) for scope in Scope)


@pytest.mark.parametrize("between", [",", "\n", " , \n\n,", "\r\n"])
def test_entries_are_parted_by_commas_or_lines(between: str) -> None:
    keys = read(f"{SECRET}:read{between}{entry_of(ANOTHER)}:act\n")
    assert len(keys) == 2
    first, second = keys.find(SECRET.encode()), keys.find(ANOTHER.encode())
    assert first
    assert second
    assert (first.scopes, second.scopes) == (frozenset({Scope.READ}), frozenset({Scope.ACT}))


@pytest.mark.parametrize("nothing", ["", " ", ", ,", "\n,\n", ",", "\ufeff,\n"])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_keys_that_are_set_to_nothing_are_refused(tmp_path: Path, nothing: str, host: str) -> None:
    file = tmp_path / "keys"
    file.write_text(nothing)
    for variables in ({"TAILRACE_API_KEYS": nothing}, {"TAILRACE_API_KEYS_FILE": str(file)}):
        with pytest.raises(BadConfiguration, match=r"^TAILRACE_API_KEYS"):
            GatewaySettings.read(Environment(variables), host=host)


def test_the_hash_is_as_good_as_the_secret() -> None:
    assert read(entry_of(SECRET)).find(SECRET.encode()) == read(SECRET).find(SECRET.encode())
    assert read(entry_of(SECRET).upper().replace("SHA", "sha")).find(SECRET.encode())
    assert not read(entry_of(SECRET)).find(entry_of(SECRET).encode()), "who knows the hash has no key"
    assert not read(entry_of(SECRET)).find(hashlib.sha256(SECRET.encode()).hexdigest().encode())


@pytest.mark.parametrize(
    "entry",
    [
        "short",
        "0123456789abcde",
        "0123456789abcdef x",
        "0123456789abcdefé",
        f"{SECRET}:fly",
        f"{SECRET}:read+fly",
        f"{SECRET}:read:nowhere",
        f"{SECRET}:read:ably:more",
        f"{SECRET}:",
        f"{SECRET}:+",
        f"{SECRET}:read+",
        f"{SECRET}:read:",
        f"{SECRET}::",
        f"{SECRET}:read:+ably",
        "sha256=",
        "sha256=abc",
        "sha256=" + "g" * 64,
        ":read",
    ],
)
def test_a_wrong_entry_is_named_by_its_place_and_not_by_its_words(entry: str) -> None:
    with pytest.raises(BadConfiguration, match="TAILRACE_API_KEYS: entry 2") as refusal:
        read(f"{ANOTHER},{entry}")
    assert SECRET not in str(refusal.value)
    assert "short" not in str(refusal.value)


def test_a_secret_is_said_once() -> None:
    with pytest.raises(BadConfiguration, match="same secret"):
        read(f"{SECRET}:read,{entry_of(SECRET)}:act")


def test_nothing_of_a_secret_is_kept() -> None:
    settings = GatewaySettings.read(Environment({"TAILRACE_API_KEYS": SECRET, "HOST": "0.0.0.0"}))
    key = settings.keys.find(SECRET.encode())
    assert key
    assert SECRET not in repr(settings) + repr(key)
    assert hashlib.sha256(SECRET.encode()).hexdigest() not in repr(settings) + repr(key) + key.name


def test_with_keys_every_address_may_be_served(tmp_path: object) -> None:
    assert GatewaySettings.read(Environment({"TAILRACE_API_KEYS": SECRET, "HOST": "0.0.0.0"})).host == "0.0.0.0"
    for none in ("", " ", ",", "\n"):
        with pytest.raises(BadConfiguration, match="TAILRACE_API_KEYS"):
            GatewaySettings.read(Environment({"TAILRACE_API_KEYS": none, "HOST": "0.0.0.0"}))


def test_without_keys_nobody_is_found() -> None:
    assert not NO_KEYS
    assert NO_KEYS.find(b"") is None


@given(st.text(min_size=0, max_size=40), st.sampled_from([SECRET, ANOTHER]))
def test_only_the_secret_itself_is_a_key(shown: str, secret: str) -> None:
    found = read(f"{SECRET},{ANOTHER}").find(shown.encode(errors="replace"))
    assert (found is not None) is (shown in {SECRET, ANOTHER})


def test_a_new_key_is_like_no_other_and_can_be_configured() -> None:
    made = {new_secret() for _ in range(100)}
    assert len(made) == 100
    assert all(read(secret).find(secret.encode()) for secret in made)


def test_narrowed_platforms_know_no_others() -> None:
    narrowed = Narrowed(BUILT_IN, frozenset({"ably"}))
    assert list(narrowed) == ["ably"]
    assert "research" not in narrowed
    assert narrowed.known("ably") == "ably"
    with pytest.raises(Forbidden, match="ably"):
        narrowed.known("research")


def test_a_lane_named_after_a_hidden_platform_is_called_by_one_of_the_others() -> None:
    narrowed = Narrowed(BUILT_IN, frozenset({"single_product", "multi_platform", "ably"}))
    assert [policy.lane for policy in narrowed.values()] == [None, "single_product", "single_product"]
    assert narrowed.siblings("multi_platform") == ("single_product",)
    assert Narrowed(BUILT_IN, frozenset({"extract", "single_product"}))["single_product"].lane == "extract"


@pytest.mark.parametrize(
    ("variables", "accepted"),
    [
        ({}, True),
        ({"TAILRACE_API_KEYS": SECRET}, False),
        ({"TAILRACE_API_KEYS": SECRET, "TAILRACE_DRILL": "on"}, True),
        ({"TAILRACE_API_KEYS": SECRET, "TAILRACE_DRILL": "off"}, False),
        ({"TAILRACE_DRILL": "OFF"}, False),
        ({"TAILRACE_DRILL": "on"}, True),
    ],
)
def test_drill_is_off_with_keys_unless_it_is_allowed(variables: dict[str, str], accepted: bool) -> None:
    assert ("drill" in GatewaySettings.read(Environment(variables)).kinds.built_in) is accepted


def test_a_wrong_word_for_drill_names_the_setting() -> None:
    with pytest.raises(BadConfiguration, match="TAILRACE_DRILL is 'yes'"):
        GatewaySettings.read(Environment({"TAILRACE_DRILL": "yes"}))


# Limits


def test_a_rate_is_saved_up_for_a_while_and_comes_back_with_time() -> None:
    bucket = Bucket(10.0, 0.0)
    assert [bucket.take(0.0) for _ in range(20)] == [0.0] * 20
    assert bucket.take(0.0) == pytest.approx(0.1)
    assert bucket.take(0.1) == 0.0
    assert bucket.take(0.1) > 0
    assert [bucket.take(1000.0) for _ in range(20)] == [0.0] * 20
    assert bucket.take(1000.0) > 0


@given(st.floats(0.1, 1000), st.lists(st.floats(0, 5), max_size=60))
def test_no_rhythm_takes_more_than_the_rate(rate: float, pauses: list[float]) -> None:
    bucket, now, taken = Bucket(rate, 0.0), 0.0, 0
    for pause in pauses:
        now += pause
        taken += bucket.take(now) == 0.0
    assert taken <= max(1.0, 2 * rate) + rate * now + 1e-6


@pytest.mark.parametrize("name", ["MAX_CONNECTIONS", "MAX_STREAMS", "KEY_REQUESTS", "KEY_STREAMS", "KEY_RATE"])
def test_a_limit_of_nothing_is_a_mistake(name: str) -> None:
    with pytest.raises(BadConfiguration, match=name):
        Caps.read(Environment({f"TAILRACE_{name}": "0"}))
    assert Caps.read(Environment({f"TAILRACE_{name}": "7"})) != Caps()


def test_patience_ends_with_a_client_that_stands_still() -> None:
    patience, request = Patience(), object()
    assert not patience.sends_too_slowly(100.0, request, 0, 10)
    assert not patience.sends_too_slowly(109.0, request, 0, 10)
    assert patience.sends_too_slowly(110.0, request, 10, 10)
    assert not patience.sends_too_slowly(110.0, object(), 10, 10), "another request begins at zero"


def test_patience_lasts_as_long_as_a_body_comes() -> None:
    patience, request = Patience(), object()
    assert not any(patience.sends_too_slowly(float(now), request, now * BODY_BYTES // 5, 10) for now in range(100))


def test_patience_with_readers_lasts_as_long_as_they_read() -> None:
    patience = Patience()
    assert not any(patience.reads_too_slowly(float(now), 1000 - now, 10) for now in range(900))
    assert not patience.reads_too_slowly(905.0, 100, 10)
    assert patience.reads_too_slowly(915.0, 100, 10)
    assert not patience.reads_too_slowly(916.0, 0, 10)
    assert not patience.reads_too_slowly(990.0, 5, 10)


# Logs

SHOWN = [
    ("GET /research/stream/a?ticket=abc&lastEventId=1", "GET /research/stream/a?ticket=***&lastEventId=1"),
    ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
    ("b'Bearer abc'", "b'Bearer ***'"),
    ("Cookie: a=1; tailrace_session=trs_x; b=2", "Cookie: a=1; tailrace_session=***; b=2"),
    ("redis://user:pass@host:1/0", "redis://user:***@host:1/0"),
    ("rediss://:pass@host", "rediss://:***@host"),
    ("http://user:p&a;s,s@llm.example:8000/v1", "http://user:***@llm.example:8000/v1"),
    ("POST https://hooks.slack.com/services/T0/B0/abc failed", "POST https://hooks.slack.com/services/*** failed"),
    ("'https://discord.com/api/webhooks/1/abc'", "'https://discord.com/api/webhooks/***'"),
    ("key trk_0123456789abcdefghij here", "key trk_*** here"),
    ("http://127.0.0.1:3989/a@b", "http://127.0.0.1:3989/a@b"),
    ("a bearer of news; ticket office", "a bearer *** news; ticket office"),
]


@pytest.mark.parametrize(("text", "masked"), SHOWN)
def test_what_would_let_somebody_in_is_masked(text: str, masked: str) -> None:
    assert mask(text) == masked
    event = {"event": text, "list": [text, 1], "error": ValueError(text), "n": 3, "by_name": {"a": text}}
    told = mask_values(None, "info", event)
    assert (told["event"], told["list"], told["n"], told["by_name"]) == (masked, [masked, 1], 3, {"a": masked})
    assert masked in told["error"].replace("\\'", "'")
    record = logging.LogRecord("x", logging.ERROR, "x", 1, "%s", (text,), None)
    assert standard_formatter([mask_values, lambda _, name, event: str(event["event"])]).format(record) == masked
