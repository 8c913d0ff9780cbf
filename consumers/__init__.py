"""How jobs are done: handlers, attempts, and the process that runs them."""

from consumers.attempt import Attempt
from consumers.outcomes import Delay, GiveUp, RateLimited
from consumers.registry import Handlers
from consumers.synchronous import SyncAttempt

__all__ = ["Attempt", "Delay", "GiveUp", "Handlers", "RateLimited", "SyncAttempt"]
