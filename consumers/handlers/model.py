"""Asks a language model, for the kinds that do so when LLM_SERVER_URL is set."""

import base64
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from streams.settings import Environment


def model_url() -> str | None:
    """LLM_SERVER_URL; it may hold a password, so it may come from a file as well."""
    return Environment().secret("LLM_SERVER_URL")


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
