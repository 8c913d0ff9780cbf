"""Asks a language model, for the kinds that do so when LLM_SERVER_URL is set."""

import base64
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from streams.errors import BadConfiguration
from streams.settings import Environment

NOT_A_URL = (
    "LLM_SERVER_URL is no address of a server; write http://[user:password@]host[:port][/path], or https://, "
    "with / ? # @ : in a password as %2F and so on"
)


def model_url() -> str | None:
    """LLM_SERVER_URL, checked; it may hold a password, so it may come from a file as well, and no error repeats it."""
    url = Environment().secret("LLM_SERVER_URL")
    if url is not None and not is_address(url):
        raise BadConfiguration(NOT_A_URL)
    return url


def is_address(url: str) -> bool:
    """Can a server be asked there?"""
    try:
        parts = urlsplit(split(url)[0])
        port, host = parts.port, parts.hostname or ""
        host.encode("idna")  # here it shows when a part of a name is empty or too long
    except ValueError:
        return False
    plain = all("!" <= letter <= "~" for letter in urlunsplit(parts))
    more = parts.query or parts.fragment  # they would come before the path that is asked for
    return parts.scheme in ("http", "https") and bool(host) and port != 0 and plain and not more


def ask_model(url: str, prompt: str) -> str:
    """One chat completion of a server that speaks the common /v1/chat/completions form."""
    from urllib.request import Request, urlopen

    address, headers = split(url)
    body = msgspec.json.encode({"messages": [{"role": "user", "content": prompt}]})
    request = Request(f"{address}/v1/chat/completions", body, {"Content-Type": "application/json", **headers})
    with urlopen(request, timeout=60) as reply:
        answer = msgspec.json.decode(reply.read(1_000_000))
    return str(answer["choices"][0]["message"]["content"])


def split(url: str) -> tuple[str, dict[str, str]]:
    """The address alone, and the header that its `user:password@` stands for: errors name addresses."""
    parts = urlsplit(url.rstrip("/"))
    credentials, at, host = parts.netloc.rpartition("@")
    if not at:
        return urlunsplit(parts), {}
    held = base64.b64encode(unquote(credentials).encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), {"Authorization": f"Basic {held}"}
