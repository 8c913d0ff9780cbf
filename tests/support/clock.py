"""A clock that a test sets forward."""

import time


class Clock:
    """The process's own clock, and the seconds that a test lets pass at once."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead
