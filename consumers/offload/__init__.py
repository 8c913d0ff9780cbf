"""Handlers that run in a thread or in a worker process."""
