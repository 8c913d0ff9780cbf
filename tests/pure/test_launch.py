"""launch: our modules are found where they are, whatever lies in the working directory or on PYTHONPATH."""

import os
import subprocess
from pathlib import Path

import pytest

from tailrace.streams.process import launch


@pytest.mark.parametrize("variable", ["", "PYTHONPATH"])
def test_a_module_of_the_same_name_is_not_taken_for_ours(tmp_path: Path, variable: str) -> None:
    (tmp_path / "tailrace.py").write_text("raise RuntimeError('shadowed')")
    environment = {**os.environ, **({variable: str(tmp_path)} if variable else {})}
    command = launch.command("tailrace.gateway", "--help")
    said = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    assert said.startswith("usage: tailrace gateway")


def test_the_command_ends_with_the_module_and_its_arguments() -> None:
    assert launch.command("tailrace.gateway", "--port", "0")[-3:] == ["tailrace.gateway", "--port", "0"]
