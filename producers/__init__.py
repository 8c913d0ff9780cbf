"""What an application calls: submit jobs, watch them and act on them."""

from tailrace.producers.blocking import Sync
from tailrace.producers.client import JobInfo, Tailrace
from tailrace.producers.producer import Producer, Submission, Submitted

__all__ = ["JobInfo", "Producer", "Submission", "Submitted", "Sync", "Tailrace"]
