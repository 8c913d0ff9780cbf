"""The address of a language model: it may hold a password, which no error repeats."""

import base64
from pathlib import Path
from urllib.error import URLError

import pytest

from consumers.failures import failure_of
from consumers.handlers.model import ask_model, model_url, split
from streams.errors import BadConfiguration


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
    headers = {} if held is None else {"Authorization": "Basic " + base64.b64encode(held.encode()).decode()}
    assert split(url) == (address, headers)


@pytest.mark.parametrize("url", ["http://h:1/", "https://h/base/", "http://me:pä ss@h", "http://[::1]:80", "HTTP://h"])
def test_an_address_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("LLM_SERVER_URL", url)
    assert model_url() == url


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
def test_what_no_server_can_be_asked_at_is_refused_and_not_repeated(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("LLM_SERVER_URL", url)
    with pytest.raises(BadConfiguration, match="LLM_SERVER_URL is no address of a server") as refusal:
        model_url()
    assert "hidden" not in str(refusal.value)


def test_a_model_that_does_not_answer_tells_no_password() -> None:
    for url in ("http://me:hidden@127.0.0.1:1", "http://me:hidden@nowhere.invalid"):
        with pytest.raises(URLError) as refusal:
            ask_model(url, "why")
        failure = failure_of(refusal.value)
        assert "hidden" not in failure.message


def test_the_address_may_come_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LLM_SERVER_URL", raising=False)
    assert model_url() is None
    (tmp_path / "url").write_text("http://h:1\n")
    monkeypatch.setenv("LLM_SERVER_URL_FILE", str(tmp_path / "url"))
    assert model_url() == "http://h:1"
