"""All files of the guides in one project, and a consumer that has their handlers."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tailrace.ops.up.own_store import OwnStore
from tests.guides.code import write
from tests.ops.commands import environment
from tests.support.server import QUICK

GUIDES = (
    "consumers/first-job.md",
    "consumers/handlers.md",
    "consumers/testing.md",
    "consumers/bullmq.md",
    "consumers/celery.md",
    "consumers/arq.md",
    "gateway/fastapi.md",
    "producers/django.md",
)

# A consumer takes one module: this one has the handlers of all guides.
ALL = """
import handlers, mail_handlers, orders, shop_handlers, stock, video_handlers
from tailrace import Handlers
handles = Handlers()
for each in (handlers, mail_handlers, orders, shop_handlers, stock, video_handlers):
    handles = handles.under(each.handles)
"""


class Project:
    """A folder with the files of the guides, and the environment of its programs."""

    def __init__(self, folder: Path, store_url: str) -> None:
        self.folder = folder
        self.url = store_url
        self.variables = environment(REDIS_URL=store_url, PYTHONPATH=os.pathsep.join([str(folder), os.getcwd()]))

    def run(self, *words: str) -> str:
        """What a Python program says."""
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("project")
    write(folder, *GUIDES)
    (folder / "every_handler.py").write_text(ALL)
    with OwnStore(folder / ".tailrace", extra_args=QUICK) as store:
        project = Project(folder, store.url)
        consumer = subprocess.Popen(
            [sys.executable, "-m", "tailrace.consumers", "default"],
            cwd=folder,
            env={**project.variables, "TAILRACE_HANDLERS": "./every_handler.py"},
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield project
        finally:
            consumer.terminate()
            assert consumer.wait(20) == 0
