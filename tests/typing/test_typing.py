"""The types of the public surface, as a user's own mypy sees them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ops.bootstrap import CHECKOUT

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", ["good", "bad"])
def test_mypy_says_of_each_line_what_the_line_expects(name: str, tmp_path: Path) -> None:
    file = HERE / f"{name}.py"
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "--no-error-summary", str(file)]
    said = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False).stdout
    found = {(int(n), code) for n, code in re.findall(rf"{name}\.py:(\d+): error: .*\[([\w-]+)\]", said)}
    lines = enumerate(file.read_text().splitlines(), start=1)
    expected = {(n, match[1]) for n, line in lines if (match := re.search(r"# expect: ([\w-]+)", line))}
    assert found == expected, said
