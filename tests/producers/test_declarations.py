"""Typed kinds: a job is submitted by its handler, its args are checked at once, its result comes back as its type."""

import asyncio
import dataclasses
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date
from typing import Any, Literal, NoReturn, TypedDict

import msgspec
import pydantic
import pytest

from tailrace import Attempt, Handlers, Sync, SyncAttempt, Tailrace, WrongField
from tailrace.consumers.testing import run_handler
from tailrace.producers.declarations import unwritable
from tailrace.streams.errors import BadConfiguration
from tailrace.streams.states import State


class Greeting(msgspec.Struct):
    names: list[str]
    day: date | None = None


@dataclasses.dataclass
class Price:
    cents: int


class Order(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    day: date
    prices: list[Price] = []


class Basket(msgspec.Struct):
    orders: list[Order]


class Sum(TypedDict):
    cents: int


class Pool:
    """No JSON could hold it."""


handles = Handlers()


@handles("greet", platform="research")
async def greet(attempt: Attempt[Greeting]) -> Greeting:
    return attempt.args


@handles("price", run_in="thread")
def price(attempt: SyncAttempt[Price]) -> Price:
    return attempt.args


@handles("order", platform="research")
async def order(attempt: Attempt[Order]) -> Order:
    await attempt.progress(1, data=attempt.args)
    return attempt.args


@handles("basket", platform="research")
async def basket(attempt: Attempt[Basket]) -> list[Order] | None:
    return attempt.args.orders


async def test_a_job_is_submitted_by_its_handler(valkey_url: str) -> None:
    async with Tailrace(valkey_url) as tr:
        job = await tr.submit(greet, Greeting(["Ada"]), id="a", delay_seconds=60)
        assert (job.id, job.status) == ("research.a", State.DELAYED)
        assert (await tr.submit("research", "greet", Greeting(["Ada"]), id="a", delay_seconds=60)).replayed
        assert (await tr.submit(greet, Greeting(["Ada"]), platform="kurly", id="a")).id == "kurly.a"
        assert (await tr.submit(price, Price(3), platform="default", id="b")).id == "default.b"
        assert (await tr.submit(order, Order(day=date(2030, 1, 1)), id="c")).id == "research.c"
        many = await tr.submit_many(greet, [Greeting(["Ada"]), Greeting(["Grace"])])
        assert len({each.id for each in many if not isinstance(each, Exception)}) == 2
        assert (await tr.submit(platform="research", kind="greet", args={"names": []}, id="d")).id == "research.d"


@pytest.mark.parametrize(
    ("job", "keywords", "field", "why"),
    [
        ((greet, {"names": "Ada"}), {}, "args.names", "must be a list, not a string"),
        ((greet, {}), {}, "args.names", "is missing"),
        ((greet, Pool()), {}, "args", "cannot be written as JSON"),
        ((order, {"day": "today"}), {}, "args.day", "Input should be a valid date"),
        ((order, {"day": "2030-01-01", "prices": [{}]}), {}, "args.prices[0].cents", "Field required"),
        ((basket, {"orders": [{}]}), {}, "args.orders[0].day", "Field required"),
        ((price, Price(3)), {}, "platform", 'say platform=… here, or @handles("price", platform=…)'),
        ((greet, Greeting([])), {"platform": "nowhere"}, "platform", "not declared"),
        ((greet, Greeting([])), {"priority": "whenever"}, "priority", ""),
        ((print, {}), {}, "kind", "print is not registered as a handler"),
    ],
)
async def test_what_is_wrong_is_refused_before_anything_is_stored(
    valkey_url: str, job: Any, keywords: Any, field: str, why: str
) -> None:
    async with Tailrace(valkey_url) as tr:
        with pytest.raises(WrongField) as refused:
            await tr.submit(*job, **keywords)
        assert (refused.value.field, why in refused.value.reason) == (field, True), str(refused.value)
        with pytest.raises(TypeError):
            await tr.submit(greet)  # type: ignore[call-overload]


async def test_a_function_of_two_kinds_does_not_say_which_one_is_meant(valkey_url: str) -> None:
    async def one(attempt: Attempt[Greeting]) -> None: ...

    both = handles("one")(handles("another")(one))
    async with Tailrace(valkey_url) as tr:
        with pytest.raises(WrongField, match=r"several kinds \(another, one\)"):
            await tr.submit(both, Greeting([]))


def test_a_result_comes_back_as_its_type(valkey_url: str) -> None:
    """The consumer is a program that blocks, too: it serves in a thread, with the program around it."""
    with Sync(valkey_url) as tr:
        ended = tr.submit(order, Order(day=date(2030, 1, 1), prices=[Price(3)]))
        nested = tr.submit(basket, Basket([Order(day=date(2030, 1, 1))]))

        async def serve() -> None:
            from tailrace import consume

            working = asyncio.create_task(consume(handles, url=valkey_url, platforms=["research"], signals=False))
            await asyncio.to_thread(tr.result, nested.id, timeout=30)
            working.cancel()
            await asyncio.wait([working])

        asyncio.run(serve())
        assert tr.result(ended.id, type=Order) == Order(day=date(2030, 1, 1), prices=[Price(3)])
        assert tr.result(nested.id, type=list[Order]) == [Order(day=date(2030, 1, 1))]
        assert [event.data for event in tr.history(ended.id) if event.step] == [tr.result(ended.id)]
        with pytest.raises(ValueError, match=r"has a result that does not fit Greeting: result\.names: is missing"):
            tr.result(ended.id, type=Greeting)


async def test_models_are_args_and_results_of_handlers() -> None:
    done = await run_handler(handles, "order", {"day": "2030-01-01", "prices": [{"cents": 3}]})
    assert done.result == {"day": "2030-01-01", "prices": [{"cents": 3}]}
    wrong = await run_handler(handles, "order", {"day": 3})
    assert wrong.error
    assert wrong.error.message == "the args do not fit the kind order: args.day: Input should be a valid date"


@pytest.mark.parametrize(
    "kind",
    [
        int,
        None,
        Any,
        object,
        NoReturn,
        Literal["a"],
        Sum,
        Counter,
        Iterable[int],
        Greeting | Price,
        list[Greeting | Sum],
    ],
)
def test_types_that_can_be_written_are_accepted(kind: Any) -> None:
    assert unwritable(kind) is None


@pytest.mark.parametrize(
    "kind", [Pool, list[Pool], Counter[Pool], dict[str, Pool | None], Iterator[int], complex, ValueError]
)
def test_a_result_that_no_json_holds_is_refused_at_registration(kind: Any) -> None:
    async def gives(attempt: Attempt[Any]): ...  # type: ignore[no-untyped-def]

    gives.__annotations__["return"] = kind
    with pytest.raises(BadConfiguration, match="the result of the kind 'gives' cannot be kept as JSON"):
        Handlers()("gives")(gives)


def test_args_that_no_json_holds_are_refused_at_registration() -> None:
    with pytest.raises(
        BadConfiguration, match=r"the args of the kind 'takes' cannot be kept as JSON: \S*takes says Pool"
    ):

        @Handlers()("takes")
        async def takes(attempt: Attempt[list[Pool]]) -> None: ...

    with pytest.raises(BadConfiguration, match="takes_counts says Counter"):

        @Handlers()("counts")
        async def takes_counts(attempt: Attempt[Counter[str]]) -> None: ...

    with pytest.raises(BadConfiguration, match="the args of the kind 'either' cannot be read from JSON"):

        @Handlers()("either")
        async def either(attempt: Attempt[Greeting | Basket]) -> None: ...


@pytest.mark.parametrize(
    ("program", "unwanted"),
    [
        ("import tailrace", ("msgspec", "redis", "anyio")),
        (
            "from tailrace import Tailrace, Sync, JobFailed, Schedule",
            ("starlette", "uvicorn", "pydantic", "tailrace.consumers"),
        ),
        ("from tailrace import Attempt, Handlers, consume", ("starlette", "uvicorn", "pydantic", "prometheus_client")),
    ],
)
def test_an_import_loads_only_what_it_needs(program: str, unwanted: tuple[str, ...]) -> None:
    code = f"{program}; import sys; print([name for name in {unwanted!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
