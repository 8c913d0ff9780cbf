"""An nginx of a test's own: its configuration, and a process that ends with the test."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tailrace.ops.up.own_store import LIFELINE

# What Debian's own nginx.conf would say, for one process that writes nowhere else.
AROUND = """
master_process off;
pid nginx.pid;
error_log error.log;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
    {}
}}
"""


@contextmanager
def running(command: list[str]) -> Iterator[None]:
    """A program that ends with us, however we end."""
    started = subprocess.Popen(
        ["sh", "-c", LIFELINE, "sh", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield
    finally:
        assert started.stdin
        assert started.stdout
        started.stdin.close()
        started.stdout.close()
        try:
            started.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            started.wait()
