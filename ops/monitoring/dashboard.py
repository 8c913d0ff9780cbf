"""The dashboard for Grafana, as code: `python -m tailrace.ops.monitoring.dashboard` writes its file."""

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

FILE: Final = Path(__file__).resolve().parents[1] / "deploy" / "grafana" / "dashboard.json"

WIDTH: Final = 24  # columns of Grafana's grid
SOURCE: Final = {"type": "prometheus", "uid": "${source}"}
OF: Final = 'platform=~"$platform"'


class Panel(NamedTuple):
    """One panel: each of its queries by the name that its line gets."""

    title: str
    queries: dict[str, str]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    height: int = 7


class Row(NamedTuple):
    title: str
    panels: tuple[Panel, ...]


def share(quantile: float, name: str, by: str = "le, platform", of: str = f"{{{OF}}}") -> str:
    """A quantile of a histogram."""
    return f"histogram_quantile({quantile:g}, sum by ({by}) (rate({name}_bucket{of}[$__rate_interval])))"


ROWS: Final = (
    Row(
        "Now",
        (
            Panel("Waiting", {"jobs": f'sum(tailrace_jobs{{{OF}, state="waiting"}})'}, kind="stat", width=4, height=4),
            Panel("Running", {"jobs": f'sum(tailrace_jobs{{{OF}, state="running"}})'}, kind="stat", width=4, height=4),
            Panel("Workers alive", {"workers": f"sum(tailrace_consumers{{{OF}}})"}, kind="stat", width=4, height=4),
            Panel(
                "Workers silent", {"workers": f"sum(tailrace_silent_consumers{{{OF}}})"}, kind="stat", width=4, height=4
            ),
            Panel("Store", {"up": "min(tailrace_store_up)"}, kind="stat", width=4, height=4),
            Panel("Paused platforms", {"platforms": f"sum(tailrace_paused{{{OF}}})"}, kind="stat", width=4, height=4),
        ),
    ),
    Row(
        "Queues",
        (
            Panel("Waiting jobs", {"{{platform}}": f'tailrace_jobs{{{OF}, state="waiting"}}'}),
            Panel("Running jobs", {"{{platform}}": f'tailrace_jobs{{{OF}, state="running"}}'}),
            Panel("Delayed jobs", {"{{platform}}": f'tailrace_jobs{{{OF}, state="delayed"}}'}),
            Panel("Oldest waiting job", {"{{platform}}": f"tailrace_oldest_waiting_seconds{{{OF}}}"}, "s"),
            Panel(
                "Queue wait",
                {
                    "{{platform}} half of them": share(0.5, "tailrace_queue_wait_seconds"),
                    "{{platform}} 95 %": share(0.95, "tailrace_queue_wait_seconds"),
                },
                "s",
            ),
            Panel(
                "Run time",
                {
                    "{{platform}} half of them": share(0.5, "tailrace_run_seconds"),
                    "{{platform}} 95 %": share(0.95, "tailrace_run_seconds"),
                },
                "s",
            ),
            Panel(
                "Run time of attempts",
                {"{{le}}": f"sum by (le) (increase(tailrace_run_seconds_bucket{{{OF}}}[$__rate_interval]))"},
                kind="heatmap",
                width=16,
            ),
            Panel("Slots in use", {"{{platform}}": f"sum by (platform) (tailrace_slots_used{{{OF}}})"}),
        ),
    ),
    Row(
        "Outcomes",
        (
            Panel(
                "Ended jobs",
                {"{{outcome}}": f"sum by (outcome) (rate(tailrace_ended_total{{{OF}}}[$__rate_interval]))"},
                "ops",
            ),
            Panel(
                "Attempts",
                {"{{outcome}}": f"sum by (outcome) (rate(tailrace_attempts_total{{{OF}}}[$__rate_interval]))"},
                "ops",
            ),
            Panel(
                "Failed attempts by kind and error",
                {
                    "{{kind}} {{error}}": "topk(10, sum by (kind, error) "
                    f"(increase(tailrace_failures_total{{{OF}}}[$__rate_interval])))"
                },
            ),
            Panel(
                "Attempts that lost their worker",
                {"{{platform}}": f"increase(tailrace_lost_attempts_total{{{OF}}}[$__rate_interval])"},
            ),
            Panel(
                "Jobs back in the queue",
                {
                    "{{platform}} {{reason}}": "sum by (platform, reason) "
                    f"(increase(tailrace_reclaims_total{{{OF}}}[$__rate_interval]))"
                },
            ),
            Panel(
                "Refused writes",
                {
                    "{{platform}}": "sum by (platform) "
                    f"(increase(tailrace_refused_writes_total{{{OF}}}[$__rate_interval]))"
                },
            ),
        ),
    ),
    Row(
        "Workers",
        (
            Panel(
                "Memory",
                {
                    "{{instance}} {{process}}": "tailrace_process_memory_bytes",
                    "{{instance}}": 'process_resident_memory_bytes{job="tailrace-gateway"}',
                },
                "bytes",
            ),
            Panel(
                "Processors in use",
                {
                    "{{instance}} {{process}}": "rate(tailrace_process_cpu_seconds_total[$__rate_interval])",
                    "{{instance}}": 'rate(process_cpu_seconds_total{job="tailrace-gateway"}[$__rate_interval])',
                },
            ),
            Panel("Loop lag", {"{{instance}}": "tailrace_loop_lag_seconds"}, "s"),
            Panel("Beats", {"{{instance}}": "rate(tailrace_beats_total[$__rate_interval])"}, "ops"),
            Panel("Failed beats", {"{{instance}}": "increase(tailrace_beats_failed_total[$__rate_interval])"}),
            Panel("Age of the last beat", {"{{consumer}}": "tailrace_beat_age_seconds"}, "s"),
            Panel("Versions", {"{{role}} {{version}}": "count by (role, version) (tailrace_build_info)"}),
            Panel("Workers of each platform", {"{{platform}}": f"tailrace_consumers{{{OF}}}"}),
        ),
    ),
    Row(
        "Store",
        (
            Panel(
                "Round trip of commits",
                {
                    "half of them": share(0.5, "tailrace_store_round_trip_seconds", "le", ""),
                    "99 %": share(0.99, "tailrace_store_round_trip_seconds", "le", ""),
                    "ping of {{instance}}": "tailrace_store_ping_seconds",
                },
                "s",
            ),
            Panel(
                "Operations in a commit",
                {
                    "mean": "sum(rate(tailrace_commit_operations_sum[$__rate_interval])) "
                    "/ sum(rate(tailrace_commit_operations_count[$__rate_interval]))"
                },
            ),
            Panel(
                "Memory of the store",
                {"used": "max(tailrace_store_memory_bytes)", "limit": "max(tailrace_store_memory_limit_bytes)"},
                "bytes",
            ),
            Panel("Clock of the store", {"ahead of {{instance}}": "tailrace_store_clock_skew_seconds"}, "s"),
        ),
    ),
    Row(
        "Gateway",
        (
            Panel(
                "Answers",
                {"{{route}} {{code}}": "sum by (route, code) (rate(tailrace_requests_total[$__rate_interval]))"},
                "reqps",
            ),
            Panel("Live clients", {"{{instance}}": "sum by (instance) (tailrace_sse_clients)"}),
            Panel(
                "Events sent",
                {"{{instance}}": "sum by (instance) (rate(tailrace_sse_events_total[$__rate_interval]))"},
                "ops",
            ),
            Panel("Watched jobs", {"{{instance}}": "sum by (instance) (tailrace_watched_jobs)"}),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    return {
        "uid": "tailrace",
        "title": "Tailrace",
        "tags": ["tailrace"],
        "schemaVersion": 39,
        "editable": False,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "source", "type": "datasource", "query": "prometheus", "label": "Data source"},
                {
                    "name": "platform",
                    "type": "query",
                    "datasource": SOURCE,
                    "query": {"query": "label_values(tailrace_jobs, platform)", "refId": "platform"},
                    "refresh": 2,
                    "multi": True,
                    "includeAll": True,
                    "allValue": ".*",
                    "current": {"text": "All", "value": "$__all"},
                },
            ]
        },
        "panels": panels(),
    }


def panels() -> list[dict[str, Any]]:
    """Every row with its panels, from left to right and from top to bottom."""
    made: list[dict[str, Any]] = []
    y = 0
    for row in ROWS:
        made.append({"type": "row", "title": row.title, "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1}, "panels": []})
        x, y, height = 0, y + 1, 0
        for panel in row.panels:
            if x + panel.width > WIDTH:
                x, y = 0, y + height
            made.append(drawn(panel, x, y))
            x, height = x + panel.width, panel.height
        y += height
    return [{"id": number, **panel} for number, panel in enumerate(made, 1)]


def drawn(panel: Panel, x: int, y: int) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + number), "datasource": SOURCE, "expr": expr, "legendFormat": legend}
        for number, (legend, expr) in enumerate(panel.queries.items())
    ]
    if panel.kind == "heatmap":
        targets[0]["format"] = "heatmap"
    return {
        "type": panel.kind,
        "title": panel.title,
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": targets,
    }


def written() -> str:
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(written(), encoding="utf-8")
