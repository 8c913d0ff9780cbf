"""Metrics of a gateway: its own counters, and the counts in the store."""
