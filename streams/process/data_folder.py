"""The data folder of an `up`: whether one runs there, the URL of its store, and its settings about platforms."""

import fcntl
import json
import socket
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

DEFAULT_DATA = Path(".tailrace")


def find_running(data: Path) -> str | None:
    """The URL of the store that runs in this folder now, or None."""
    try:
        url: str = json.loads((data / "store.json").read_text())["url"]
    except (OSError, ValueError, LookupError):
        return None
    return url if is_taken(data) and serves(ping(url)) else None


def settings_of(data: Path) -> dict[str, str]:
    """The settings about platforms of the owner of this folder, as environment variables."""
    try:
        return {name: str(value) for name, value in json.loads((data / "store.json").read_text())["settings"].items()}
    except (OSError, ValueError, LookupError, AttributeError):
        return {}  # it has just ended, or is of an earlier version


def ping(url: str) -> str:
    """The answer of the server to PING: `+PONG`, an error such as `-LOADING …`, or nothing."""
    address = urlsplit(url.partition(",")[0])  # of a cluster, its first node
    unix = address.scheme == "unix"
    with socket.socket(socket.AF_UNIX if unix else socket.AF_INET) as link:
        link.settimeout(1.0)
        try:
            link.connect(unquote(address.path) if unix else (address.hostname, address.port))
            link.sendall(b"PING\r\n")
            return link.recv(1024).decode().strip()
        except OSError:
            return ""


def serves(answer: str) -> bool:
    """Whether a server that answers this takes commands, perhaps with a password."""
    return answer == "+PONG" or answer.startswith("-NOAUTH")


def is_taken(data: Path) -> bool:
    """Whether an owner, or the server it started, still lives."""
    try:
        with (data / "owner").open("r") as file:
            return not locks(file)
    except FileNotFoundError:
        return False


def locks(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
