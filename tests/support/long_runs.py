"""How long the long runs are: TAILRACE_LONG_RUNS is the share of their full length, 1 unless it is set."""

import os

SHARE = float(os.environ.get("TAILRACE_LONG_RUNS", "1"))


def scaled(count: int) -> int:
    return max(1, round(count * SHARE))
