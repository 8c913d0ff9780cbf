"""`--watch`: a table that is drawn again and again until Ctrl-C."""

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO

from tailrace.ops.terminal import say
from tailrace.streams.errors import BadConfiguration, StoreError

EVERY_SECONDS = 2.0
CLEAR = "\x1b[H\x1b[2J"  # to the upper left corner, and nothing is left


class Screen(StringIO):
    """Collects one drawing and writes it at once, so that the terminal does not flicker."""

    def isatty(self) -> bool:
        return True


def watch(options: argparse.Namespace, run: Callable[[argparse.Namespace], int]) -> int:
    """Run a command every two seconds. In a pipe its output is repeated; a store that is away is waited for."""
    try:
        while True:
            draw(options, run)
            time.sleep(EVERY_SECONDS)
    except KeyboardInterrupt:
        return 0


def draw(options: argparse.Namespace, run: Callable[[argparse.Namespace], int]) -> None:
    screen = Screen() if sys.stdout.isatty() else None
    try:
        if screen is None:
            run(options)
        else:
            with redirect_stdout(screen):
                run(options)
    except BadConfiguration:
        raise
    except StoreError as error:
        say(f"tailrace: {error}")
        return
    if screen is not None:
        print(CLEAR + screen.getvalue(), end="")
    sys.stdout.flush()
