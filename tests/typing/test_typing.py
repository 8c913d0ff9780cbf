"""The types of the public surface, as a user's own mypy and pyright see them."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from tailrace.ops.bootstrap import CHECKOUT
from tests.support.linters import find_linter

HERE = Path(__file__).parent


NAMES = ("good", "bad")


@pytest.mark.timeout(180)  # with nothing in its cache, mypy reads every library we use
def test_mypy_says_of_each_line_what_the_line_expects(tmp_path: Path) -> None:
    files = [HERE / f"{name}.py" for name in NAMES]
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "--no-error-summary"]
    said = subprocess.run([*command, *files], cwd=CHECKOUT, capture_output=True, text=True, check=False).stdout
    for file in files:
        found = {(int(n), code) for n, code in re.findall(rf"{file.name}:(\d+): error: .*\[([\w-]+)\]", said)}
        lines = enumerate(file.read_text().splitlines(), start=1)
        expected = {(n, match[1]) for n, line in lines if (match := re.search(r"# expect: ([\w-]+)", line))}
        assert found == expected, said


@pytest.mark.timeout(180)
def test_pyright_refuses_what_mypy_refuses(tmp_path: Path, leave_out: Callable[[str], NoReturn]) -> None:
    pyright = find_linter("pyright", leave_out)
    for name in NAMES:
        shutil.copy(HERE / f"{name}.py", tmp_path)
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "extraPaths": [str(CHECKOUT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [pyright, "-p", str(tmp_path), "--pythonpath", sys.executable, "--outputjson"]
    said = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    for name in NAMES:
        found = {
            each["range"]["start"]["line"] + 1
            for each in said["generalDiagnostics"]
            if Path(each["file"]).stem == name and each["severity"] == "error"
        }
        lines = enumerate((HERE / f"{name}.py").read_text().splitlines(), start=1)
        assert found == {n for n, line in lines if "# expect: " in line}, said
