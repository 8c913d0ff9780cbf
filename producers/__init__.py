"""What may be asked for: kinds and submission."""

from tailrace.producers.producer import Producer, Submission, Submitted

__all__ = ["Producer", "Submission", "Submitted"]
