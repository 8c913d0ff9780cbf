"""Handlers and where they come from."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tailrace.consumers import Attempt, Handlers, SyncAttempt
from tailrace.consumers.handlers import BUILT_IN
from tailrace.consumers.middleware import CallNext
from tailrace.consumers.program.loading import load_handlers
from tailrace.producers.kinds import KINDS
from tailrace.streams.errors import BadConfiguration, TailraceError, WrongField


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


def test_a_plain_function_without_a_place_to_run_is_refused() -> None:
    with pytest.raises(BadConfiguration, match=r"async.*plain.*run_in"):

        @Handlers()("kind")
        def plain(attempt: Attempt[Any]) -> Any: ...


@pytest.mark.parametrize("place", ["thread", "process"])
def test_an_async_function_runs_in_the_loop_only(place: Any) -> None:
    with pytest.raises(BadConfiguration, match=r"coroutine.*leave out run_in"):

        @Handlers()("kind", run_in=place)
        async def coroutine(attempt: SyncAttempt[Any]) -> None: ...


def test_a_function_that_another_process_could_not_find_is_refused() -> None:
    with pytest.raises(BadConfiguration, match=r"top level of its module.*inner"):

        @Handlers()("kind", run_in="process")
        def inner(attempt: SyncAttempt[Any]) -> None: ...


def test_an_unknown_place_to_run_is_refused() -> None:
    with pytest.raises(BadConfiguration, match="loop, thread or process"):
        Handlers()("kind", run_in="cloud")(print)  # type: ignore[call-overload]


def test_args_of_a_plain_function_are_decoded_by_its_annotation() -> None:
    handles = Handlers()

    @handles("typed", run_in="thread")
    def typed(attempt: SyncAttempt[Wanted]) -> None: ...

    assert handles["typed"].decode(b'{"count": 3}') == Wanted(3)


def test_only_an_async_function_in_the_loop_without_hooks_is_called_directly() -> None:
    handles = Handlers()

    @handles("thread", run_in="thread")
    def in_thread(attempt: SyncAttempt[Any]) -> None: ...

    @handles("loop")
    async def in_loop(attempt: Attempt[Any]) -> None: ...

    assert [handles["loop"].direct, handles["thread"].direct] == [True, False]

    @handles.around
    async def hook(attempt: Attempt[Any], call_next: CallNext) -> None: ...

    @handles("later")
    async def later(attempt: Attempt[Any]) -> None: ...

    assert [handles["loop"].direct, handles["later"].direct] == [False, False]


def test_a_kind_must_fit_into_a_record() -> None:
    with pytest.raises(WrongField, match="kind"):
        Handlers()("white space")


def test_every_declared_kind_has_a_built_in_handler() -> None:
    assert set(BUILT_IN) == set(KINDS)


def test_a_users_handler_is_taken_before_a_built_in_one(tmp_path: Path) -> None:
    file = tmp_path / "my_shop_handlers.py"
    file.write_text(
        "from tailrace.consumers import Attempt, Handlers\n"
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


MISUSED: list[tuple[Any, dict[str, Any], str]] = [
    (print, {}, r'the decorator takes a kind: write @handles\("print"\) above print'),
    ("greet", {"backoff": 3}, "backoff of the kind 'greet' is 3; it must be a function"),
    ("greet", {"platform": "my shop"}, "platform: must have 1 to 32 characters of .*, not 'my shop'"),
    ("my greet", {}, "kind: must have 1 to 64 characters of .*, not 'my greet'"),
]


@pytest.mark.parametrize(("kind", "said", "sentence"), MISUSED)
def test_a_misused_decorator_says_what_to_write(kind: Any, said: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TailraceError, match=sentence):
        Handlers()(kind, **said)
