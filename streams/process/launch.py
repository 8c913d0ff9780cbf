"""How our processes start each other, so that nothing in the working directory takes the place of our modules.

`python -m tailrace.gateway` looks into the working directory first: a `tailrace.py` or `json.py` there would be taken
for another module. Instead this file is run, by its path and with `-P`, which leaves the working directory out. It
looks for `tailrace` where it lies itself, whatever PYTHONPATH says, and runs the module that is asked for.
"""

import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

OURS = "tailrace"
HERE = Path(__file__).absolute()  # not resolved: in a checkout `tailrace/streams` is a symbolic link
HOME = HERE.parents[3]

# How a person types a command of ours here.
PROGRAM = "python3 -m ops" if (HOME / "pyproject.toml").is_file() else "tailrace"


def command(module: str, *arguments: str) -> list[str]:
    """The command line that runs one of our modules; it ends with the module and its arguments."""
    return [sys.executable, "-P", str(HERE), module, *arguments]


class OurFinder:
    """Finds `tailrace` where this file lies, before anything else is asked."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [str(HOME)], target) if name == OURS else None


if __name__ == "__main__":
    sys.meta_path.insert(0, OurFinder)
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
