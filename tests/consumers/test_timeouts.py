"""Timers: one clock for many times, each called once unless it was taken back, and nothing kept for longer."""

import asyncio
import gc
import weakref

from tailrace.consumers.timeouts import SPARE, Timers


async def test_times_are_called_in_their_order_and_once() -> None:
    timers, called = Timers(), []
    for number in (3, 1, 2):
        timers.after(number / 100, lambda number=number: called.append(number))  # type: ignore[misc]
    await asyncio.sleep(0.1)
    assert called == [1, 2, 3]


async def test_what_was_taken_back_is_not_called() -> None:
    timers, called = Timers(), []
    numbers = [timers.after(0.01, lambda number=number: called.append(number)) for number in range(4)]  # type: ignore[misc]
    timers.take_back(numbers[0])
    timers.take_back(numbers[2])
    await asyncio.sleep(0.05)
    assert called == [1, 3]


async def test_a_call_may_set_and_take_back_other_times() -> None:
    timers, called = Timers(), []
    later = timers.after(0.03, lambda: called.append("later"))

    def first() -> None:
        timers.take_back(later)
        timers.after(0.01, lambda: called.append("next"))

    timers.after(0.01, first)
    await asyncio.sleep(0.08)
    assert called == ["next"]


async def test_taking_back_what_was_called_or_never_set_changes_nothing() -> None:
    timers, called = Timers(), []
    number = timers.after(0, lambda: called.append(1))
    await asyncio.sleep(0.02)
    timers.take_back(number)
    timers.take_back(12345)
    timers.after(0, lambda: called.append(2))
    await asyncio.sleep(0.02)
    assert called == [1, 2]


class Thing:
    """What a call holds on to."""

    def call(self) -> None:
        raise AssertionError("it was taken back")


async def test_what_was_taken_back_is_let_go_long_before_its_time() -> None:
    timers = Timers()
    things = [Thing() for _ in range(10_000)]
    alive = weakref.WeakSet(things)
    for number in [timers.after(3600, thing.call) for thing in things]:
        timers.take_back(number)
    things.clear()
    gc.collect()
    assert len(alive) <= 1  # the loop's own variable
    assert len(timers._heap) <= SPARE
