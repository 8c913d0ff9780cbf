"""URLs that name several servers: those of Sentinel and of a cluster."""

import re
from typing import NamedTuple

from tailrace.streams.errors import BadConfiguration

SENTINEL_SCHEMES = ("redis+sentinel://", "rediss+sentinel://")
CLUSTER_SCHEMES = ("redis+cluster://", "rediss+cluster://")
SENTINEL_PORT, PORT = 26379, 6379

FORM = re.compile(r"(rediss?)\+\w+://((?:[^@/]*@)?)([^@/?#]+)(/[^?#]*)?(\?[^#]*)?")
HOST = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[\w.-]+)(?::([0-9]{1,5}))?")

NOT_A_SENTINEL_URL = (
    "it is no address of sentinels; write redis+sentinel://[user:password@]host[:port],host[:port]/name[/db]"
    "[?sentinel_username=…&sentinel_password=…], with / ? # @ : in a password as %2F and so on"
)
NOT_A_CLUSTER_URL = (
    "it is no address of a cluster; write redis+cluster://[user:password@]host[:port],host[:port], "
    "with / ? # @ : in a password as %2F and so on; a cluster has no databases"
)


class Addresses(NamedTuple):
    """A URL with several servers, taken apart."""

    scheme: str  # redis or rediss
    login: str  # empty, or with an @ at its end
    hosts: list[tuple[str, int]]
    path: str
    query: str  # empty, or with a ? in front

    def url(self, host: str, port: int, path: str = "") -> str:
        """The URL of one server."""
        return f"{self.scheme}://{self.login}{host}:{port}{path}{self.query}"


def take_apart(url: str, default_port: int, says: str) -> Addresses:
    """Raises `BadConfiguration`, which repeats nothing of the URL: it may be a piece of the password."""
    found = FORM.fullmatch(url)
    hosts = [HOST.fullmatch(word) for word in found[3].split(",")] if found else []
    ports = [int(host[2] or default_port) if host else 0 for host in hosts]
    if not found or not all(hosts) or not all(0 < port < 65536 for port in ports):
        raise BadConfiguration(f"REDIS_URL: {says}")
    named = [(host[1], port) for host, port in zip(hosts, ports, strict=True) if host]
    return Addresses(found[1], found[2], named, found[4] or "", found[5] or "")


def as_host(host: str) -> str:
    """A host as a URL takes it."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
