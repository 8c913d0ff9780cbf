"""Traces: a job carries its traceparent, and with the SDK of OpenTelemetry there are spans from submit to each step."""

import subprocess
import sys
from collections.abc import Iterator

import opentelemetry.trace
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from tailrace.consumers import Attempt, Handlers
from tailrace.producers import Submission
from tailrace.producers.flows import children_of
from tailrace.streams.options import Options, handed_options
from tailrace.streams.process.tracing import traceparent_of
from tailrace.streams.replies import read_record
from tests.consumers.conftest import Bench, serving
from tests.support.eventually import eventually

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

handles = Handlers()


@handles("tries")
async def tries(attempt: Attempt[dict[str, int]]) -> str | None:
    await attempt.step("read", lambda: 1)
    if attempt.number < 3:
        raise LookupError("not yet")
    return attempt.traceparent


@handles("asks")
async def asks(attempt: Attempt[dict[str, int]]) -> str:
    return (await attempt.submit("told", {}, platform="many")).id


@handles("told")
async def told(attempt: Attempt[dict[str, int]]) -> str | None:
    return attempt.traceparent


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """What the real SDK exports. A provider can be set once in a process: here it is taken away again."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(opentelemetry.trace, "_TRACER_PROVIDER", provider)
    yield exporter
    provider.shutdown()


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == name]


def id_of(span: ReadableSpan) -> int:
    found = span.get_span_context()
    assert found
    return found.span_id


async def test_spans_go_from_submit_to_each_step_and_attempts_are_linked(
    bench: Bench, spans: InMemorySpanExporter
) -> None:
    async with serving(bench.store, handles):
        job = await bench.submit("tries", attempts=3, backoff_seconds=0.0, traceparent=PARENT)
        result = (await bench.end_of(job))[-1].result

        async def ended() -> bool:
            return len(named(spans, "attempt tries")) == 3

        await eventually("all attempts are exported", ended)
    (submit,), attempts = named(spans, "submit tries"), named(spans, "attempt tries")
    assert {span.context.trace_id for span in spans.get_finished_spans()} == {int(PARENT[3:35], 16)}
    assert submit.parent is not None
    assert (submit.kind, submit.parent.span_id) == (SpanKind.PRODUCER, int(PARENT[36:52], 16))
    assert result == f"{PARENT[:36]}{id_of(submit):016x}-01"
    (wait,) = named(spans, "wait tries")
    for span in (wait, *attempts):
        assert span.parent is not None
        assert span.parent.span_id == id_of(submit)
    assert [[link.context.span_id for link in each.links] for each in attempts] == [
        [],
        [id_of(attempts[0])],
        [id_of(attempts[1])],
    ]
    told = [each.attributes or {} for each in attempts]
    assert [each["tailrace.outcome"] for each in told] == ["retrying", "retrying", "completed"]
    assert [each["tailrace.attempt"] for each in told] == [1, 2, 3]
    assert [each.status.status_code for each in attempts] == [StatusCode.ERROR, StatusCode.ERROR, StatusCode.UNSET]
    (step,) = named(spans, "step read")  # the later attempts took it over
    assert step.parent is not None
    assert step.parent.span_id == id_of(attempts[0])
    assert "span" not in str([event.message for event in await bench.events(job)])


async def test_a_job_that_a_handler_submits_goes_on_with_its_trace(bench: Bench, spans: InMemorySpanExporter) -> None:
    async with serving(bench.store, handles):
        child = (await bench.end_of(await bench.submit("asks", traceparent=PARENT)))[-1].result
        carried = (await bench.end_of(child))[-1].result
    (attempt,) = named(spans, "attempt asks")
    assert carried == f"{PARENT[:36]}{id_of(attempt):016x}-01"


async def test_without_an_sdk_jobs_that_a_job_brings_in_line_carry_its_traceparent(bench: Bench) -> None:
    child = Submission("many", "told")
    flow = Submission("many", "told", {}, "root", Options(traceparent=PARENT), (child,))
    async with serving(bench.store, handles):
        spawned = (await bench.end_of(await bench.submit("asks", traceparent=PARENT)))[-1].result
        assert (await bench.end_of(spawned))[-1].result == PARENT
        root = (await bench.producer.submit(flow)).id
        await bench.end_of(root)
        (below,) = children_of(root, flow)
        assert (await bench.end_of(below))[-1].result == PARENT


async def test_without_an_sdk_a_job_carries_its_traceparent_and_nothing_else_changes(bench: Bench) -> None:
    async with serving(bench.store, handles):
        job = await bench.submit("tries", key="a", attempts=3, backoff_seconds=0.0, traceparent=PARENT)
        assert (await bench.end_of(job))[-1].result == PARENT
        record = await read_record(bench.store, bench.store.keys("many"), "a")
        assert handed_options(record.options).traceparent == PARENT
        assert await bench.store.command("HKEYS", bench.store.keys("many").steps("a")) in ([b"read"], [])


async def test_a_record_with_a_trace_stays_small(bench: Bench) -> None:
    await bench.submit("told", key="a", traceparent=PARENT)
    record = bench.store.keys("many").record("a")
    assert await bench.store.command("OBJECT", "ENCODING", record) == b"listpack"


@pytest.mark.parametrize(
    ("header", "carried"),
    [
        (PARENT, PARENT),
        (f"01{PARENT[2:]}-more", PARENT),
        (None, None),
        ("", None),
        (f"ff{PARENT[2:]}", None),
        (PARENT.upper(), None),
        (f"00-{'0' * 32}-b7ad6b7169203331-01", None),
        (f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01", None),
        ("nonsense", None),
    ],
)
def test_a_header_is_taken_over_if_it_is_what_the_standard_says(header: str | None, carried: str | None) -> None:
    assert traceparent_of(header) == carried


def test_an_sdk_is_noticed_when_it_is_set_up() -> None:
    program = """
from tailrace.streams.process import tracing
assert not tracing.enabled() and tracing.KNOWS_PROVIDER
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
assert tracing.enabled()
tracing.KNOWS_PROVIDER = False
assert tracing.enabled()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
