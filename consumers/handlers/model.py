"""Asks a language model, for the kinds that do so when LLM_SERVER_URL is set."""

import base64
import re
from typing import Any, Self
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec
from msgspec import Struct

from tailrace.consumers.outcomes import GiveUp
from tailrace.streams.errors import BadConfiguration
from tailrace.streams.process.settings import Environment

ANSWER_BYTES = 1_000_000
NOT_A_URL = (
    "LLM_SERVER_URL is not the address of a server; write http://[user:password@]host[:port][/path], or https://, "
    "with / ? # @ : in a password as %2F and so on"
)


class Model(Struct, frozen=True):
    """The address of a model, and the headers of each request to its server."""

    address: str  # without credentials: errors name addresses
    authorization: str | None = None  # the header
    name: str | None = None  # LLM_MODEL; a server of one model needs none

    @classmethod
    def read(cls, environment: Environment | None = None) -> Self | None:
        """Read LLM_SERVER_URL, LLM_MODEL and LLM_API_KEY; None: no model is asked. No error repeats a secret."""
        env = environment or Environment()
        url, key = env.secret("LLM_SERVER_URL"), env.secret("LLM_API_KEY")
        if key is not None and not re.fullmatch(r"[!-~]+", key):
            raise BadConfiguration("LLM_API_KEY has characters that no key has; expected visible ASCII in one line")
        if url is None:
            return None
        if not is_address(url):
            raise BadConfiguration(NOT_A_URL)
        address, authorization = split(url)
        if authorization and key:
            raise BadConfiguration("LLM_SERVER_URL holds credentials, and LLM_API_KEY is set; give one of the two")
        return cls(address, f"Bearer {key}" if key else authorization, env.text("LLM_MODEL"))

    def ask(self, prompt: str) -> str:
        """One chat completion of a server that speaks the common /v1/chat/completions form."""
        from tailrace.consumers.handlers.outside import Moved, request

        address = f"{self.address.removesuffix('/v1')}/v1/chat/completions"
        question = {"model": self.name, "messages": [{"role": "user", "content": prompt}]}
        headers = {"Content-Type": "application/json", "Authorization": self.authorization}
        try:
            with request(address, msgspec.json.encode(given(question)), given(headers)) as reply:
                return answer_of(reply.read(ANSWER_BYTES))
        except Moved:
            raise GiveUp("the model's server points to another address; set LLM_SERVER_URL to that one") from None
        except HTTPError as error:
            with error:
                raise RuntimeError(f"the model's server answers {error.code} {error.reason}") from None

    def __repr__(self) -> str:
        return f"Model({self.name})"


def given(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value}


def answer_of(raw: bytes) -> str:
    try:
        return str(msgspec.json.decode(raw)["choices"][0]["message"]["content"])
    except (ValueError, LookupError, TypeError):
        raise RuntimeError("the answer of the model's server does not have the form of /v1/chat/completions") from None


def is_address(url: str) -> bool:
    """Whether this is the address of a server."""
    try:
        parts = urlsplit(split(url)[0])
        port, host = parts.port, parts.hostname or ""
        host.encode("idna")  # here it shows when a part of a name is empty or too long
    except ValueError:
        return False
    plain = all("!" <= letter <= "~" for letter in urlunsplit(parts))
    more = parts.query or parts.fragment  # they would come before the path that is asked for
    return parts.scheme in ("http", "https") and bool(host) and port != 0 and plain and not more


def split(url: str) -> tuple[str, str | None]:
    """The address alone, and the header `Authorization` that its `user:password@` stands for."""
    parts = urlsplit(url.rstrip("/"))
    credentials, at, host = parts.netloc.rpartition("@")
    if not at:
        return urlunsplit(parts), None
    held = base64.b64encode(unquote(credentials).encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), f"Basic {held}"
