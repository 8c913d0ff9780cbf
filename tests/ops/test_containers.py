"""The images and the compose project, built and run by podman: every platform works, and a killed worker comes back.

It needs root and the Debian packages podman, runc, conmon and debootstrap, and podman-compose; no registry is asked:
images that would come from one are made of Debian. `python3 -m ops test -m chaos tests/ops/test_containers.py`
"""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tailrace.ops.bootstrap import CHECKOUT
from tailrace.producers.platforms import BUILT_IN
from tests.ops.commands import environment
from tests.support.ports import free_port

PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}{os.pathsep}/usr/sbin"
TOOLS = ("podman", "runc", "conmon", "debootstrap", "podman-compose")
MISSING = [tool for tool in TOOLS if not shutil.which(tool, path=PATH)]
PACKAGES = "python3,python3-venv,ca-certificates,redis-server,prometheus,prometheus-alertmanager"
SHOPS = ("oliveyoung", "ably", "kurly", "hwahae", "musinsa", "zigzag")
WORKERS = [f"worker_{name}" for name in (*SHOPS, "extract", "default")]
GIGABYTES = dict.fromkeys(WORKERS, 2) | dict.fromkeys([*WORKERS[:3], "worker_extract", "gateway"], 4) | {"redis": 1}
MONITORS = {"prometheus": 1, "alertmanager": 0.25}  # Grafana is in no package that could be installed here
NO_VARIABLES: Mapping[str, str] = {}

CONTAINERS = """
[containers]
netns = "host"
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(MISSING) or os.getuid() != 0, reason=f"needs root and {', '.join(MISSING or TOOLS)}"),
]


class Podman:
    """Podman with storage of its own in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "containers.conf").write_text(CONTAINERS)
        places = f'graphroot = "{folder / "graph"}"\nrunroot = "{folder / "run"}"\n'
        (folder / "storage.conf").write_text(f'[storage]\ndriver = "overlay"\n{places}')
        self._told = environment(
            PATH=PATH,
            CONTAINERS_CONF=str(folder / "containers.conf"),
            CONTAINERS_STORAGE_CONF=str(folder / "storage.conf"),
        )

    def run(
        self, *words: str, cwd: Path = CHECKOUT, check: bool = True, variables: Mapping[str, str] = NO_VARIABLES
    ) -> str:
        """What it prints; without `check` its exit code."""
        told = {**self._told, **variables}
        done = subprocess.run(words, cwd=cwd, env=told, capture_output=True, text=True, timeout=600, check=False)
        assert not check or done.returncode == 0, f"{' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout.strip() if check else f"{done.returncode}"

    def import_base(self) -> None:
        """A Debian with Python, for the argument BASE of our images."""
        root = self.folder / "root"
        self.run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(root))
        self.run("sh", "-c", f"tar -C {root} -c . | podman import - base")
        (self.folder / "Dockerfile").write_text("FROM base\nWORKDIR /data\n")
        self.run("podman", "build", "-t", "redis-stand-in", str(self.folder))
        for name, program in (("prometheus", "prometheus"), ("alertmanager", "prometheus-alertmanager")):
            (self.folder / "Dockerfile").write_text(f'FROM base\nENTRYPOINT ["/usr/bin/{program}"]\n')
            self.run("podman", "build", "-t", f"prom/{name}", str(self.folder))


def build_flags() -> list[str]:
    """How this machine reaches the packages that an image needs."""
    shared = [path for path in ("/etc/ssl/certs", "/etc/pip.conf") if Path(path).exists()]
    return ["--isolation=chroot", "--network=host", *(f"--volume={path}:{path}:ro" for path in shared)]


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    podman = Podman(tmp_path_factory.mktemp("podman"))
    try:
        podman.import_base()
        yield podman
    finally:
        podman.run("podman", "rm", "--all", "--force", "--time", "0", check=False)
        podman.run("podman", "system", "reset", "--force", check=False)


class Chat:
    """A stand-in for Slack and Discord: the titles and texts that each path was sent."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, str]] = []
        chat = self

        class Hear(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                for part in body["attachments"]:
                    chat.heard.append((self.path, part["title"], part["text"]))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Hear)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def count(self, title: str, about: str) -> dict[str, int]:
        """How many messages of this title were about a worker, by path."""
        return dict(Counter(path for path, said, text in self.heard if said == title and about in text))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Project:
    """The compose project on the network of this machine, which podman without systemd and DNS needs."""

    def __init__(self, podman: Podman) -> None:
        self.podman = podman
        self.port = free_port()
        self._folder = podman.folder / "checkout" / "ops" / "deploy"
        ignored = shutil.ignore_patterns(".git", ".venv", ".tailrace", "__pycache__", ".*_cache")
        shutil.copytree(CHECKOUT, podman.folder / "checkout", symlinks=True, ignore=ignored)
        (self._folder / "secrets").mkdir(exist_ok=True)
        self.key = secrets.token_hex(24)
        (self._folder / "secrets" / "api_key").write_text(self.key)
        self.chat = Chat()
        for name in ("slack", "discord"):
            (self._folder / "secrets" / f"{name}_url").write_text(f"http://127.0.0.1:{self.chat.port}/{name}")
        names = ", ".join(f'"{name}:127.0.0.1"' for name in [*GIGABYTES, *MONITORS])
        alone = "    network_mode: host\n"
        services = "".join(f"  {name}:\n{alone}" for name in GIGABYTES)
        services += "".join(f"  {name}:\n{alone}    extra_hosts: [{names}]\n" for name in MONITORS)
        (self._folder / "host.yml").write_text(f"services:\n{services}")
        config = self._folder / "prometheus" / "prometheus.yml"
        config.write_text(config.read_text().replace("gateway:3989", f"gateway:{self.port}"))
        self._variables = {
            "BASE": "base",
            "REDIS_IMAGE": "redis-stand-in",
            "REDIS_HOST": "127.0.0.1",
            "REDIS_PORT": str(free_port()),
            "PORT": str(self.port),
            "GATEWAY_HOST": "127.0.0.1",
        }

    def compose(self, *words: str) -> None:
        files = ["-f", "docker-compose.dev.yml", "-f", "host.yml"]
        flags = f"--podman-build-args={' '.join(build_flags())}"
        self.podman.run("podman-compose", *files, flags, *words, cwd=self._folder, variables=self._variables)

    def pid(self, service: str) -> int:
        return int(self.podman.run("podman", "inspect", f"tailrace_{service}_1", "--format", "{{.State.Pid}}"))

    def healthy(self, service: str) -> bool:
        return self.podman.run("podman", "healthcheck", "run", f"tailrace_{service}_1", check=False) == "0"

    def memory_limit(self, service: str) -> int:
        """As the kernel has it, by the first or the second kind of control groups."""
        groups = dict(line.split(":", 2)[1:] for line in Path(f"/proc/{self.pid(service)}/cgroup").read_text().split())
        old = Path(f"/sys/fs/cgroup/memory{groups.get('memory')}/memory.limit_in_bytes")
        new = Path(f"/sys/fs/cgroup{groups.get('')}/memory.max")
        return int((old if old.exists() else new).read_text())

    def call(self, path: str, body: Any = None) -> Any:
        words = ["curl", "-sS", "-H", f"Authorization: Bearer {self.key}", f"http://127.0.0.1:{self.port}{path}"]
        words += ["-H", "Content-Type: application/json", "-d", json.dumps(body)] if body else []
        return json.loads(self.podman.run(*words))

    def query(self, promql: str) -> list[dict[str, Any]]:
        """What Prometheus answers; nothing while it starts."""
        words = ["curl", "-s", "-G", "http://127.0.0.1:9090/api/v1/query", "--data-urlencode", f"query={promql}"]
        said = subprocess.run(words, capture_output=True, text=True, check=False).stdout
        found: list[dict[str, Any]] = json.loads(said)["data"]["result"] if said.startswith("{") else []
        return found

    def submit(self, platform: str, **args: Any) -> str:
        job: str = self.call("/api/jobs", {"platform": platform, "kind": "drill", "args": args})["jobId"]
        return job

    def history(self, job: str) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = self.call(f"/research/history/{job}")
        return events

    def ended(self, job: str) -> bool:
        return bool(self.history(job)[-1]["status"] == "completed")

    def wait_until(self, what: str, happens: Callable[[], bool], seconds: float = 60) -> None:
        patience = time.monotonic() + seconds
        while not happens():
            assert time.monotonic() < patience, f"not within {seconds} s: {what}"
            time.sleep(0.2)


@pytest.fixture(scope="module")
def project(podman: Podman) -> Iterator[Project]:
    project = Project(podman)
    project.compose("build", "gateway")
    project.compose("up", "-d", "redis")
    project.wait_until("redis is healthy", lambda: project.healthy("redis"))
    project.compose("up", "-d", "--no-deps", "gateway", *WORKERS, *MONITORS)
    for service in ("gateway", *WORKERS):
        project.wait_until(f"{service} is healthy", partial(project.healthy, service))
    yield project
    project.compose("down", "--volumes")
    project.chat.close()


def test_the_image_is_small_in_rights_and_has_the_wheel_inside(podman: Podman) -> None:
    podman.run(
        "podman", "build", *build_flags(), "--build-arg=BASE=base", "-f", "ops/deploy/Dockerfile", "-t", "tailrace", "."
    )
    assert podman.run("podman", "run", "--rm", "tailrace", "--version").startswith("tailrace ")
    look = "import os, tailrace; print(os.getuid(), tailrace.__file__)"
    said = podman.run("podman", "run", "--rm", "--entrypoint", "python3", "tailrace", "-c", look)
    uid, place = said.split()
    assert uid == "10001"
    assert place.startswith("/opt/tailrace/lib/")
    key, entry = podman.run("podman", "run", "--rm", "--read-only", "tailrace", "keys", "new").splitlines()[:2]
    assert entry.startswith("sha256=")
    assert key


def test_every_platform_does_a_job(project: Project) -> None:
    jobs = [project.submit(platform, steps=1, seconds=0.1) for platform in BUILT_IN]
    for job in jobs:
        project.wait_until(job, partial(project.ended, job))


def test_a_worker_killed_in_mid_job_comes_back_with_its_job(project: Project) -> None:
    job = project.submit("oliveyoung", steps=4, seconds=1)
    project.wait_until("its first step", lambda: project.history(job)[-1]["step"] == 1)
    before = project.pid("worker_oliveyoung")
    os.kill(before, signal.SIGKILL)
    project.wait_until("completed", partial(project.ended, job))
    said = [(event["status"], event["attempt"], event["step"]) for event in project.history(job)]
    steps = [("progress", 2, step) for step in (1, 2, 3, 4)]
    assert said[1:3] == [("started", 1, None), ("progress", 1, 1)]
    assert said[-7:] == [("superseded", 1, None), ("started", 2, None), *steps, ("completed", 2, None)]
    assert project.pid("worker_oliveyoung") != before


def test_memory_limits_are_in_force(project: Project) -> None:
    limits = GIGABYTES | MONITORS
    assert {name: project.memory_limit(name) / 1024**3 for name in limits} == limits
    greedy = ["python3", "-c", "bytearray(3 * 1024 ** 3)"]
    before = project.pid("worker_hwahae")
    assert project.podman.run("podman", "exec", "tailrace_worker_hwahae_1", *greedy, check=False) == "137"
    assert project.pid("worker_hwahae") == before
    sizes = project.podman.run("podman", "exec", "tailrace_worker_kurly_1", "df", "--output=size", "-B1", "/dev/shm")
    assert int(sizes.split()[-1]) == 2 * 1024**3


def test_a_worker_that_is_stopped_finishes_its_job(project: Project) -> None:
    job = project.submit("musinsa", steps=3, seconds=1)
    project.wait_until("it runs", lambda: project.history(job)[-1]["status"] in ("started", "progress"))
    project.compose("stop", "worker_musinsa")
    assert [event["attempt"] for event in project.history(job)][-1] == 1
    assert project.history(job)[-1]["status"] == "completed"
    code = project.podman.run("podman", "inspect", "tailrace_worker_musinsa_1", "--format", "{{.State.ExitCode}}")
    assert code == "0"


def test_a_worker_that_is_gone_is_told_to_slack_and_discord_once_and_so_is_its_return(project: Project) -> None:
    """By the files of the project: its Prometheus scrapes gateway and workers, its Alertmanager tells the chats."""
    project.compose("start", "worker_musinsa")
    project.wait_until("all are scraped", lambda: len(project.query('up{job=~"tailrace-.*"} == 1')) == 9, 120)
    project.wait_until("no alert is left", lambda: not project.query('ALERTS{alertname="TailraceWorkerDead"}'), 120)
    assert project.query('tailrace_ended_total{platform="oliveyoung"} > 0')
    dead, back = "FIRING TailraceWorkerDead", "RESOLVED TailraceWorkerDead"
    before = {title: project.chat.count(title, "worker_zigzag:9406") for title in (dead, back)}  # it may start slowly

    def told_once_more(title: str) -> bool:
        now = project.chat.count(title, "worker_zigzag:9406")
        return now == {path: before[title].get(path, 0) + 1 for path in ("/slack", "/discord")}

    project.compose("stop", "worker_zigzag")
    project.wait_until("an alert was sent", lambda: told_once_more(dead), 180)
    project.compose("start", "worker_zigzag")
    project.wait_until("its return too", lambda: told_once_more(back), 240)
    assert told_once_more(dead)
