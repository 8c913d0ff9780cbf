"""URLs: those of one server, and those that name several, of Sentinel and of a cluster."""

import re
import ssl
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from msgspec import Struct

from tailrace.streams.errors import BadConfiguration

SENTINEL_SCHEMES = ("redis+sentinel://", "rediss+sentinel://")
CLUSTER_SCHEMES = ("redis+cluster://", "rediss+cluster://")
SENTINEL_PORT, PORT = 26379, 6379

FORM = re.compile(r"(rediss?)\+\w+://((?:[^@/]*@)?)([^@/?#]+)(/[^?#]*)?(\?[^#]*)?")
HOST = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[\w.-]+)(?::([0-9]{1,5}))?")

NOT_A_SENTINEL_URL = (
    "is not a valid URL of sentinels; expected redis+sentinel://[user:password@]host[:port],host[:port]/name[/db]"
    "[?sentinel_username=…&sentinel_password=…], with / ? # @ : in a password as %2F and so on"
)
NOT_A_CLUSTER_URL = (
    "is not a valid URL of a cluster; expected redis+cluster://[user:password@]host[:port],host[:port], "
    "with / ? # @ : in a password as %2F and so on; a cluster has no databases"
)
NOT_A_URL = (
    "is not a valid URL; expected redis://[user:password@]host[:port][/db], "
    "with / ? # @ : in a password as %2F and so on"
)
NOT_A_DATABASE = (
    "names a database that is not a whole number; expected redis://host:port/0 or unix://path?db=0, "
    "with / ? # @ : in a password as %2F and so on"
)

# The options after `?`, by the names that redis-py gives them.
LOGIN = ("username", "password")
TLS = (
    *("ssl_ca_certs", "ssl_ca_path", "ssl_ca_data", "ssl_cert_reqs", "ssl_check_hostname"),
    *("ssl_certfile", "ssl_keyfile", "ssl_password", "ssl_min_version", "ssl_ciphers"),
)
OURS = (  # taken, and without effect: how connections are used is decided here
    *("health_check_interval", "max_connections", "protocol", "retry_on_timeout", "socket_connect_timeout"),
    *("socket_keepalive", "socket_read_size", "socket_timeout", "timeout"),
)
CHECKS = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
NO = ("0", "f", "false", "n", "no")


class Target(Struct, frozen=True):
    """A server as a URL names it."""

    host: str  # empty: `path` is a socket
    port: int
    path: str
    login: tuple[str, ...]  # what AUTH takes; empty: nothing
    database: int
    client_name: str
    tls: dict[str, str] | None  # its options; None: no TLS

    @property
    def name(self) -> str:
        """For people, without secrets."""
        return "{}:{}".format(*(self.host, self.port)) if self.host else self.path


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
        raise BadConfiguration(f"REDIS_URL {says}")
    named = [(host[1], port) for host, port in zip(hosts, ports, strict=True) if host]
    return Addresses(found[1], found[2], named, found[4] or "", found[5] or "")


def as_host(host: str) -> str:
    """A host as a URL takes it."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def read_url(text: str) -> Target:
    """Raises `BadConfiguration`, which repeats no part of the URL that may belong to a password."""
    try:
        return read_parts(urlsplit(text))
    except ValueError:  # a port that is none, or brackets that are not closed
        raise BadConfiguration(f"REDIS_URL {NOT_A_URL}") from None


def read_parts(url: SplitResult) -> Target:
    secure, file = url.scheme == "rediss", unquote(url.path) if url.scheme == "unix" else ""
    if not (file if url.scheme == "unix" else url.scheme in ("redis", "rediss")):
        raise BadConfiguration(f"REDIS_URL {NOT_A_URL}")
    check_database(url)
    options = {name: values[0] for name, values in parse_qs(url.query).items()}
    known = ("db", "client_name", *LOGIN, *TLS, *OURS)
    if options.keys() - set(known):  # not repeated: it may be a piece of the password
        raise BadConfiguration(f"REDIS_URL has an unknown option after `?`; known are {', '.join(sorted(known))}")
    tls = {name: options[name] for name in TLS if name in options}
    if tls and not secure:
        raise BadConfiguration(f"REDIS_URL: {min(tls)} is an option of TLS; write rediss:// for it")
    check_tls(tls)
    user = unquote(url.username or "") or options.get("username", "")
    password = unquote(url.password or "") or options.get("password", "")
    path = "" if file else unquote(url.path).strip("/")
    return Target(
        host="" if file else unquote(url.hostname or "localhost"),
        port=url.port or 6379,
        path=file,
        login=(user, password) if user else (password,) if password else (),
        database=int(options.get("db") or path or 0),
        client_name=options.get("client_name", ""),
        tls=tls if secure else None,
    )


def check_database(url: SplitResult) -> None:
    """Refuse a database that is not a number. It may be part of a password, so it is not quoted."""
    if url.port == 0 or url.fragment:  # what comes after # may be part of a password
        raise BadConfiguration(f"REDIS_URL {NOT_A_URL}")
    path = [] if url.scheme == "unix" else [unquote(url.path).strip("/")]
    for word in (*filter(None, path), *parse_qs(url.query).get("db", [])):
        if not (word.isascii() and word.isdigit()):
            raise BadConfiguration(f"REDIS_URL {NOT_A_DATABASE}")


def check_tls(options: dict[str, str]) -> None:
    """Refuse what is wrong whatever is in the files."""
    if (check := options.get("ssl_cert_reqs", "required")) not in CHECKS:
        raise BadConfiguration(f"REDIS_URL: ssl_cert_reqs is {check!r}; it must be one of {', '.join(CHECKS)}")
    if "ssl_min_version" in options:
        try:
            ssl.TLSVersion(int(options["ssl_min_version"]))
        except ValueError:
            raise BadConfiguration("REDIS_URL: ssl_min_version must be 771 for TLS 1.2 or 772 for TLS 1.3") from None


def tls_context(options: dict[str, str]) -> ssl.SSLContext:
    """Raises `OSError`, of which errors of TLS are some, when a file cannot be used."""
    context = ssl.create_default_context()
    check = CHECKS[options.get("ssl_cert_reqs", "required")]
    by_name = options.get("ssl_check_hostname", "").lower() not in NO
    context.check_hostname = by_name and check is not ssl.CERT_NONE
    context.verify_mode = check
    if "ssl_certfile" in options or "ssl_keyfile" in options:
        context.load_cert_chain(
            options.get("ssl_certfile", ""), options.get("ssl_keyfile"), options.get("ssl_password")
        )
    authorities = [options.get(name) for name in ("ssl_ca_certs", "ssl_ca_path", "ssl_ca_data")]
    if any(authorities):
        context.load_verify_locations(*authorities)
    if "ssl_min_version" in options:
        context.minimum_version = ssl.TLSVersion(int(options["ssl_min_version"]))
    if "ssl_ciphers" in options:
        context.set_ciphers(options["ssl_ciphers"])
    return context
