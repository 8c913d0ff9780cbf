"""Tools that check files: on PATH, in this environment, or in the one that CI makes beside it."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from tailrace.ops.bootstrap import CHECKOUT

OF_CI = CHECKOUT / ".venv" / "linters" / "bin"


def find_linter(tool: str, leave_out: Callable[[str], NoReturn]) -> str:
    """The path of the program; without it the test is left out, which CI does not allow."""
    places = f"{Path(sys.executable).parent}{os.pathsep}{OF_CI}{os.pathsep}{os.environ['PATH']}"
    return shutil.which(tool, path=places) or leave_out(f"there is no {tool} on this machine")
