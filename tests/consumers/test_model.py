"""The address of a language model: it may hold a password, which no error repeats."""

import base64
from pathlib import Path
from urllib.error import URLError

import pytest

from consumers.failures import failure_of
from consumers.handlers.model import ask_model, model_url, split


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
