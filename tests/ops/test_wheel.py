"""The sdist and the wheel: built from a copy of the checkout, installed into a project that has our names already."""

import email
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tailrace.ops.bootstrap import CHECKOUT
from tests.ops.commands import environment
from tests.ops.up_process import Up

ROOMS = ("streams", "producers", "consumers", "gateway", "ops")
NOT_BUILT_FROM = (".*", "*.egg-info", "__pycache__", "build", "dist")

HANDLERS = """
from tailrace import Attempt, Handlers

handles = Handlers()


@handles("greet")
async def greet(attempt: Attempt[dict]) -> dict:
    return {"greeting": f"Hello {attempt.args['name']}"}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the sdist and the wheel, which is built from the sdist."""
    checkout = tmp_path_factory.mktemp("built") / "checkout"
    shutil.copytree(CHECKOUT, checkout, symlinks=True, ignore=shutil.ignore_patterns(*NOT_BUILT_FROM))
    build = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", checkout.parent, checkout],
        env={**environment(), "PYTHONDONTWRITEBYTECODE": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert build.returncode == 0, build.stdout + build.stderr
    assert "warning" not in (build.stdout + build.stderr).lower()
    return checkout.parent


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    return next(built.glob("*.whl"))


def test_the_wheel_holds_the_rooms_and_nothing_else(wheel: Path) -> None:
    names = [name for name in zipfile.ZipFile(wheel).namelist() if not name.split("/")[0].endswith(".dist-info")]
    kinds = (".py", ".lua", ".md", ".sh", ".js", ".css", ".html", ".svg")
    product = {
        f"tailrace/{path.relative_to(CHECKOUT)}"
        for room in ROOMS
        for path in (CHECKOUT / room).rglob("*")
        if path.suffix in kinds
    }
    project = CHECKOUT / "ops" / "starter" / "project"
    product -= {"tailrace/ops/deploy/README.md"}  # about files of a checkout
    product |= {f"tailrace/{path.relative_to(CHECKOUT)}" for path in project.iterdir() if path.is_file()}
    assert set(names) == product | {"tailrace/__init__.py", "tailrace/py.typed"}


def test_the_long_description_has_no_link_that_leads_nowhere_on_an_index(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        (metadata,) = (name for name in files.namelist() if name.endswith("/METADATA"))
        told = email.message_from_bytes(files.read(metadata))
    assert told["Description-Content-Type"] == "text/markdown"
    text = told.get_payload()
    assert isinstance(text, str)
    assert "First job (`tailrace docs first-job`)" in text
    assert [target for target in re.findall(r"\]\(([^)]+)\)", text) if "://" not in target] == []


def test_the_sdist_holds_what_the_wheel_is_built_from(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        tops = {name.split("/")[1] for name in sdist.getnames() if "/" in name}
    assert tops == {
        "LICENSE",
        "MANIFEST.in",
        "PKG-INFO",
        "README.md",
        "pyproject.toml",
        "setup.cfg",
        "setup.py",
        "tailrace",
        "tailrace.egg-info",
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with modules of its own under the names of our rooms."""
    for name in ROOMS:
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('the module of the project')\n")
    (tmp_path / "ops.py").unlink()
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "__init__.py").write_text("raise RuntimeError('the package of the project')\n")
    (tmp_path / "handlers.py").write_text(HANDLERS)
    return tmp_path


@pytest.fixture
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command `tailrace` of a fresh environment that has the wheel; what it needs is lent by this environment."""
    home = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(home), "install"]
    subprocess.run([*pip, "--quiet", "--no-deps", "--no-index", "--no-compile", wheel], check=True)
    packages = sysconfig.get_path("purelib", vars={"base": str(home)})
    (Path(packages) / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin" / "tailrace"


@pytest.fixture
def up(installed: Path, project: Path) -> Iterator[Up]:
    running = Up(
        project / ".tailrace", "default", program=str(installed), cwd=str(project), TAILRACE_HANDLERS="./handlers.py"
    )
    yield running
    running.clean_up()


def test_an_installed_wheel_runs_a_job_in_a_project_that_has_our_names(up: Up, installed: Path, project: Path) -> None:
    up.wait_until_ready()
    submit = [str(installed), "submit", "default", "greet", '{"name": "Ada"}', "--follow"]
    done = subprocess.run(
        submit, cwd=project, env=environment(), capture_output=True, text=True, timeout=40, check=False
    )
    assert done.returncode == 0, done.stderr + up.said()
    assert "Hello Ada" in done.stdout
    where = [str(installed.with_name("python")), "-c", "import tailrace; print(tailrace.__file__)"]
    found = subprocess.run(where, cwd=os.sep, capture_output=True, text=True, check=True).stdout
    assert Path(found).is_relative_to(installed.parents[1])
