"""launch: our modules are found where they are, whatever lies in the working directory or on PYTHONPATH."""

import os
import subprocess
from pathlib import Path

import pytest

from streams import launch


@pytest.mark.parametrize("variable", ["", "PYTHONPATH"])
def test_a_module_of_the_same_name_is_not_taken_for_ours(tmp_path: Path, variable: str) -> None:
    for name in launch.OURS:
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('shadowed')")
    environment = {**os.environ, **({variable: str(tmp_path)} if variable else {})}
    command = launch.command("gateway", "--help")
    said = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    assert said.startswith("usage: tailrace gateway")


def test_every_package_of_ours_is_found_so() -> None:
    assert {folder.parent.name for folder in launch.HOME.glob("*/__init__.py")} - {"tests"} == launch.OURS
    assert launch.command("gateway", "--port", "0")[-3:] == ["gateway", "--port", "0"]
