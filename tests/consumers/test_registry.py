"""Handlers and where they come from."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from consumers import Attempt, Handlers
from consumers.handlers import BUILT_IN
from consumers.registry import load_handlers
from producers.kinds import KINDS
from streams.errors import BadConfiguration, WrongField


class Wanted(Struct):
    count: int


def test_args_are_decoded_into_the_type_of_the_annotation() -> None:
    handles = Handlers()

    @handles("typed")
    async def typed(attempt: Attempt[Wanted]) -> None: ...

    @handles("loose")
    async def loose(attempt: Attempt[Any]) -> None: ...

    @handles("bare")
    async def bare(attempt) -> None: ...  # type: ignore[no-untyped-def]

    assert handles["typed"].decode(b'{"count": 3}') == Wanted(3)
    assert handles["loose"].decode(b'{"count": 3}') == {"count": 3}
    assert handles["bare"].decode(b"[1]") == [1]


def test_two_handlers_for_one_kind_are_refused() -> None:
    handles = Handlers()

    @handles("same")
    async def first(attempt: Attempt[Any]) -> None: ...

    with pytest.raises(BadConfiguration, match="second"):

        @handles("same")
        async def second(attempt: Attempt[Any]) -> None: ...


def test_a_plain_function_is_refused() -> None:
    with pytest.raises(BadConfiguration, match="async"):

        @Handlers()("kind")
        def plain(attempt: Attempt[Any]) -> Any: ...


def test_a_kind_must_fit_into_a_record() -> None:
    with pytest.raises(WrongField, match="kind"):
        Handlers()("white space")


def test_every_declared_kind_has_a_built_in_handler() -> None:
    assert set(BUILT_IN) == set(KINDS)


def test_a_users_handler_is_taken_before_a_built_in_one(tmp_path: Path) -> None:
    file = tmp_path / "my_shop_handlers.py"
    file.write_text(
        "from consumers import Attempt, Handlers\n"
        "handles = Handlers()\n"
        "@handles('scan')\n"
        "async def scan(attempt: Attempt[dict]) -> str:\n"
        "    return 'mine'\n"
    )
    mine = load_handlers(str(file))
    assert BUILT_IN.under(mine)["scan"] is mine["scan"]
    assert "drill" in BUILT_IN.under(mine)


@pytest.mark.parametrize("where", ["no.such.module", "./none.py", "json"])
def test_what_holds_no_handlers_is_named(where: str) -> None:
    with pytest.raises(BadConfiguration, match="TAILRACE_HANDLERS"):
        load_handlers(where)


def test_a_typing_mistake_in_the_handlers_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mistaken_handlers.py"
    file.write_text("def x(:\n")
    with pytest.raises(BadConfiguration, match="SyntaxError"):
        load_handlers(str(file))
