"""How long to wait before a job that failed is tried again; pure."""

from streams.policies import Policy


def pause_seconds(rules: Policy, failures: int, chance: float) -> float:
    """The pause after so many failures; `chance`, from 0 to 1, decides about the part that jitter leaves open."""
    pause = rules.backoff_seconds
    if rules.backoff == "exponential":
        pause *= 2.0 ** min(failures - 1, 64)
    pause = min(pause, rules.backoff_cap_seconds)
    return pause * (1 - rules.jitter + 2 * rules.jitter * chance) if rules.jitter else pause
