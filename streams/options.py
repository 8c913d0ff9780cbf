"""Options of a submission beyond its platform's policy: when, how often, in which order, for how long."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal, TypedDict

import msgspec
from msgspec import Meta, Struct

from tailrace.streams.errors import WrongField
from tailrace.streams.keys import BANDS, LABEL_FORM
from tailrace.streams.validation import allowed, between, check_fields

Backoff = Literal["exponential", "fixed"]
Mode = Literal["until_done", "throttle", "debounce"]

LONGEST_SECONDS = 10 * 366 * 86_400.0
MOST_ATTEMPTS = 1000

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_MS = 253_402_300_799_999  # of the year 9999, where the calendar of Python ends

SECONDS = "must be a number of seconds, 0 or more, and at most ten years"
LABEL = "must have 1 to 64 characters of A-Z a-z 0-9 . _ : @ / -"

Seconds = Annotated[float, between(0, LONGEST_SECONDS, SECONDS)]
Attempts = Annotated[int, between(1, MOST_ATTEMPTS)]
Share = Annotated[float, between(0, 1)]
Label = Annotated[str, allowed(re.compile(LABEL_FORM).fullmatch, LABEL, pattern=f"^{LABEL_FORM}$")]
Priority = Annotated[str, allowed(BANDS.__contains__, f"must be one of {', '.join(BANDS)}", enum=list(BANDS))]
TRACE_FORM = r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
Traceparent = Annotated[
    str,
    allowed(re.compile(TRACE_FORM).fullmatch, "must be 00-<trace id>-<span id>-<flags>", pattern=f"^{TRACE_FORM}$"),
]
Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]  # `at_ms` checks it


class Dedupe(Struct, frozen=True, forbid_unknown_fields=True):
    """A key under which several submissions are one job, for as long as the mode says."""

    key: Label
    mode: Mode = "until_done"
    ttl_seconds: Seconds | None = None  # for throttle


class Retrying(Struct, frozen=True, omit_defaults=True):
    """Limits and pauses for attempts that fail or take too long; None: those of the platform's policy."""

    attempts: Attempts | None = None
    backoff: Backoff | None = None
    backoff_seconds: Seconds | None = None
    backoff_cap_seconds: Seconds | None = None
    jitter: Share | None = None
    timeout_seconds: Seconds | None = None
    lifetime_seconds: Seconds | None = None


class HandedOptions(Retrying, frozen=True):
    """The options of a job that its consumer gets with the claim."""

    parent: str | None = None  # the job that spawned it
    flow: bool = False  # its args are in an envelope, with the children that go before it
    trace: str | None = None  # its traceparent without the version, so that a record of 64 bytes a value holds it

    @property
    def traceparent(self) -> str | None:
        return self.trace and f"00-{self.trace}"


_read_handed = msgspec.json.Decoder(HandedOptions).decode


def handed_options(said: bytes | str | None) -> HandedOptions:
    """The options of a claim or of a record. Raises ValueError when another program wrote them."""
    return _read_handed(said) if said else HandedOptions()


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
    traceparent: Traceparent | None = None  # of the span that asked for it; not part of what makes a request the same

    def __post_init__(self) -> None:
        check_fields(self)
        check_retrying(self)
        starts, expires = at_ms(self.run_at, "run_at"), at_ms(self.expires_at, "expires_at")
        if self.run_at and self.delay_seconds is not None:
            raise WrongField("run_at", "cannot be combined with delay_seconds; set only one of them")
        if starts is not None and expires is not None and expires <= starts:
            raise WrongField("expires_at", f"must be after run_at, {self.run_at}: the job could never start")
        if self.first and (self.run_at or self.delay_seconds):
            raise WrongField(
                "first", "cannot be combined with a delay: a delayed job goes before others anyway when it is due"
            )
        if self.dedupe:
            self._check_dedupe(self.dedupe)

    def _check_dedupe(self, dedupe: Dedupe) -> None:
        check_fields(dedupe, "dedupe.")
        if dedupe.mode == "throttle" and not dedupe.ttl_seconds:
            raise WrongField("dedupe.ttl_seconds", "is required with the mode throttle, and must be above 0")
        if dedupe.mode != "throttle" and dedupe.ttl_seconds is not None:
            raise WrongField(
                "dedupe.ttl_seconds", f"cannot be combined with the mode {dedupe.mode}; it is for throttle"
            )
        if dedupe.mode == "debounce" and not (self.run_at or self.delay_seconds):
            raise WrongField("dedupe.mode", "debounce replaces a job while it is delayed; set delay_seconds or run_at")

    @property
    def plain(self) -> bool:
        """Whether nothing but a priority was said, as of most jobs."""
        return self == PLAIN[self.priority]

    def extras(self, *, flow: bool = False) -> str:
        """The options as `submit` takes them: words of `name=value`; empty for a job without any."""
        if self.plain and not flow:
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
        words["options"] = self._for_its_consumer(flow)
        return " ".join(f"{name}={value}" for name, value in words.items() if value is not None)

    def _for_its_consumer(self, flow: bool) -> str | None:
        said = {n: value for n in Retrying.__struct_fields__ if (value := getattr(self, n)) is not None}
        if flow:
            said["flow"] = True
        if self.traceparent:
            said["trace"] = self.traceparent[3:]
        return msgspec.json.encode(said).decode() if said else None


class JobOptions(TypedDict, total=False):
    """The fields of `Options` as keyword arguments; a time may be a datetime."""

    priority: str
    delay_seconds: float | None
    run_at: datetime | str | None
    expires_at: datetime | str | None
    first: bool
    order_key: str | None
    limit_key: str | None
    dedupe: Dedupe | None
    keep_seconds: float | None
    traceparent: str | None
    attempts: int | None
    backoff: Backoff | None
    backoff_seconds: float | None
    backoff_cap_seconds: float | None
    jitter: float | None
    timeout_seconds: float | None
    lifetime_seconds: float | None


class KeptOptions(Struct, frozen=True, kw_only=True):
    """The options that a record keeps and clients see. The fields of a subclass come before these."""

    orderKey: str | None
    limitKey: str | None
    dedupeKey: str | None


def kept_options(marks: str | None, dedupe: str | None) -> dict[str, str | None]:
    """The fields of `KeptOptions`, of what a record keeps."""
    said = marks_of(marks)
    return {"orderKey": said.get("order"), "limitKey": said.get("limit"), "dedupeKey": dedupe}


def check_retrying(said: Retrying) -> None:
    """Raise `WrongField` for limits that contradict each other."""
    if said.backoff_cap_seconds is not None and (said.backoff_seconds or 0) > said.backoff_cap_seconds:
        raise WrongField(
            "backoff_cap_seconds",
            f"is {said.backoff_cap_seconds:g}, below the {said.backoff_seconds:g} of backoff_seconds; raise it",
        )
    if said.lifetime_seconds and (said.timeout_seconds or 0) > said.lifetime_seconds:
        raise WrongField(
            "timeout_seconds",
            f"is {said.timeout_seconds:g}, above the {said.lifetime_seconds:g} of lifetime_seconds, "
            "which a job may take with all attempts",
        )


def marks_of(text: str | None) -> dict[str, str]:
    """Marks by name, as a record and a lease carry them: `name=value` words.

    Of a job: `order`, `limit`, `dedupe`, `keep`. A lease adds `alone`, `strict` and `cancel`.
    """
    return dict(word.split("=", 1) for word in (text or "").split() if "=" in word)


def plain_number(value: float) -> str:
    """Whole milliseconds and no exponent, as short as can be."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def at_ms(text: str | None, field: str) -> int | None:
    """A point in time as milliseconds. Raises `WrongField` for a text without an offset from UTC."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is None:
            raise WrongField(field, "must have an offset from UTC, such as Z or +09:00", text)
        ms = (at - EPOCH) // timedelta(milliseconds=1)  # by way of a float it would be rounded into the year 10000
    except (TypeError, ValueError, OverflowError):
        raise WrongField(field, "must be a time such as 2027-01-31T09:00:00Z", text) from None
    if ms > LAST_MS:
        raise WrongField(field, "must not be after the year 9999", text)
    return max(0, ms)


PLAIN = {band: Options(priority=band) for band in BANDS}
NO_OPTIONS = PLAIN["normal"]
