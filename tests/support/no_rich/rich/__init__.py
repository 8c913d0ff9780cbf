"""Stands before the real package in consumers and gateways that tests start, as if it were not installed.

structlog loads it where it finds it, which is a seventh of their start. They draw nothing; the commands of `ops` do.
"""

raise ImportError("consumers and gateways of tests have no use for it")
