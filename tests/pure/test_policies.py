"""policies: which platforms there are and the rules each one lives by."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.producers.platforms import BUILT_IN, EXTRACT, SHOPS
from tailrace.streams.errors import BadConfiguration, WrongField
from tailrace.streams.functions import functions
from tailrace.streams.options import Options, Retrying
from tailrace.streams.policies import MANY, Policy, rules_of
from tailrace.streams.store.kept_policies import digest
from tests.support.streams_readme import NONE, table


def test_the_platforms_of_the_box_are_there() -> None:
    assert set(BUILT_IN) == {
        *("oliveyoung", "ably", "kurly", "hwahae", "musinsa", "zigzag"),
        *("extract", "url_extraction", "single_product", "multi_platform"),
        *("default", "research", "plan-generation", "material-processing"),
    }


@pytest.mark.parametrize("name", [*SHOPS, *EXTRACT, "default"])
def test_shops_the_extract_group_and_default_run_one_at_a_time_overall(name: str) -> None:
    assert BUILT_IN[name].max_running == 1


@pytest.mark.parametrize("name", ["research", "plan-generation", "material-processing"])
def test_the_others_run_ten_per_process(name: str) -> None:
    policy = BUILT_IN[name]
    assert (policy.max_running, policy.max_running_per_process) == (0, 10)


def test_one_consumer_serves_the_whole_extract_lane() -> None:
    platforms = BUILT_IN
    assert platforms.serving("extract") == EXTRACT
    assert platforms.serving("url_extraction") == ("url_extraction",)
    assert platforms.serving("kurly") == ("kurly",)
    assert platforms.lanes()["extract"] == EXTRACT
    assert sorted(name for lane in platforms.lanes().values() for name in lane) == sorted(platforms)


def test_declared_platforms_come_on_top_and_known_ones_keep_their_policy() -> None:
    platforms = BUILT_IN.declare(["coupang", "kurly"])
    assert platforms["coupang"] == MANY
    assert platforms["kurly"].max_running == 1
    assert "coupang" not in BUILT_IN


def test_a_configuration_changes_what_it_names_and_nothing_else() -> None:
    platforms = BUILT_IN.configure({"kurly": {"max_crashes": 5}, "naver": {"max_running": 2}})
    assert platforms["kurly"] == Policy(max_running=1, max_running_per_process=1, max_crashes=5)
    assert platforms["naver"] == Policy(max_running=2)
    assert platforms["ably"] == BUILT_IN["ably"]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("kurly", {"overal": 1}),
        ("kurly", {"max_running": "one"}),
        ("kurly", {"max_running": -1}),
        ("kurly", {"max_running_per_process": 0}),
        ("kurly", {"max_crashes": 0}),
        ("../x", {}),
        ("kurly", 3),
    ],
)
def test_a_wrong_configuration_names_its_platform(name: str, fields: object) -> None:
    with pytest.raises(BadConfiguration, match=name):
        BUILT_IN.configure({name: fields})


def test_a_platform_that_cannot_be_a_name_is_not_declared() -> None:
    with pytest.raises(BadConfiguration, match="A}b"):
        BUILT_IN.declare(["A}b"])


def test_an_undeclared_platform_is_refused_naming_those_that_are() -> None:
    assert BUILT_IN.known("kurly") == "kurly"
    with pytest.raises(WrongField, match=r"oliveyoung.*material-processing") as refusal:
        BUILT_IN.known("amazon")
    assert refusal.value.field == "platform"


CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    ({"attempts": 11, "max_starts": 10}, "attempts"),
    ({"max_starts": 2}, "attempts"),
    ({"timeout_seconds": 60, "lifetime_seconds": 30}, "timeout_seconds"),
    ({"backoff_seconds": 60, "backoff_cap_seconds": 30}, "backoff_cap_seconds"),
    ({"backoff_seconds": 7200}, "backoff_cap_seconds"),
    ({"share": 1}, "share"),
]
RANGES: dict[str, dict[str, Any]] = {
    name: schema
    for name, schema in msgspec.json.schema_components([Policy])[1]["Policy"]["properties"].items()
    if "minimum" in schema
}
WRONG: list[tuple[dict[str, Any], str]] = [
    *[({field: schema["minimum"] - 1}, field) for field, schema in RANGES.items()],
    *[({field: schema["maximum"] + 1}, field) for field, schema in RANGES.items()],
    *[({field: 1.5}, field) for field, schema in RANGES.items() if schema["type"] == "integer"],
    *[
        ({field: value}, field)
        for field in (
            "backoff_seconds",
            "timeout_seconds",
            "lifetime_seconds",
            "keep_completed_seconds",
            "rate_seconds",
        )
        for value in (-1, math.nan, math.inf, "1 h")
    ],
    ({"rate_seconds": 0}, "rate_seconds"),
    ({"key_rate_seconds": 0.0001}, "key_rate_seconds"),
    ({"jitter": 2}, "jitter"),
    ({"order": "wait"}, "order"),
    ({"backoff": "linear"}, "backoff"),
    ({"rates": 5}, "rates"),
]


@pytest.mark.parametrize(("fields", "field"), CONTRADICTIONS + WRONG, ids=lambda value: str(value)[:60])
def test_a_wrong_or_contradicting_policy_names_its_platform_and_its_field(fields: Any, field: str) -> None:
    with pytest.raises(BadConfiguration, match=rf"kurly.*\b{field}\b"):
        BUILT_IN.configure({"kurly": fields})


def test_a_policy_may_contradict_nothing_that_was_said_of_its_platform_before() -> None:
    strict = BUILT_IN.configure({"kurly": {"max_starts": 5, "lifetime_seconds": 60}})
    with pytest.raises(BadConfiguration, match="timeout_seconds"):
        strict.configure({"kurly": {"timeout_seconds": 90}})


@pytest.mark.parametrize(
    ("said", "field"),
    [
        (Options(attempts=200), "attempts"),
        (Options(backoff_seconds=7200.0), "backoff_cap_seconds"),
        (Options(timeout_seconds=7200.0), "timeout_seconds"),
    ],
)
def test_what_a_job_says_must_fit_the_rules_of_its_platform(said: Options, field: str) -> None:
    with pytest.raises(WrongField) as refusal:
        Policy(lifetime_seconds=3600.0).retrying(said)
    assert refusal.value.field == field


@given(st.integers(1, 100), st.sampled_from(["exponential", "fixed"]), st.floats(0, 1))
def test_a_job_overrides_what_it_says_and_nothing_else(attempts: int, backoff: Any, jitter: float) -> None:
    said = Retrying(attempts=attempts, backoff=backoff, jitter=jitter)
    own = Policy(max_running=7, backoff_seconds=5.0).retrying(said)
    assert (own.attempts, own.backoff, own.jitter) == (attempts, backoff, jitter)
    assert (own.max_running, own.backoff_seconds) == (7, 5.0)


def test_a_transition_is_told_the_rules_that_its_header_names() -> None:
    policy = Policy(max_running=2, lane="shops", rate=5, rate_seconds=0.5, keep_failed_seconds=60.0)
    claim = rules_of("claim", policy, ("ably", "zigzag"))
    assert set(claim) <= set(functions()["claim"].args)
    assert claim.items() >= {"max_running": 2, "lane": "ably zigzag", "rate": 5, "rate_ms": 500}.items()
    kept = {"keep_completed_ms": 3_600_000, "keep_completed": 100, "keep_failed_ms": 60_000, "keep_failed": 0}
    assert rules_of("forget", policy) == kept


def shown(value: Any) -> str:
    """A default as the table has it."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


ROWS = table("Policies and options")
RULES = {field.name: field.default for field in msgspec.structs.fields(Policy)}
SAID = {field.name: field.default for field in msgspec.structs.fields(Options)}


def test_every_rule_and_option_has_a_row() -> None:
    assert list(ROWS) == [*RULES, *(name for name in SAID if name not in RULES)]


@pytest.mark.parametrize("name", ROWS)
def test_a_row_tells_the_default_and_who_may_say_it(name: str) -> None:
    default, unit, by, _ = ROWS[name]
    assert default == shown(RULES.get(name, SAID.get(name)))
    assert by == ("both" if name in RULES and name in SAID else "platform" if name in RULES else "job")
    if name.endswith("_seconds"):
        assert unit == "s"


def test_the_digest_of_a_file_is_of_what_it_says_and_not_of_the_fields_that_a_version_knows() -> None:
    class Newer(Policy, frozen=True):
        hedge_seconds: float = 5.0

    def of(kind: type[Policy] = Policy, **said: Any) -> str:
        return digest(msgspec.convert(said, kind), said)

    now = of(rate=7, rate_seconds=60)
    assert of(Newer, rate=7, rate_seconds=60) == now
    assert of(rate_seconds=60.0, rate=7) == now, "neither order nor way of writing count"
    assert of(rate=8, rate_seconds=60) != now
    assert of(rate=7) != now
    assert of(rate=7, rate_seconds=60, attempts=3) != now, "a default that is written is said"
