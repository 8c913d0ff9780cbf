"""Runs jobs: handlers, attempts, and the consumer process."""

from tailrace.consumers.attempt import Attempt
from tailrace.consumers.attempts.blocking import SyncAttempt
from tailrace.consumers.outcomes import ChildFailed, Delay, GiveUp, RateLimited, Waiting
from tailrace.consumers.registry import Handlers
from tailrace.streams.process.logs import JobFacts

__all__ = [
    "Attempt",
    "ChildFailed",
    "Delay",
    "GiveUp",
    "Handlers",
    "JobFacts",
    "RateLimited",
    "SyncAttempt",
    "Waiting",
]
