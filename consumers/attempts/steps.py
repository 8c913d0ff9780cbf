"""Steps and cursors: values that an attempt saves for the next one."""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Any, Literal, ParamSpec, TypeVar, overload

from msgspec import Struct

from tailrace.consumers.attempts.facts import Args, AttemptFacts, Opened
from tailrace.consumers.attempts.reports import check_name
from tailrace.consumers.attempts.values import from_value, returned_by, to_value
from tailrace.consumers.outcomes import Steers, said_by
from tailrace.streams.errors import Cancelled, Lost
from tailrace.streams.flows.spawning import SPAWNED, whole_spawn
from tailrace.streams.process.tracing import open_span

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item")

OURS = "@"
"""The names of values that the library saves begin with it: those of steps do not."""

SPAN = "span"  # under which an attempt leaves its traceparent for the next one
MOST_SKIPPED = 1000  # skipped items that a cursor names; of the others it keeps the count
LONGEST_REASON = 120
MOST_ENDS = 16 * 1024 * 1024  # bytes of the ends of children that an attempt remembers


class Skipped(Struct, frozen=True, array_like=True):
    """An item that `each` passed over: its index, and what its function raised."""

    index: int
    error: str


class Walked(Struct, frozen=True, omit_defaults=True):
    """The progress of `each`."""

    done: int = 0
    """Items that are behind it, those it skipped included."""
    skips: int = 0
    """How many it skipped."""
    skipped: tuple[Skipped, ...] = ()
    """The first thousand of them."""


class Memory:
    """The saved values that one attempt has read, and the places in the code that it has passed."""

    __slots__ = ("_kept", "_places", "_spawned", "_used", "children", "ends", "saved")

    def __init__(self, saved: dict[str, bytes]) -> None:
        self.saved = saved
        self.ends: dict[str, bytes] = {}  # of children, by id, as far as they are small
        self._kept = 0  # bytes of these
        self._spawned = set(saved.get(SPAWNED, b"").decode().splitlines())
        self.children: list[tuple[str, str]] = []  # id and kind of those that the job was submitted with
        self._used: set[str] = set()
        self._places: dict[str, int] = {}

    def has_spawned(self, place: str, count: int) -> bool:
        """Whether an earlier attempt has enqueued all jobs of a place in the code."""
        return whole_spawn(place, count) in self._spawned

    def note_ends(self, ends: dict[str, bytes]) -> None:
        """Ends of children never change within an attempt: another join need not ask for them."""
        for child, end in ends.items():
            if self._kept + len(end) <= MOST_ENDS and child not in self.ends:
                self.ends[child] = end
                self._kept += len(end)

    def use(self, name: str) -> None:
        if name in self._used:
            raise ValueError(
                f"step {name!r} is used twice in this attempt; give each step its own name, such as {name + ' 2'!r}"
            )
        self._used.add(name)

    def give_back(self, name: str) -> None:
        """Release the name of a step that raised: it may be tried again."""
        self._used.discard(name)

    def place(self, verb: str, name: str | None) -> str:
        """A place in the handler's code: by its name, else by how often the verb was called before."""
        if name is None:
            count = self._places[verb] = self._places.get(verb, 0) + 1
            return f"{OURS}{verb} {count}"
        check_name(name, "name")
        place = f"{OURS}{verb} {name}"
        if place in self._places:
            raise ValueError(f"name: {name!r} is used twice for {verb} in this attempt; give each its own name")
        self._places[place] = 1
        return place

    def join_number(self, attempt: int) -> str:
        """A number for each join, different in each attempt."""
        count = self._places["join"] = self._places.get("join", 0) + 1
        return f"{attempt}-{count}"

    def names(self) -> list[str]:
        """The steps and cursors that were saved, for people."""
        words = (name.removeprefix(OURS) for name in self.saved if name != SPAWNED)
        return sorted(word for word in words if word != SPAN and not word.startswith(("sleep ", "signal ")))


class Steps(AttemptFacts[Args, Opened]):
    """The methods that save values: each is JSON of at most 256 KB; all of a job share `max_step_bytes`."""

    __slots__ = ("_memory",)

    _memory: Memory | None

    async def ask(self, verb: str, *args: Any) -> Any:
        """Have the store do something under the fence of this attempt."""
        raise NotImplementedError

    async def awaited(self, given: Any) -> Any:
        """The result of a function of the handler, plain or async."""
        return await given if inspect.isawaitable(given) else given

    async def recall(self) -> Memory:
        """The saved values. An attempt reads them once, the first attempt not at all."""
        if self._memory is None:
            saved = await self.ask("recall") if self.number > 1 else {}
            if self._memory is None:  # another step may have asked at the same time, and have saved more since
                self._memory = Memory(saved)
        return self._memory

    @overload
    async def step(self, name: str, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    @overload
    async def step(self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    async def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """The result of `function(*args)`, called once and saved; later attempts get the saved value.

        A step that was under way when its worker died runs again: `idempotency_key(name)` is the same then. What the
        function raises is not saved. Raises as `progress` does; a `ValueError` when the name was used before in this
        attempt, when the result has over 256 KB, or when the job's steps have `max_step_bytes`; a `TypeError` when the
        result does not fit the annotation.
        """
        check_step(name)
        type, memory = returned_by(function), await self.recall()
        memory.use(name)
        if name in memory.saved:
            return from_value(f"the result of step {name!r}, saved by an earlier attempt,", memory.saved[name], type)
        try:
            with open_span(f"step {name}", {"tailrace.job.id": self.job.id, "tailrace.attempt": self.number}):
                result = await self.awaited(function(*args, **kwargs))
            what = f"the result of step {name!r}"
            value = to_value(what, result)
            given = from_value(what, value, type)
            await self.ask("save", name, value)
        except BaseException:
            memory.give_back(name)
            raise
        memory.saved[name] = value
        return given

    async def checkpoint(self, value: Any, *, name: str = "checkpoint") -> None:
        """Keep a value in place of the one before, for later attempts. Raises as `step` does."""
        check_name(name, "name")
        await self._keep(f"{OURS}checkpoint {name}", f"{name!r}", value)

    def checkpointed(self, type: type[T], *, name: str = "checkpoint") -> T | None:
        """The value that `checkpoint` kept last, in this attempt or an earlier one; None if there is none."""
        check_name(name, "name")
        kept = self._memory.saved.get(f"{OURS}checkpoint {name}") if self._memory else None
        return None if kept is None else from_value(f"{name!r}, kept before,", kept, type)

    async def each(
        self,
        items: Iterable[Item],
        function: Callable[[Item], Any],
        /,
        *,
        batch: int = 50,
        on_error: Literal["raise", "skip"] = "raise",
        name: str | None = None,
    ) -> Walked:
        """Call `function(item)` for each item, in order, and keep a cursor: later attempts go on where it stands.

        The cursor is saved after every `batch` items, and before an error is passed on: after a crash up to `batch`
        items run again. The items must come in the same order in every attempt. With `on_error="skip"` an item whose
        function raises is passed over, and named in the answer; what a handler raises to steer, such as `Delay`, is
        raised all the same.
        """
        if batch < 1:
            raise ValueError(f"batch: expected a number from 1, not {batch}")
        if on_error not in ("raise", "skip"):
            raise ValueError(f'on_error: expected "raise" or "skip", not {on_error!r}')
        memory = await self.recall()
        place = memory.place("each", name)
        kept = memory.saved.get(place)
        walked: Walked = Walked() if kept is None else from_value(f"the cursor {place!r}", kept, Walked)
        done, skips, skipped = walked.done, walked.skips, list(walked.skipped)

        async def save() -> Walked:
            nonlocal walked
            if done != walked.done:
                walked = Walked(done, skips, tuple(skipped))
                await self._keep(place, f"the cursor {place!r}", walked)
            return walked

        for item in islice(items, done, None):
            try:
                await self.awaited(function(item))
            except (Lost, Cancelled):
                raise
            except Exception as error:
                if on_error == "raise" or isinstance(error, Steers):
                    await save()
                    raise
                skips += 1
                if len(skipped) < MOST_SKIPPED:
                    reason = f"{type(error).__name__}: {said_by(error)}"
                    skipped.append(Skipped(done, reason[:LONGEST_REASON]))
            done += 1
            if done - walked.done >= batch:
                await save()
        return await save()

    async def _keep(self, place: str, what: str, given: Any) -> None:
        memory, value = await self.recall(), to_value(what, given)
        await self.ask("checkpoint", place, value)
        memory.saved[place] = value


def check_step(name: object) -> None:
    check_name(name)
    if str(name).startswith(OURS):
        raise ValueError(f"step: {name!r} begins with {OURS}, which is reserved for Tailrace")
