"""A language model: what its server is sent, and that no secret goes anywhere else or into an error."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from tailrace.consumers.handlers.model import Model, split
from tailrace.consumers.outcomes import GiveUp, failure_of
from tailrace.streams.errors import BadConfiguration
from tailrace.streams.process.settings import Environment


def read(**variables: str) -> Model | None:
    return Model.read(Environment(variables))


@pytest.mark.parametrize(
    ("url", "address", "held"),
    [
        ("http://h:1/", "http://h:1", None),
        ("https://h/base/", "https://h/base", None),
        ("http://me:p%40ss@h:1", "http://h:1", "me:p@ss"),
        ("https://token@h", "https://h", "token"),
    ],
)
def test_credentials_become_a_header(url: str, address: str, held: str | None) -> None:
    assert split(url) == (address, held and "Basic " + base64.b64encode(held.encode()).decode())


@pytest.mark.parametrize("url", ["http://h:1/", "https://h/base/", "http://me:pä ss@h", "http://[::1]:80", "HTTP://h"])
def test_an_address_is_taken_as_it_is(url: str) -> None:
    model = read(LLM_SERVER_URL=url)
    assert model
    assert model.address == split(url)[0]


@pytest.mark.parametrize(
    "url",
    [
        "hidden",
        "hidden:80",
        "//hidden",
        "ftp://me:hidden@h",
        "http://",
        "http://:80",
        "http://me:hidden@",
        "http://me:hidden@h:port",
        "http://me:hidden@h:0",
        "http://me:hidden/x@h",
        "http://me:12#hidden@h",
        "http://h?hidden=1",
        "http://hid den",
        "http://h/hidden ä",
        "http://hidden..h",
        "http://[hidden",
    ],
)
def test_what_no_server_can_be_asked_at_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(BadConfiguration, match="LLM_SERVER_URL is not the address of a server") as refusal:
        read(LLM_SERVER_URL=url)
    assert "hidden" not in str(refusal.value)


def test_a_model_that_does_not_answer_tells_no_password() -> None:
    for url in ("http://me:hidden@127.0.0.1:1", "http://me:hidden@nowhere.invalid"):
        model = read(LLM_SERVER_URL=url)
        assert model
        with pytest.raises(URLError) as refusal:
            model.ask("why")
        failure = failure_of(refusal.value)
        assert "hidden" not in failure.message


def test_address_and_key_may_come_from_files(tmp_path: Path) -> None:
    assert read() is None
    (tmp_path / "url").write_text("http://h:1\n")
    (tmp_path / "key").write_text("sk-hidden\n")
    model = read(LLM_SERVER_URL_FILE=str(tmp_path / "url"), LLM_API_KEY_FILE=str(tmp_path / "key"), LLM_MODEL="small")
    assert model == Model("http://h:1", "Bearer sk-hidden", "small")
    assert "hidden" not in repr(model)


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"LLM_API_KEY": ""}, "LLM_API_KEY is empty"),
        ({"LLM_API_KEY": "hidden\r\nX-More: 1"}, "LLM_API_KEY has characters that no key has"),
        ({"LLM_API_KEY": "hidden ä"}, "LLM_API_KEY has characters that no key has"),
        ({"LLM_API_KEY": "k", "LLM_SERVER_URL": "http://me:hidden@h"}, "LLM_SERVER_URL holds credentials, and"),
    ],
)
def test_a_key_that_cannot_be_sent_is_refused_and_not_repeated(variables: dict[str, str], sentence: str) -> None:
    with pytest.raises(BadConfiguration, match=sentence) as refusal:
        read(**{"LLM_SERVER_URL": "http://h", **variables})
    assert "hidden" not in str(refusal.value)


class Server(HTTPServer):
    """Stands in for a hosted server: it keeps what it is sent, and answers as its paths say."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.seen: list[tuple[str, str | None, Any]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.leads_to = ""


class Answering(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, self.headers["Authorization"], body))
        first = self.path.split("/")[1]
        answers = {"v1": 200, "odd": 200}
        self.send_response(answers.get(first) or int(first))
        self.send_header("Location", self.server.leads_to)
        self.end_headers()
        said = b"[]" if first == "odd" else b'{"choices": [{"message": {"content": "because"}}]}'
        self.wfile.write(said)

    def do_GET(self) -> None:
        self.server.seen.append((self.path, self.headers["Authorization"], None))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def servers() -> Iterator[tuple[Server, Server]]:
    both = Server(), Server()
    threads = [threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}) for server in both]
    for thread in threads:
        thread.start()
    both[0].leads_to = both[1].url + "/v1/chat/completions"
    yield both
    for server, thread in zip(both, threads, strict=True):
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("base", ["", "/", "/v1", "/v1/"])
def test_a_hosted_server_gets_the_key_and_the_name_of_the_model(servers: tuple[Server, Server], base: str) -> None:
    server, _ = servers
    model = read(LLM_SERVER_URL=server.url + base, LLM_API_KEY="sk-1", LLM_MODEL="small")
    assert model
    assert model.ask("why") == "because"
    question = {"model": "small", "messages": [{"role": "user", "content": "why"}]}
    assert server.seen == [("/v1/chat/completions", "Bearer sk-1", question)]


def test_a_server_of_ones_own_gets_neither(servers: tuple[Server, Server]) -> None:
    server, _ = servers
    model = read(LLM_SERVER_URL=server.url)
    assert model
    assert model.ask("why") == "because"
    assert server.seen == [("/v1/chat/completions", None, {"messages": [{"role": "user", "content": "why"}]})]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("held", [{"LLM_API_KEY": "sk-hidden"}, {}])
def test_no_redirect_is_followed(servers: tuple[Server, Server], status: int, held: dict[str, str]) -> None:
    server, other = servers
    url = server.url if held else server.url.replace("://", "://me:hidden@")
    model = read(LLM_SERVER_URL=f"{url}/{status}", **held)
    assert model
    with pytest.raises(GiveUp, match="points to another address; set LLM_SERVER_URL to that one"):
        model.ask("why")
    assert len(server.seen) == 1
    assert other.seen == []


@pytest.mark.parametrize(("path", "sentence"), [("401", "answers 401 Unauthorized"), ("odd", "does not have the form")])
def test_an_answer_that_is_none_is_told_in_a_sentence(servers: tuple[Server, Server], path: str, sentence: str) -> None:
    model = read(LLM_SERVER_URL=f"{servers[0].url}/{path}")
    assert model
    with pytest.raises(RuntimeError, match=sentence):
        model.ask("why")
