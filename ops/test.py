"""`test`: the whole suite, on real servers and real processes."""

import argparse
import os
import sys
from typing import NoReturn

from ops.bootstrap import require_checkout

SIDE_BY_SIDE = ("-n", "3", "--dist", "loadfile")
"""The whole suite: most tests wait for processes of their own, so three at a time fit on two processors."""


def run(options: argparse.Namespace) -> NoReturn:
    os.chdir(require_checkout())
    # Ctrl-C is pytest's alone: it has servers to end.
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *(options.rest or SIDE_BY_SIDE)])
