"""A real Prometheus and a real Alertmanager on loopback, and a stand-in for the webhook that alerts go to."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.support.ports import free_port


@contextmanager
def running(command: Sequence[str], log: Path) -> Iterator[None]:
    with log.open("wb") as said:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    try:
        yield
    finally:
        process.kill()
        process.wait()


class Webhook:
    """Keeps every alert that it gets, as it came."""

    def __init__(self) -> None:
        self.alerts: list[dict[str, Any]] = []
        self.port = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["Webhook"]:
        async with await asyncio.start_server(self._hear, "127.0.0.1", 0) as server:
            self.port = server.sockets[0].getsockname()[1]
            yield self

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        self.alerts += json.loads(await reader.readexactly(length))["alerts"]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    def heard(self, name: str, status: str, **labels: str) -> bool:
        return any(
            alert["status"] == status
            and alert["labels"]["alertname"] == name
            and labels.items() <= alert["labels"].items()
            for alert in self.alerts
        )


class Prometheus:
    """Scrapes every second, and goes by the rules that are committed."""

    def __init__(self, folder: Path, jobs: dict[str, list[str]], rules: Path, webhook: Webhook) -> None:
        """`jobs`: the targets of each."""
        self.url = f"http://127.0.0.1:{free_port()}"
        self._alertmanager = f"127.0.0.1:{free_port()}"
        self._folder = folder
        self._config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [self._alertmanager]}]}]},
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": targets}]} for job, targets in jobs.items()
            ],
        }
        self._route = {
            "route": {"receiver": "hook", "group_wait": "0s", "group_interval": "1s", "group_by": ["..."]},
            "receivers": [{"name": "hook", "webhook_configs": [{"url": f"http://127.0.0.1:{webhook.port}/"}]}],
        }

    @contextmanager
    def running(self) -> Iterator["Prometheus"]:
        folder = self._folder
        (folder / "prometheus.yml").write_text(json.dumps(self._config))
        (folder / "alertmanager.yml").write_text(json.dumps(self._route))
        scraper = (
            "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
        )
        sender = (
            "prometheus-alertmanager",
            f"--config.file={folder / 'alertmanager.yml'}",
            f"--storage.path={folder / 'alertmanager'}",
            f"--web.listen-address={self._alertmanager}",
            "--cluster.listen-address=",
        )
        with running(scraper, folder / "prometheus.log"), running(sender, folder / "alertmanager.log"):
            yield self

    async def query(self, http: httpx2.AsyncClient, promql: str) -> list[dict[str, Any]]:
        answer = await http.get(f"{self.url}/api/v1/query", params={"query": promql})
        assert answer.status_code == 200, f"{promql}: {answer.text}"
        found: list[dict[str, Any]] = answer.json()["data"]["result"]
        return found


def installed() -> bool:
    return all(map(shutil.which, ("prometheus", "prometheus-alertmanager", "promtool")))
