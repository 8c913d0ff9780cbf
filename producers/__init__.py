"""The client for applications: submit jobs, watch them and act on them."""

from tailrace.producers.blocking import Sync
from tailrace.producers.client import JobInfo, Tailrace
from tailrace.producers.flows import Flow
from tailrace.producers.producer import Producer
from tailrace.producers.submissions import Submission, Submitted

__all__ = ["Flow", "JobInfo", "Producer", "Submission", "Submitted", "Sync", "Tailrace"]
