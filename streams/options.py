"""What a submission may ask for beyond its platform's policy: when, how often, in which order, for how long."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta, Struct

from tailrace.streams.errors import WrongField
from tailrace.streams.keys import BANDS, LABEL_FORM, check_label

Backoff = Literal["exponential", "fixed"]
Mode = Literal["until_done", "throttle", "debounce"]

LONGEST_SECONDS = 10 * 366 * 86_400.0
MOST_ATTEMPTS = 1000

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_MS = 253_402_300_799_999  # of the year 9999, where the calendar of Python ends

# What a description of these fields says; the checks below are what refuses, with a sentence of their own.
Seconds = Annotated[float, Meta(extra_json_schema={"minimum": 0, "maximum": LONGEST_SECONDS})]
Attempts = Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": MOST_ATTEMPTS})]
Share = Annotated[float, Meta(extra_json_schema={"minimum": 0, "maximum": 1})]
Label = Annotated[str, Meta(extra_json_schema={"pattern": f"^{LABEL_FORM}$"})]
Priority = Annotated[str, Meta(extra_json_schema={"enum": list(BANDS)})]
Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


class Dedupe(Struct, frozen=True, forbid_unknown_fields=True):
    """Another submission under the same key is the same job, for as long as the mode says."""

    key: Label
    mode: Mode = "until_done"
    ttl_seconds: Seconds | None = None  # for throttle


class Retrying(Struct, frozen=True, omit_defaults=True):
    """How an attempt that fails or takes too long is dealt with; None: as the policy of the platform says."""

    attempts: Attempts | None = None
    backoff: Backoff | None = None
    backoff_seconds: Seconds | None = None
    backoff_cap_seconds: Seconds | None = None
    jitter: Share | None = None
    timeout_seconds: Seconds | None = None
    lifetime_seconds: Seconds | None = None


class Options(Retrying, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """All that can be said of one job; what is not said is as the platform's policy has it."""

    priority: Priority = "normal"
    delay_seconds: Seconds | None = None
    run_at: Time | None = None  # ISO 8601 with its offset from UTC
    expires_at: Time | None = None  # the same: not started by then, it ends failed
    first: bool = False
    order_key: Label | None = None
    limit_key: Label | None = None
    dedupe: Dedupe | None = None
    keep_seconds: Seconds | None = None

    def __post_init__(self) -> None:
        if self.priority not in BANDS:
            raise WrongField("priority", f"one of {', '.join(BANDS)}")
        check_retrying(self)
        seconds(self.delay_seconds, "delay_seconds")
        seconds(self.keep_seconds, "keep_seconds")
        for label, field in ((self.order_key, "order_key"), (self.limit_key, "limit_key")):
            if label is not None:
                check_label(label, field)
        starts, expires = at_ms(self.run_at, "run_at"), at_ms(self.expires_at, "expires_at")
        if self.run_at and self.delay_seconds is not None:
            raise WrongField("run_at", "contradicts delay_seconds; say one of them")
        if starts is not None and expires is not None and expires <= starts:
            raise WrongField("expires_at", "is not after run_at: the job could never start")
        if self.first and (self.run_at or self.delay_seconds):
            raise WrongField("first", "contradicts a delay; a job that starts later goes first when it is due anyway")
        if self.dedupe:
            self._check_dedupe(self.dedupe)

    def _check_dedupe(self, dedupe: Dedupe) -> None:
        check_label(dedupe.key, "dedupe.key")
        if dedupe.mode not in get_args(Mode):
            raise WrongField("dedupe.mode", f"one of {', '.join(get_args(Mode))}")
        if dedupe.mode == "throttle" and dedupe.ttl_seconds is None:
            raise WrongField("dedupe.ttl_seconds", "is needed to throttle")
        if dedupe.mode != "throttle" and dedupe.ttl_seconds is not None:
            raise WrongField("dedupe.ttl_seconds", f"contradicts the mode {dedupe.mode}; it is for throttle")
        if dedupe.ttl_seconds is not None and not 0 < dedupe.ttl_seconds <= LONGEST_SECONDS:
            raise WrongField("dedupe.ttl_seconds", "must be above 0")
        if dedupe.mode == "debounce" and not (self.run_at or self.delay_seconds):
            raise WrongField("dedupe.mode", "debounce replaces a job while it is delayed; say delay_seconds or run_at")

    @property
    def plain(self) -> bool:
        """Whether nothing but a priority was said, as of most jobs."""
        return self == PLAIN[self.priority]

    def extras(self) -> str:
        """What `submit` takes: words of `name=value`; empty for a job that has nothing of the kind."""
        if self.plain:
            return ""
        words: dict[str, object] = {}
        if self.delay_seconds:
            words["delay_ms"] = round(self.delay_seconds * 1000)
        words["run_at_ms"] = at_ms(self.run_at, "run_at")
        words["expires_ms"] = at_ms(self.expires_at, "expires_at")
        words["first"] = 1 if self.first else None
        words["order"] = self.order_key
        words["limit"] = self.limit_key
        words["keep"] = None if self.keep_seconds is None else plain_number(self.keep_seconds)
        if self.dedupe:
            words["dedupe"] = self.dedupe.key
            words["mode"] = self.dedupe.mode
            words["ttl_ms"] = None if self.dedupe.ttl_seconds is None else round(self.dedupe.ttl_seconds * 1000)
        words["options"] = self._for_its_consumer()
        return " ".join(f"{name}={value}" for name, value in words.items() if value is not None)

    def _for_its_consumer(self) -> str | None:
        said = {n: value for n in Retrying.__struct_fields__ if (value := getattr(self, n)) is not None}
        return msgspec.json.encode(said).decode() if said else None


def check_retrying(said: Retrying) -> None:
    """Refuse what cannot be, or contradicts itself."""
    if said.attempts is not None and not 1 <= said.attempts <= MOST_ATTEMPTS:
        raise WrongField("attempts", f"must be from 1 to {MOST_ATTEMPTS}")
    if said.backoff is not None and said.backoff not in get_args(Backoff):
        raise WrongField("backoff", f"one of {', '.join(get_args(Backoff))}")
    for name in ("backoff_seconds", "backoff_cap_seconds", "lifetime_seconds", "timeout_seconds"):
        seconds(getattr(said, name), name)
    if said.jitter is not None and not 0 <= said.jitter <= 1:
        raise WrongField("jitter", "must be from 0 to 1")
    if said.backoff_cap_seconds is not None and (said.backoff_seconds or 0) > said.backoff_cap_seconds:
        raise WrongField("backoff_cap_seconds", "is below backoff_seconds")
    if said.lifetime_seconds and (said.timeout_seconds or 0) > said.lifetime_seconds:
        raise WrongField("timeout_seconds", "is above lifetime_seconds: an attempt cannot take longer than the job")


def seconds(value: float | None, field: str) -> None:
    if value is not None and not 0 <= value <= LONGEST_SECONDS:
        raise WrongField(field, "must be a number of seconds, 0 or more, and at most ten years")


def marks_of(text: str | None) -> dict[str, str]:
    """Marks by name, as a record and a lease carry them: `name=value` words.

    Of a job: `order`, `limit`, `dedupe`, `keep`. A lease adds `alone`, `strict` and `cancel`.
    """
    return dict(word.split("=", 1) for word in (text or "").split() if "=" in word)


def plain_number(value: float) -> str:
    """Whole milliseconds and no exponent, as short as can be."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def at_ms(text: str | None, field: str) -> int | None:
    """A point in time as milliseconds; one without an offset from UTC could mean many."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is None:
            raise WrongField(field, "has no offset from UTC; end it with Z or +hh:mm")
        ms = (at - EPOCH) // timedelta(milliseconds=1)  # by way of a float it would be rounded into the year 10000
    except (ValueError, OverflowError):
        raise WrongField(field, "must be a time such as 2027-01-31T09:00:00Z") from None
    if ms > LAST_MS:
        raise WrongField(field, "is after the year 9999")
    return max(0, ms)


PLAIN = {band: Options(priority=band) for band in BANDS}
NO_OPTIONS = PLAIN["normal"]
