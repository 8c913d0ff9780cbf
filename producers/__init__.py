"""What an application calls: submit jobs, watch them and act on them."""

from tailrace.producers.client import JobInfo, Sync, Tailrace
from tailrace.producers.producer import Producer, Submission, Submitted

__all__ = ["JobInfo", "Producer", "Submission", "Submitted", "Sync", "Tailrace"]
