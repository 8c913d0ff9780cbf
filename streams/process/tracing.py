"""Traces of OpenTelemetry. A job always carries `traceparent`; spans are made where an SDK is set up.

Without the package `opentelemetry-api`, or without an SDK, nothing here costs more than one check. Spans are named
`submit`, `wait`, `attempt` and `step`, each with the kind of the job or the name of the step.
"""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any


def _found(module: str) -> Any:
    """A module, or None where it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        return None


trace, context = map(_found, ("opentelemetry.trace", "opentelemetry.context"))  # the extra `otel` brings them

HEADER = re.compile(r"(?!ff)[0-9a-f]{2}-((?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2})(?:-.*)?")

Facts = Mapping[str, str | int]


def traceparent_of(header: str | None) -> str | None:
    """The header of a request as a job carries it; None: it is absent, or not what the standard says, and ignored."""
    found = HEADER.fullmatch(header) if header else None
    return f"00-{found[1]}" if found else None


KNOWS_PROVIDER = hasattr(trace, "_TRACER_PROVIDER")


def enabled() -> bool:
    """Whether spans are worth making: an SDK, not only the API, is there.

    Each job asks, so the API's own variable is read where it has one: its public function looks into the environment.
    """
    if KNOWS_PROVIDER:
        return trace._TRACER_PROVIDER is not None
    return trace is not None and not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def current_traceparent() -> str | None:
    """The `traceparent` of the open span."""
    return to_traceparent(trace.get_current_span()) if trace is not None else None


def to_traceparent(span: Any) -> str | None:
    at = span.get_span_context()
    return f"00-{at.trace_id:032x}-{at.span_id:016x}-{int(at.trace_flags):02x}" if at.is_valid else None


@contextmanager
def open_span(name: str, facts: Facts, parent: str | None = None, *, producer: bool = False) -> Iterator[Any]:
    """A span around what is done here, below `parent` or else the open one. Yields None without an SDK."""
    if not enabled():
        yield None
        return
    kind = trace.SpanKind.PRODUCER if producer else trace.SpanKind.INTERNAL
    above = _below(parent) if parent else None
    with _tracer().start_as_current_span(name, above, kind, attributes=dict(facts)) as span:
        yield span


class AttemptSpan:
    """The span of one attempt: opened in the task of its handler, ended with its outcome."""

    def __init__(self, kind: str, facts: Facts, parent: str | None, waited_seconds: float | None) -> None:
        """`parent`: the job's traceparent. How long the job waited is a span of its own, which is over."""
        above = _below(parent) if parent else None
        if waited_seconds is not None:
            now = time.time_ns()
            wait = _tracer().start_span(
                f"wait {kind}", above, attributes=dict(facts), start_time=now - int(waited_seconds * 1e9)
            )
            wait.end(now)
        self._span = _tracer().start_span(f"attempt {kind}", above, trace.SpanKind.CONSUMER, attributes=dict(facts))
        context.attach(trace.set_span_in_context(self._span))  # never detached: the task ends with the attempt

    @property
    def traceparent(self) -> str | None:
        return to_traceparent(self._span)

    def link(self, before: str) -> None:
        """Link to the span of an earlier attempt."""
        self._span.add_link(_context_of(before), {"tailrace.link": "earlier attempt"})

    def end(self, outcome: str, error: str | None = None) -> None:
        self._span.set_attribute("tailrace.outcome", outcome)
        if error:
            self._span.set_status(trace.StatusCode.ERROR, error)
        self._span.end()


def _tracer() -> Any:
    return trace.get_tracer("tailrace")


def _context_of(traceparent: str) -> Any:
    _, trace_id, span_id, flags = traceparent.split("-")
    return trace.SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=trace.TraceFlags(int(flags, 16))
    )


def _below(traceparent: str) -> Any:
    return trace.set_span_in_context(trace.NonRecordingSpan(_context_of(traceparent)))
