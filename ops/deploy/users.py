"""The users of the store, one for each role, as a server reads them with `aclfile`.

`python3 -m tailrace.ops.deploy.users` in a checkout writes `users.acl` again; a test holds the file to what is sent.
"""

from pathlib import Path
from typing import Final

from tailrace.streams.store.roles import ROLES, rules

FILE: Final = Path(__file__).parent / "users.acl"


def users() -> str:
    """A line for each role. They have no password and are off until they are given one."""
    return "".join(f"user {name} off {' '.join(rules(name))}\n" for name in ROLES)


if __name__ == "__main__":
    FILE.write_text(users())
