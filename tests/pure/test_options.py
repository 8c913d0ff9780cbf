"""options: what a submission may say of a job, and what is refused naming its field."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.streams.errors import WrongField
from tailrace.streams.keys import BANDS
from tailrace.streams.options import LONGEST_SECONDS, MOST_ATTEMPTS, NO_OPTIONS, Dedupe, Options, Retrying, at_ms
from tailrace.streams.options import SECONDS as SECONDS_SAID

NOON = "2027-01-31T12:00:00Z"
EVENING = "2027-01-31T18:00:00+09:00"  # before noon, by UTC

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"priority": "highest"}, "priority"),
    ({"priority": ""}, "priority"),
    ({"attempts": 0}, "attempts"),
    ({"attempts": -1}, "attempts"),
    ({"attempts": MOST_ATTEMPTS + 1}, "attempts"),
    ({"backoff": "linear"}, "backoff"),
    ({"jitter": -0.1}, "jitter"),
    ({"jitter": 1.1}, "jitter"),
    ({"jitter": math.nan}, "jitter"),
    ({"backoff_seconds": 9.0, "backoff_cap_seconds": 8.0}, "backoff_cap_seconds"),
    ({"timeout_seconds": 9.0, "lifetime_seconds": 8.0}, "timeout_seconds"),
    ({"run_at": NOON, "delay_seconds": 1.0}, "run_at"),
    ({"run_at": NOON, "delay_seconds": 0.0}, "run_at"),
    ({"run_at": NOON, "expires_at": NOON}, "expires_at"),
    ({"run_at": NOON, "expires_at": EVENING}, "expires_at"),
    ({"first": True, "delay_seconds": 1.0}, "first"),
    ({"first": True, "run_at": NOON}, "first"),
    ({"dedupe": Dedupe("")}, "dedupe.key"),
    ({"dedupe": Dedupe("k" * 65)}, "dedupe.key"),
    ({"dedupe": Dedupe("k", "once")}, "dedupe.mode"),  # type: ignore[arg-type]
    ({"dedupe": Dedupe("k", "throttle")}, "dedupe.ttl_seconds"),
    ({"dedupe": Dedupe("k", "throttle", 0.0)}, "dedupe.ttl_seconds"),
    ({"dedupe": Dedupe("k", "throttle", -1.0)}, "dedupe.ttl_seconds"),
    ({"dedupe": Dedupe("k", "throttle", math.nan)}, "dedupe.ttl_seconds"),
    ({"dedupe": Dedupe("k", "throttle", math.inf)}, "dedupe.ttl_seconds"),
    ({"dedupe": Dedupe("k", "until_done", 5.0)}, "dedupe.ttl_seconds"),
    ({"dedupe": Dedupe("k", "debounce", 5.0), "delay_seconds": 1.0}, "dedupe.ttl_seconds"),
    ({"dedupe": Dedupe("k", "debounce")}, "dedupe.mode"),
    ({"dedupe": Dedupe("k", "debounce"), "delay_seconds": 0.0}, "dedupe.mode"),
]

SECONDS = (
    "delay_seconds",
    "keep_seconds",
    "backoff_seconds",
    "backoff_cap_seconds",
    "timeout_seconds",
    "lifetime_seconds",
)
NO_SECONDS = (-1.0, -0.001, math.nan, math.inf, -math.inf, LONGEST_SECONDS + 1)
NO_TIMES = ("", "tomorrow", "2027-01-31", "2027-01-31T09:00:00", "2027-13-01T00:00:00Z", "1800000000", "12:00:00Z")
NO_LABELS = ("", "a b", "a=b", "a\nb", "\u00e9", "k" * 65, "{k}", "a*")


@pytest.mark.parametrize(("said", "field"), REFUSED, ids=lambda value: str(value)[:60])
def test_what_cannot_be_or_contradicts_itself_is_refused(said: dict[str, Any], field: str) -> None:
    with pytest.raises(WrongField) as refusal:
        Options(**said)
    assert refusal.value.field == field


@pytest.mark.parametrize("value", NO_SECONDS)
@pytest.mark.parametrize("field", SECONDS)
def test_what_is_no_number_of_seconds_is_refused(field: str, value: float) -> None:
    with pytest.raises(WrongField) as refusal:
        Options(**{field: value})  # type: ignore[arg-type]
    assert refusal.value.field == field


@pytest.mark.parametrize("value", NO_TIMES)
@pytest.mark.parametrize("field", ["run_at", "expires_at"])
def test_what_is_no_time_with_an_offset_is_refused(field: str, value: str) -> None:
    with pytest.raises(WrongField) as refusal:
        Options(**{field: value})  # type: ignore[arg-type]
    assert refusal.value.field == field


@pytest.mark.parametrize("value", NO_LABELS)
@pytest.mark.parametrize("field", ["order_key", "limit_key"])
def test_what_is_no_label_is_refused(field: str, value: str) -> None:
    with pytest.raises(WrongField) as refusal:
        Options(**{field: value})  # type: ignore[arg-type]
    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"attempts": "3"}, "attempts"),
        ({"attempts": 1.5}, "attempts"),
        ({"attempts": True}, "attempts"),
        ({"backoff": "linear"}, "backoff"),
        ({"delay_seconds": "soon"}, "delay_seconds"),
        ({"first": 1}, "first"),
        ({"dedupe": "k"}, "dedupe"),
        ({"dedupe": {"mode": "throttle"}}, "dedupe"),
        ({"dedupe": {"key": "k", "mode": "once"}}, "dedupe.mode"),
        ({"dedupe": {"key": "k", "ttl": 1}}, "ttl"),
        ({"retries": 3}, "retries"),
    ],
)
def test_a_body_with_a_wrong_type_is_refused_and_the_sentence_names_the_field(body: Any, field: str) -> None:
    with pytest.raises((msgspec.ValidationError, WrongField), match=field):
        msgspec.convert(body, Options)


labels = st.from_regex(r"[A-Za-z0-9._:@/-]{1,64}", fullmatch=True)
durations = st.floats(0, LONGEST_SECONDS)
dedupes = st.builds(Dedupe, labels) | st.builds(Dedupe, labels, st.just("throttle"), st.floats(0.001, 1e6))
times = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)).map(datetime.isoformat)  # noqa: DTZ001
good_options = st.builds(
    Options,
    priority=st.sampled_from(BANDS),
    attempts=st.none() | st.integers(1, MOST_ATTEMPTS),
    backoff=st.sampled_from([None, "exponential", "fixed"]),
    jitter=st.none() | st.floats(0, 1),
    timeout_seconds=st.none() | durations,
    delay_seconds=st.none() | durations,
    expires_at=st.none() | times,
    order_key=st.none() | labels,
    limit_key=st.none() | labels,
    keep_seconds=st.none() | durations,
    dedupe=st.none() | dedupes,
)


def words(extras: str) -> dict[str, str]:
    """What `submit` reads of it."""
    return dict(word.split("=", 1) for word in extras.split(" ")) if extras else {}


@given(good_options)
def test_the_store_gets_every_word_that_was_said(options: Options) -> None:
    said = words(options.extras())
    assert said.get("order") == options.order_key
    assert said.get("limit") == options.limit_key
    assert said.get("dedupe") == (options.dedupe.key if options.dedupe else None)
    assert ("expires_ms" in said) == (options.expires_at is not None)
    assert int(said.get("delay_ms", 0)) == round((options.delay_seconds or 0) * 1000)
    if options.keep_seconds is not None:
        assert abs(float(said["keep"]) - options.keep_seconds) <= 0.001
        assert "e" not in said["keep"]
    retrying = msgspec.json.decode(said["options"], type=Retrying) if "options" in said else Retrying()
    assert all(getattr(retrying, name) == getattr(options, name) for name in Retrying.__struct_fields__)


@given(good_options)
def test_options_survive_being_written_and_read(options: Options) -> None:
    assert msgspec.json.decode(msgspec.json.encode(options), type=Options) == options


@pytest.mark.parametrize("band", BANDS)
def test_a_job_of_which_nothing_was_said_costs_the_store_nothing(band: str) -> None:
    assert Options(priority=band).plain
    assert Options(priority=band).extras() == ""
    assert NO_OPTIONS.plain


@given(st.floats(allow_nan=True, allow_infinity=True), st.sampled_from(SECONDS))
def test_whatever_number_is_said_it_is_taken_or_named(value: float, field: str) -> None:
    if 0 <= value <= LONGEST_SECONDS:
        assert getattr(Options(**{field: value}), field) == value  # type: ignore[arg-type]
    else:
        with pytest.raises(WrongField, match=field):
            Options(**{field: value})  # type: ignore[arg-type]


@given(times, st.integers(-14, 14))
def test_the_same_moment_is_the_same_however_it_is_written(text: str, hours: int) -> None:
    moment = datetime.fromisoformat(text)
    elsewhere = (moment + timedelta(hours=hours)).replace(tzinfo=None).isoformat()
    sign = "-" if hours < 0 else "+"
    assert at_ms(f"{elsewhere}{sign}{abs(hours):02}:00", "run_at") == at_ms(text, "run_at")


WITH_ITS_VALUE: list[tuple[dict[str, Any], str]] = [
    ({"priority": "hihg"}, "priority: must be one of urgent, high, normal, low, not 'hihg'"),
    ({"delay_seconds": -1}, f"delay_seconds: {SECONDS_SAID}, not -1"),
    ({"delay_seconds": "5"}, f"delay_seconds: {SECONDS_SAID}, not '5'"),
    ({"order_key": 5}, "order_key: .*, not 5"),
    ({"run_at": 5}, "run_at: must be a time such as .*, not 5"),
    ({"run_at": "2027-01-31T12:00:00"}, "run_at: must have an offset .*, not '2027-01-31T12:00:00'"),
    ({"order_key": "x" * 1000}, r"order_key: .*, not 'x+\.\.\.x+'$"),
]


@pytest.mark.parametrize(("said", "sentence"), WITH_ITS_VALUE)
def test_a_wrong_value_stands_in_the_sentence(said: dict[str, Any], sentence: str) -> None:
    with pytest.raises(WrongField, match=sentence) as refusal:
        Options(**said)
    assert len(str(refusal.value)) < 200
