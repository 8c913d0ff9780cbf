"""Stands before the real package in the processes that tests start, as if it were not installed.

redis-py loads the whole SDK where it finds one, which is a seventh of the start of each process.
"""

raise ImportError("tests of OpenTelemetry take this folder off PYTHONPATH")
