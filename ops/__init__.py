"""The commands: run, inspect and repair a deployment."""

import sys

__all__ = ()

# `python3 -m ops` reads this file first, and any Python can read it: the others may use today's syntax.
if sys.version_info < (3, 11):  # noqa: UP036
    sys.stderr.write(
        "tailrace: this is Python %d.%d; Tailrace needs 3.11 or newer: run it as `python3.11 -m ops`.\n"  # noqa: UP031
        % tuple(sys.version_info[:2])
    )
    sys.exit(78)
