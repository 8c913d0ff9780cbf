"""The files of ops/deploy pass the linters of their kinds, and say the same of the workers."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml  # type: ignore[import-untyped]

from tailrace.consumers.settings import ConsumerSettings
from tailrace.ops.bootstrap import CHECKOUT
from tailrace.ops.deploy.manifests import FOLDER, WORKERS, manifests
from tailrace.producers.platforms import BUILT_IN, EXTRACT, SHOPS
from tailrace.streams.process.settings import Environment
from tests.support.linters import find_linter

DEPLOY = CHECKOUT / "ops" / "deploy"
COMPOSE = DEPLOY / "docker-compose.dev.yml"


Lint = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def lint(leave_out: Callable[[str], NoReturn]) -> Lint:

    def run(tool: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
        program = find_linter(tool, leave_out)
        return subprocess.run([program, *words], cwd=CHECKOUT, capture_output=True, text=True, check=False)

    return run


def passes(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stdout + done.stderr


def services() -> dict[str, Any]:
    """The services of the compose file, with its anchors followed."""
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())["services"]
    return found


def test_hadolint_finds_nothing_in_the_images(lint: Lint) -> None:
    passes(lint("hadolint", DEPLOY / "Dockerfile", DEPLOY / "Dockerfile.dev"))


def test_the_compose_files_are_by_the_specification(lint: Lint) -> None:
    schema = ("--builtin-schema", "vendor.compose-spec")
    passes(lint("check-jsonschema", *schema, COMPOSE, CHECKOUT / "ops" / "starter" / "project" / "compose.yaml"))


def test_the_manifests_are_by_the_schemas_of_kubernetes(lint: Lint) -> None:
    files = [FOLDER / "gateway.yaml", FOLDER / "consumers.yaml"]
    passes(lint("kubernetes-validate", "--strict", "--quiet", *files))


def test_the_manifests_are_those_of_the_table() -> None:
    for name, text in manifests().items():
        assert (FOLDER / name).read_text() == text, "run `python3 -m tailrace.ops.deploy.manifests`"


def test_systemd_takes_the_units(tmp_path: Path, lint: Lint) -> None:
    """In a copy that starts a program which is there; the unit of a template is one of its instances."""

    def verify(change: tuple[str, str] = ("", "")) -> subprocess.CompletedProcess[str]:
        units = []
        for path in (DEPLOY / "systemd").iterdir():
            unit = tmp_path / path.name.replace("@", "@kurly")
            text = path.read_text().replace("/opt/tailrace/bin/tailrace", "/bin/true").replace(*change)
            unit.write_text(text)
            units.append(unit)
        return lint("systemd-analyze", "verify", "--man=no", "--recursive-errors=yes", *units)

    passes(verify())
    assert verify(("KillMode=mixed", "KilMode=mixed")).returncode != 0


def test_compose_and_kubernetes_start_the_same_workers_and_leave_no_platform_out() -> None:
    workers = {name: told for name, told in services().items() if name.startswith("worker_")}
    assert list(workers) == [f"worker_{worker.name}" for worker in WORKERS]
    for worker, told in zip(WORKERS, workers.values(), strict=True):
        assert told["mem_limit"] == worker.memory.removesuffix("i").lower()
        assert told.get("shm_size", "") == worker.shm.removesuffix("i").lower()
        platforms = ConsumerSettings.read(BUILT_IN, environment=Environment(strings(told["environment"]))).platforms
        assert platforms == (worker.platforms or (worker.name,))
    served = [name for worker in WORKERS for name in worker.platforms or (worker.name,)]
    assert sorted(served) == sorted(BUILT_IN)
    assert {worker.name for worker in WORKERS} == {*SHOPS, EXTRACT[0], "default"}


def test_every_service_comes_back_is_limited_and_has_time_to_drain() -> None:
    for name, told in services().items():
        assert told["restart"] == "unless-stopped", name
        assert told["mem_limit"], name
        if name == "gateway" or name.startswith("worker_"):
            grace = ConsumerSettings.read(BUILT_IN, environment=Environment({})).grace_seconds
            assert int(told["stop_grace_period"].removesuffix("s")) > grace
            assert told["healthcheck"]["test"], name
    ports = [told["environment"].get("TAILRACE_METRICS_PORT") for told in services().values() if "build" in told]
    scraped = re.findall(r"worker_(\w+):(\d+)", (DEPLOY / "prometheus" / "prometheus.yml").read_text())
    assert [int(port) for _, port in scraped] == [port for port in ports if port]
    assert [name for name, _ in scraped] == [worker.name for worker in WORKERS]


def test_two_triggers_scale_each_worker() -> None:
    scaled = list(yaml.safe_load_all((FOLDER / "keda.yaml").read_text()))
    assert [each["spec"]["scaleTargetRef"]["name"] for each in scaled] == [f"tailrace-{w.name}" for w in WORKERS]
    for each in scaled:
        assert [trigger["name"] for trigger in each["spec"]["triggers"]] == ["waiting", "running"]
        assert 'state="running"' in json.dumps(each["spec"]["triggers"][1]).replace('\\"', '"')


PHASES = (  # what waits, is delayed, awaits and runs; and the least number of workers that must be there
    ((0, 0, 0, 0), 0),
    ((5, 0, 0, 0), 1),
    ((0, 0, 0, 1), 1),  # a long job, and nothing behind it: it is not scaled away
    ((0, 0, 0, 3), 3),  # each may be in a pod of its own
    ((0, 1, 0, 0), 1),
    ((0, 0, 1, 0), 1),
)


def test_a_long_job_is_not_scaled_away(tmp_path: Path, leave_out: Callable[[str], NoReturn]) -> None:
    """The queries of KEDA, run by Prometheus's own tool on what two gateways tell, and what Kubernetes makes of them:
    the larger of both values, divided by its threshold; none only if both are 0."""
    promtool = shutil.which("promtool") or leave_out("there is no promtool on this machine (Debian: prometheus)")
    specs = [each["spec"] for each in yaml.safe_load_all((FOLDER / "keda.yaml").read_text())]
    checks, wanted = [], {}
    for spec, worker in zip(specs, WORKERS, strict=True):
        for number, (counts, least) in enumerate(PHASES):
            values = [sum(counts[:3]), counts[3]]
            for trigger, value in zip(spec["triggers"], values, strict=True):
                samples = [{"labels": "{}", "value": value}]
                checks.append({"expr": trigger["metadata"]["query"], "eval_time": f"{number}m", "exp_samples": samples})
            asked = [-(-v // int(t["metadata"]["threshold"])) for t, v in zip(spec["triggers"], values, strict=True)]
            replicas = min(max(spec["minReplicaCount"], *asked), spec["maxReplicaCount"])
            wanted[worker.name, number] = (replicas, min(least, spec["maxReplicaCount"]))
    states = ("waiting", "delayed", "awaiting", "running")
    series = [
        {
            "series": f'tailrace_jobs{{platform="{platform}", state="{state}", instance="{instance}"}}',
            "values": " ".join(str(counts[place]) for counts, _ in PHASES),
        }
        for platform in [(worker.platforms or (worker.name,))[0] for worker in WORKERS]
        for place, state in enumerate(states)
        for instance in ("gateway-1", "gateway-2")
    ]
    file = tmp_path / "keda.yml"
    tests = [{"interval": "1m", "input_series": series, "promql_expr_test": checks}]
    file.write_text(json.dumps({"rule_files": [], "tests": tests}))
    told = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    assert {place: replicas for place, (replicas, least) in wanted.items() if replicas < least} == {}
    assert [wanted[worker.name, 0][0] for worker in WORKERS] == [spec["minReplicaCount"] for spec in specs]


def strings(environment: dict[str, Any]) -> dict[str, str]:
    """As a container gets them: a variable that is not set has its default."""
    return {name: re.sub(r"^\$\{\w+:-(.*)\}$", r"\1", str(value)) for name, value in environment.items()}
