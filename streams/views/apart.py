"""Looks at platforms on a cluster, where one node may be down while the others answer."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

from tailrace.streams.errors import NoStore
from tailrace.streams.store.connection import Store

T = TypeVar("T")


class Looked(NamedTuple, Generic[T]):
    """The answers by platform, and the errors of those that did not answer."""

    answers: list[T]
    down: dict[str, NoStore]  # by platform


async def look_apart(store: Store, platforms: Iterable[str], look: Callable[[list[str]], Awaitable[T]]) -> Looked[T]:
    """Look at platforms in groups that fail apart, side by side: one look on a single server. A node that hangs is not
    waited for.

    Raises `NoStore` when nothing answers, and what else a look raises.
    """
    groups = store.apart(platforms)
    if not store.clustered:
        return Looked([await look(groups[0])], {})

    async def glance(group: list[str]) -> T:
        return await (await store.node_of(group[0])).glance(lambda: look(group))

    found = await asyncio.gather(*map(glance, groups), return_exceptions=True)
    answers: list[T] = []
    down: dict[str, NoStore] = {}
    for group, answer in zip(groups, found, strict=True):
        if isinstance(answer, NoStore):
            down |= dict.fromkeys(group, answer)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            answers.append(answer)
    if down and not answers:
        raise next(iter(down.values()))
    return Looked(answers, down)
