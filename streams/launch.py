"""How our processes start each other, so that nothing in the working directory takes the place of our modules.

`python -m gateway` looks into the working directory first: a `gateway.py` or `json.py` of the user's own would be taken
for ours. Instead this file is run, by its path and with `-P`, which leaves the working directory out. It looks for our
packages where it lies itself, whatever PYTHONPATH says, and runs the module that is asked for.
"""

import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

OURS = frozenset({"streams", "producers", "consumers", "gateway", "ops"})
HOME = Path(__file__).resolve().parents[1]


def command(module: str, *arguments: str) -> list[str]:
    """The command line that runs one of our modules; it ends with the module and its arguments."""
    return [sys.executable, "-P", str(Path(__file__).resolve()), module, *arguments]


class OurFinder:
    """Finds our packages where this file lies, before anything else is asked."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [str(HOME)], target) if name in OURS else None


if __name__ == "__main__":
    sys.meta_path.insert(0, OurFinder)
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
