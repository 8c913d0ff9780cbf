"""The types of the public surface, as a user's own mypy sees them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.ops.bootstrap import CHECKOUT

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
