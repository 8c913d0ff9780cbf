"""The times of one job: how long an attempt may take, and whether and when the next one starts."""

import random
from collections.abc import Callable

from tailrace.consumers.outcomes import Failed, checked_seconds, said_by
from tailrace.streams.messages import Failure
from tailrace.streams.operations import Again
from tailrace.streams.policies import Policy
from tailrace.streams.process.logs import get_logger

log = get_logger()


def seconds_left(rules: Policy, age_seconds: float) -> float | None:
    """How long an attempt may take, given how long its job has run already; None: any time."""
    if not rules.lifetime_seconds:
        return rules.timeout_seconds or None
    left = max(0.0, rules.lifetime_seconds - age_seconds)
    return min(left, rules.timeout_seconds or left)


def timed_out(rules: Policy, age_seconds: float) -> Failed:
    """The failure of an attempt that ran out of time; `age` is that of its job at the start."""
    left = seconds_left(rules, age_seconds)
    if left is not None and left != rules.timeout_seconds:
        said = f"the job took longer than the {rules.lifetime_seconds:g} s it may take in all"
    else:
        said = f"the attempt took longer than the {rules.timeout_seconds:g} s it may take"
    return Failed(Failure("TimedOut", said), reason="timeout")


def again_after(
    outcome: Failed, failures: int, age_seconds: float, rules: Policy, backoff: Callable[[int], float] | None = None
) -> Again:
    """Whether and when a job is tried again after `failures`: by its handler's own rule, or by its platform's."""
    seconds = pause_seconds(rules, failures, random.random())
    if backoff:
        try:
            seconds = checked_seconds(min(backoff(failures), rules.backoff_cap_seconds))
        except Exception as error:  # the handler's author wrote that rule
            log.warning("backoff_broken", error=said_by(error), instead_seconds=seconds)
    over = rules.lifetime_seconds and age_seconds + seconds >= rules.lifetime_seconds
    return Again(seconds, 0 if outcome.final or over else rules.attempts, rules.max_starts, rules.order)


def pause_seconds(rules: Policy, failures: int, chance: float) -> float:
    """The pause after `failures`; `chance`, from 0 to 1, decides about the part that jitter leaves open."""
    pause = rules.backoff_seconds
    if rules.backoff == "exponential":
        pause *= 2.0 ** min(failures - 1, 64)
    pause = min(pause, rules.backoff_cap_seconds)
    return min(pause * (1 - rules.jitter + 2 * rules.jitter * chance), rules.backoff_cap_seconds)
