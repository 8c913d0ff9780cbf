"""The first job that `up` suggests is of a kind of the user's, where there are handlers of the user's."""

from pathlib import Path

import pytest

from tailrace.ops.up.own_kinds import OwnKind, own_kinds
from tailrace.ops.up.up import own_example

HANDLERS = """
from fastapi import FastAPI
from tailrace import Attempt, Handlers
app = FastAPI()
handles: Handlers[None] = Handlers()
mails = Handlers(lifespan=pool)
raise RuntimeError("whoever reads this text runs none of it")

@app.get("/")
async def root(): ...

@handles("greet")
async def greet(attempt): ...

@mails("mail", run_in="thread", platform="post")
def mail(attempt): ...

@handles(KIND)
async def other(attempt): ...
"""
FOUND = [OwnKind("greet", None), OwnKind("mail", "post")]


def test_kinds_are_read_from_the_text_of_a_file_or_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop" / "mails").mkdir(parents=True)
    for name in ("handlers.py", "shop/handlers.py", "shop/mails/__init__.py"):
        (tmp_path / name).write_text(HANDLERS)
    for where in ("./handlers.py", str(tmp_path / "handlers.py"), "handlers", "shop.handlers", "shop.mails"):
        assert own_kinds(where) == FOUND, where


def test_what_cannot_be_read_has_no_kinds_and_a_word_stands_for_one(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text("def (:")
    (tmp_path / "null.py").write_bytes(b"\0")
    for name in ("wrong.py", "null.py", "none.py", "no.such.module"):
        assert own_kinds(str(tmp_path / name)) == []
    assert own_example(["kurly"], [])[2] == "submit kurly KIND ARGS --follow"


def test_a_kind_is_suggested_on_the_platform_that_its_handler_names_if_that_is_served() -> None:
    path, body, words = own_example(["kurly", "post"], FOUND[1:])
    assert (path, body) == ("/api/jobs", '{"platform": "post", "kind": "mail", "args": {}}')
    assert words == "submit post mail ARGS --follow"
    assert own_example(["kurly"], FOUND[1:])[2] == "submit kurly KIND ARGS --follow"
    assert own_example(["kurly"], [OwnKind("a b; rm", None)])[2] == "submit kurly 'a b; rm' ARGS --follow"
