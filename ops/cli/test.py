"""`test`: the whole suite, on real servers and real processes."""

import argparse
import os
import sys
from typing import NoReturn

from tailrace.ops.bootstrap import require_checkout

SIDE_BY_SIDE = ("-n", "4", "--dist", "loadfile", "--no-loadscope-reorder")
"""Most tests wait for processes or for time, so four at a time fit on two processors, in the order of conftest.py."""

END_WITH_A_HANG = ("--max-worker-restart", "0", "-o", "faulthandler_timeout=170")
"""A test that hangs says where, and takes its process along. That is not replaced, because the others could wait for it
for ever (an error of xdist): the run ends there."""


def run(options: argparse.Namespace) -> NoReturn:
    os.chdir(require_checkout())
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of processes would compile everything again
    # Ctrl-C is pytest's alone: it has servers to end.
    chosen = options.rest or (*SIDE_BY_SIDE, *END_WITH_A_HANG)
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *chosen])
