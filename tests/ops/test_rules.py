"""The rules for Prometheus: their file is that of the table, each fires when it should, and their runbook is there."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tailrace.ops.monitoring import rule_file
from tailrace.ops.monitoring.rules import RULES
from tests.conftest import LeaveOut

DEPLOY = Path(__file__).parents[2] / "ops" / "deploy"
GATEWAY = {"instance": "gateway:3989", "job": "tailrace-gateway"}


class Case(NamedTuple):
    """Series as they were scraped each minute; the alert is quiet at one minute and fires at another."""

    series: dict[str, str]
    quiet: int
    fires: int
    description: str
    labels: dict[str, str]


def of_gateway(name: str, **labels: str) -> str:
    pairs = {**labels, **GATEWAY}
    return name + "{" + ", ".join(f'{label}="{value}"' for label, value in pairs.items()) + "}"


KURLY = {"platform": "kurly"}
CASES = {
    "TailraceQueueLong": Case(
        {of_gateway("tailrace_jobs", **KURLY, state="waiting"): "1000x5 1001x30"},
        10,
        11,
        "kurly: 1001 jobs wait",
        {**KURLY, "state": "waiting", **GATEWAY},
    ),
    "TailraceOldestOld": Case(
        {
            of_gateway("tailrace_oldest_waiting_timestamp_seconds", **KURLY): "0x30",
            of_gateway("tailrace_paused", **KURLY): "0x30",
            of_gateway("tailrace_oldest_waiting_timestamp_seconds", platform="ably"): "0x30",
            of_gateway("tailrace_paused", platform="ably"): "1x30",
        },
        10,
        12,
        "kurly: the oldest job has waited for 12m 0s",
        {**KURLY, **GATEWAY},
    ),
    "TailraceWorkerDead": Case(
        {of_gateway("tailrace_silent_consumers", **KURLY): "0x5 1x30"},
        5,
        6,
        "kurly: 1 of its workers beat no more",
        {**KURLY, **GATEWAY},
    ),
    "TailraceWorkerDead, by its port": Case(
        {'up{instance="worker:9401", job="tailrace-consumers"}': "0 1x4 0x30"},
        6,
        7,
        "worker:9401 does not answer",
        {"instance": "worker:9401", "job": "tailrace-consumers"},
    ),
    "TailracePlatformUnserved": Case(
        {
            of_gateway("tailrace_jobs", **KURLY, state="delayed"): "2x30",
            of_gateway("tailrace_jobs", **KURLY, state="failed"): "7x30",
            of_gateway("tailrace_consumers", **KURLY): "1x5 0x30",
            of_gateway("tailrace_jobs", platform="ably", state="failed"): "7x30",
            of_gateway("tailrace_consumers", platform="ably"): "0x30",
        },
        6,
        7,
        "kurly: 2 jobs and no worker",
        {**KURLY, "instance": "gateway:3989"},
    ),
    "TailraceFailuresGrow": Case(
        {
            of_gateway("tailrace_ended_total", **KURLY, outcome="failed"): "0x10 1+1x20",
            of_gateway("tailrace_ended_total", **KURLY, outcome="completed"): "0+4x30",
            of_gateway("tailrace_ended_total", platform="ably", outcome="failed"): "0+1x30",
            of_gateway("tailrace_ended_total", platform="ably", outcome="completed"): "0+40x30",
        },
        12,
        24,
        "kurly: 10 jobs failed in ten minutes",
        {**KURLY, **GATEWAY},
    ),
    "TailraceWritesRefused": Case(
        {'tailrace_refused_writes_total{platform="kurly", instance="worker:9401"}': "0x5 10x30"},
        5,
        10,
        "kurly: 10 writes in ten minutes",
        KURLY,
    ),
    "TailraceCrashLoop": Case(
        {of_gateway("tailrace_lost_attempts_total", **KURLY): "0x5 2x4 3x30"},
        9,
        16,
        "kurly: 3 attempts lost their worker in a quarter of an hour",
        {**KURLY, **GATEWAY},
    ),
    "TailraceStoreDown": Case({of_gateway("tailrace_store_up"): "1x5 0x30"}, 5, 7, "it does not answer", GATEWAY),
    "TailraceStoreDown, by its gateway": Case(
        {of_gateway("tailrace_store_up"): "1x5 stale", of_gateway("up"): "1x5 0x30"},
        5,
        7,
        "it does not answer",
        GATEWAY,
    ),
    "TailraceStoreEvicts": Case(
        {of_gateway("tailrace_store_evicts"): "0x5 1x30"}, 5, 6, "its maxmemory-policy is not noeviction", GATEWAY
    ),
    "TailraceStoreWriteFails": Case(
        {of_gateway("tailrace_store_writes_failing"): "0x5 1x30"},
        5,
        6,
        "see its log and its free disk space",
        GATEWAY,
    ),
    "TailraceStoreFull": Case(
        {
            of_gateway("tailrace_store_memory_bytes"): "80x5 81x30",
            of_gateway("tailrace_store_memory_limit_bytes"): "100x30",
            'tailrace_store_memory_bytes{instance="unlimited"}': "99x30",
            'tailrace_store_memory_limit_bytes{instance="unlimited"}': "0x30",
        },
        6,
        7,
        "81% is in use",
        GATEWAY,
    ),
    "TailraceScheduleLate": Case(
        {of_gateway("tailrace_next_tick_timestamp_seconds", **KURLY): "600x30"},
        11,
        12,
        "kurly: it is 2m 0s late",
        {**KURLY, **GATEWAY},
    ),
}


def tool(name: str, leave_out: LeaveOut) -> str:
    return shutil.which(name) or leave_out(f"there is no {name} on this machine (Debian: prometheus)")


def test_the_file_is_that_of_the_table() -> None:
    assert rule_file.FILE.read_text() == rule_file.rule_file(), "run `python -m tailrace.ops.monitoring.rule_file`"


def test_every_rule_has_a_case() -> None:
    assert {name.partition(",")[0] for name in CASES} == {rule.name for rule in RULES}


def test_each_rule_fires_when_it_should_and_not_before(tmp_path: Path, leave_out: LeaveOut) -> None:
    promtool = tool("promtool", leave_out)
    rules = {rule.name: rule for rule in RULES}
    tests = []
    for name, case in CASES.items():
        rule = rules[name.partition(",")[0]]
        expected = {
            "exp_labels": {"severity": rule.severity, **case.labels},
            "exp_annotations": {
                "summary": rule.says,
                "description": case.description,
                "runbook": f"{rule_file.RUNBOOK}#{rule.anchor}",
            },
        }
        tests.append(
            {
                "name": name,
                "interval": "1m",
                "input_series": [{"series": series, "values": values} for series, values in case.series.items()],
                "alert_rule_test": [
                    {"eval_time": f"{case.quiet}m", "alertname": rule.name, "exp_alerts": []},
                    {"eval_time": f"{case.fires}m", "alertname": rule.name, "exp_alerts": [expected]},
                ],
            }
        )
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps({"rule_files": [str(rule_file.FILE)], "tests": tests}))
    told = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr


def test_the_configurations_are_valid(leave_out: LeaveOut) -> None:
    for command in (
        (
            tool("promtool", leave_out),
            "check",
            "config",
            "--syntax-only",
            str(DEPLOY / "prometheus" / "prometheus.yml"),
        ),
        (tool("promtool", leave_out), "check", "rules", str(rule_file.FILE)),
        (tool("amtool", leave_out), "check-config", str(DEPLOY / "alertmanager" / "alertmanager.yml")),
    ):
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_alert_has_a_paragraph_in_the_runbook(rule: object) -> None:
    name = getattr(rule, "name", "")
    runbook = (DEPLOY.parent / "runbook.md").read_text()
    assert re.search(rf"^### {name.removeprefix('Tailrace')}$", runbook, re.MULTILINE)
