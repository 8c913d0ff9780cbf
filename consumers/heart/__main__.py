"""`python -m tailrace.consumers.heart`: the heart of the consumer that starts it."""

import os
import sys
from typing import Any, cast

import anyio


def live() -> None:
    sys.modules["rich"] = cast(Any, None)  # structlog loads it where it can: a seventh of our start, for no use
    from tailrace.consumers.heart.heart import listen, main

    anyio.run(main, listen())


live()
os._exit(0)  # there is nothing to tidy up, and the consumer waits
