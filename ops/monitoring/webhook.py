"""One POST to a webhook whose address is a secret: https only, no redirects, no private addresses, nothing logged."""

import http.client
import ipaddress
import socket
import ssl
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from tailrace.streams.errors import BadConfiguration, TailraceError

ANSWER_SECONDS = 10.0
READ_BYTES = 1024  # of an answer that says no

_NOT_THERE = "{}: {} resolves to {}, which is not a public address; TAILRACE_ALERTS_ALLOW_PRIVATE=on allows it"


class NotDelivered(TailraceError):
    """A message did not reach its receiver. The sentence names the host, never the path: that is the secret."""


class Webhook:
    """A receiver of messages."""

    def __init__(self, setting: str, url: str, *, allow_private: bool = False, ca_file: Path | None = None) -> None:
        """Raises `BadConfiguration`, naming `setting`, for an address that is never asked."""
        self._setting = setting
        try:
            self._url: SplitResult = urlsplit(url)
            self._host, self._port = self._url.hostname or "", self._url.port or 443
        except ValueError:
            raise BadConfiguration(f"{setting} is not a valid URL") from None
        if self._url.scheme != "https" or not self._host or self._url.username or self._url.fragment:
            raise BadConfiguration(f"{setting} must be an address https://host/path, without user and fragment")
        self._allow_private = allow_private
        try:
            self._tls = ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
        except (OSError, ssl.SSLError) as error:
            raise BadConfiguration(f"TAILRACE_ALERTS_CA_FILE: cannot use {ca_file}: {error}") from None

    def check(self) -> None:
        """Raises `BadConfiguration` for a host that resolves to a private address. One that is away now is no error."""
        try:
            self._resolve()
        except NotDelivered:
            return

    def post(self, body: bytes) -> None:
        """Send JSON. Raises `NotDelivered`, or `BadConfiguration` when the address is private by now.

        The connection goes to the address that was checked: a name that resolves to another one meanwhile changes
        nothing. A proxy is never asked.
        """
        address = self._resolve()
        path = (self._url.path or "/") + (f"?{self._url.query}" if self._url.query else "")
        link = _Pinned(self._host, self._port, address, self._tls)
        try:
            link.request("POST", path, body, {"Content-Type": "application/json", "User-Agent": "tailrace"})
            answer = link.getresponse()
            said = answer.read(READ_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise NotDelivered(f"{self._host}: {type(error).__name__}: {error}") from None
        finally:
            link.close()
        if 300 <= answer.status < 400:
            raise NotDelivered(
                f"{self._host} answers {answer.status}: redirects are not followed; set the final address"
            )
        if not 200 <= answer.status < 300:
            raise NotDelivered(f"{self._host} answers {answer.status}: {said.decode(errors='replace')[:200]}")

    def _resolve(self) -> str:
        """An address of the host, if all of them are public."""
        try:
            found = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise NotDelivered(f"{self._host} cannot be resolved: {error.strerror}") from None
        addresses = [str(address[0]) for *_, address in found]
        for address in addresses:
            if not self._allow_private and not is_public(address):
                raise BadConfiguration(_NOT_THERE.format(self._setting, self._host, address))
        return addresses[0]


def is_public(address: str) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped:
        ip = ip.ipv4_mapped
    return ip.is_global and not ip.is_multicast


class _Pinned(http.client.HTTPSConnection):
    """Connects to one address, whatever the name of the host leads to; the certificate must be of that name."""

    def __init__(self, host: str, port: int, address: str, tls: ssl.SSLContext) -> None:
        super().__init__(host, port, timeout=ANSWER_SECONDS, context=tls)
        self._address = address
        self._tls = tls

    def connect(self) -> None:
        plain = socket.create_connection((self._address, self.port), ANSWER_SECONDS)
        try:
            self.sock = self._tls.wrap_socket(plain, server_hostname=self.host)
        except BaseException:
            plain.close()
            raise
