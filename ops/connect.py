"""The client a command works with: on the store that REDIS_URL names, else on that of a running `up`."""

import argparse
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple, TypeVar

import anyio

from tailrace.ops.hints import meant
from tailrace.producers import Tailrace
from tailrace.producers.client import find_store
from tailrace.producers.policies import watch_all
from tailrace.producers.settings import StreamsSettings
from tailrace.streams.errors import StoreError, WrongField
from tailrace.streams.policies import Platforms
from tailrace.streams.store.connection import Store
from tailrace.streams.store.node import GLANCE_SECONDS

T = TypeVar("T")


class Reached(NamedTuple):
    """A store that answers, what is configured for it, and a client on both."""

    client: Tailrace
    store: Store
    settings: StreamsSettings

    @property
    def platforms(self) -> Platforms:
        return self.settings.platforms


@asynccontextmanager
async def reach(options: argparse.Namespace) -> AsyncIterator[Reached]:
    """Connect. A platform that is not declared is refused with the one that may be meant."""
    url, settings = find_store(None, options.data)
    async with settings.open(url) as store:
        with suppress(StoreError), anyio.move_on_after(GLANCE_SECONDS):  # the command itself says what is wrong
            await watch_all(store, settings).look()
        try:
            yield Reached(Tailrace.over(store, settings.platforms, settings.kinds), store, settings)
        except WrongField as error:
            if error.field != "platform" or not isinstance(typed := getattr(options, "platform", None), str):
                raise
            raise WrongField(error.field, error.reason + meant(typed, settings.platforms)) from None


def ask(options: argparse.Namespace, question: Callable[[Reached], Awaitable[T]]) -> T:
    """The answer to one question."""

    async def answer() -> T:
        async with reach(options) as reached:
            return await question(reached)

    return anyio.run(answer)
