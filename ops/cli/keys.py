"""`keys new`: a key for a client of the gateway, and its hash for the configuration."""

import argparse

from tailrace.gateway.access.api_keys import SETTING, entry_of, new_secret
from tailrace.ops.terminal import say


def run(_: argparse.Namespace) -> int:
    secret = new_secret()
    print(secret)
    print(entry_of(secret))
    say(f"the first line is the key, shown once; the second goes into {SETTING}, with :scopes:platforms to limit it")
    return 0
