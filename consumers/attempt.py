"""One try at a job: what a handler holds, in the loop or, without `await`, in a thread or a process."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, Generic, cast

import msgspec
from typing_extensions import TypeVar

from tailrace.consumers.outcomes import said_by
from tailrace.streams.errors import Cancelled, Lost
from tailrace.streams.history.events import event_body
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Claim, Job, Step, encode
from tailrace.streams.operations import Operation, call, checked, word
from tailrace.streams.policies import Policy
from tailrace.streams.replies import to_steps
from tailrace.streams.states import Status

Args = TypeVar("Args")
Opened = TypeVar("Opened", default=Any)

LARGEST_EVENT = 1024 * 1024  # data over 1 MB does not go into the store
LONGEST_STEP = 64
LARGEST_NUMBER = 2**53 - 1  # that a browser takes exactly

LARGEST_HISTORY = 16 * 1024 * 1024  # what one attempt may report in all: a history is for people to read

Say = Callable[[Operation, Callable[[Any], None]], None]
Tell = Callable[[Step, int | None, str | None, Any], None]


class AttemptFacts(Generic[Args, Opened]):
    """What every handler may know of its attempt."""

    __slots__ = ("args", "claim", "job", "state", "worker")

    def __init__(self, job: Job, claim: Claim, args: Args, worker: str) -> None:
        self.job = job
        self.claim = claim
        self.args = args
        self.worker = worker
        self.state = cast(Opened, None)  # what `Handlers(lifespan=…)` opened in this process

    @property
    def number(self) -> int:
        return self.claim.number

    @property
    def failures(self) -> int:
        """Of the attempts before."""
        return self.claim.failures

    @property
    def fence(self) -> str:
        return self.claim.nonce

    def idempotency_key(self, name: str) -> str:
        """The same for every attempt at this job: hand it to the outside world to make a repeated call harmless."""
        return f"{self.job.id}/{name}"


class SyncAttempt(AttemptFacts[Args, Opened]):
    """The same as `Attempt`, without `await`: each call waits until the store has answered."""

    __slots__ = ("_tell",)

    def __init__(self, job: Job, claim: Claim, args: Args, worker: str, tell: Tell) -> None:
        super().__init__(job, claim, args, worker)
        self._tell = tell

    def progress(self, step: Step, of: int | None = None, message: str | None = None, data: Any = None) -> None:
        """Show a step as `Attempt.progress` does. Raises `Cancelled` if its time is up or the consumer leaves."""
        self._tell(step, of, message, data)


class Attempt(AttemptFacts[Args, Opened]):
    """An attempt as its handler sees it.

    Everything it writes carries its fence. When the job was taken over by another attempt, or has ended, the next
    write raises `Lost` and leaves no trace.
    """

    __slots__ = (
        "_answer",
        "_keys",
        "_reported",
        "_reports",
        "_rules",
        "_saved",
        "_say",
        "_shown",
        "_steps",
        "_turns",
        "refused",
    )

    def __init__(self, claim: Claim, args: Args, worker: str, keys: PlatformKeys, rules: Policy, say: Say) -> None:
        super().__init__(Job(keys.platform, claim.key, claim.kind, claim.args), claim, args, worker)
        self.refused = 0  # writes that came after the job was taken over
        self._keys = keys
        self._rules = rules
        self._say = say
        self._reports = 0
        self._reported = 0  # bytes
        self._shown: set[Step] | None = None
        self._saved: dict[str, bytes] | None = None  # what steps gave, once that was asked for
        self._steps: set[str] = set()  # whose function runs, or whose result is on its way to the store
        self._answer: asyncio.Future[Any] | None = None  # to the operation on its way to the store: one at a time
        self._turns: tuple[asyncio.Future[None], ...] = ()  # of those that wait until the store has answered

    async def progress(self, step: Step, of: int | None = None, message: str | None = None, data: Any = None) -> None:
        """Show a step to those who watch the job. A second report of the same step by this attempt is not shown.

        `step` is a number from 0, up to `of` where that is said, or a name. What cannot be shown is a `TypeError` or a
        `ValueError` that names the argument, and nothing is sent; a job with `max_events` events is a `ValueError` too.
        Raises `Lost` when this attempt no longer owns its job, `Cancelled` when the job was asked to stop. Waits while
        the store is unavailable.
        """
        check_report(step, of, message)
        if self._shown is None:
            self._shown = set()
        elif step in self._shown:
            return
        more = {name: value for name, value in (("of", of), ("message", message), ("data", data)) if value is not None}
        try:
            event = event_body(self.number, Status.PROGRESS, self.worker, step, **more)
        except Exception as error:  # encoding runs code of the data's own types
            raise unwritable("data", error) from error
        if len(event) > LARGEST_EVENT:
            raise ValueError(f"the report of step {step} has {len(event)} bytes; at most 1 MB goes into the store")
        self._reported += len(event)
        if self._reported > LARGEST_HISTORY:
            raise ValueError("the reports of one attempt have over 16 MB in all; report less, or less often")
        self._shown.add(step)
        if self.busy:
            await self.quiet()
        self._reports += 1  # numbered only when it is sent
        key, fence, most = self.claim.key, self.claim.nonce, self._rules.max_events
        said = call.report(self._keys, key=key, nonce=fence, number=self._reports, most=most, event=event)
        if self._allowed(await self._sent(said, self._written)) == "full":
            self._shown.discard(step)
            raise ValueError(
                f"job {self.job.id} has {most} events, as many as max_events of its platform allows; "
                f"step {step!r} is not shown: report less often, or raise max_events"
            )

    async def step(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """What `function(*args)` gives, as JSON has it: called once and saved, later attempts at the job get the same.

        A step that was under way when its worker died runs again: `idempotency_key(name)` is the same then. Raises as
        `progress` does, and `ValueError` when a step of this name is under way in this attempt, or when the job's steps
        have `max_step_bytes`; what the function itself raises is not saved.
        """
        check_name(name)
        if self._saved is None:
            recalled = await self._recall()
            if self._saved is None:  # another step may have asked at the same time, and have saved more since
                self._saved = recalled
        if name not in self._saved:
            if name in self._steps:
                raise ValueError(f"step {name!r} is under way in this attempt; give each step its own name")
            self._steps.add(name)
            try:
                self._saved[name] = await self._do(name, function, args)
            finally:
                self._steps.discard(name)
        return msgspec.json.decode(self._saved[name])

    async def _do(self, name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> bytes:
        """Call the function of a step and save what it gives."""
        result = function(*args)
        if inspect.isawaitable(result):
            result = await result
        try:
            value = encode(result)
        except Exception as error:  # encoding runs code of the result's own types
            raise unwritable(f"the result of step {name!r}", error) from error
        if len(value) > LARGEST_EVENT:
            raise ValueError(f"step {name!r} gave {len(value)} bytes; at most 1 MB goes into the store")
        await self.quiet()
        most = self._rules.max_step_bytes
        said = call.save(self._keys, key=self.job.key, nonce=self.fence, most=most, name=name, value=value)
        if self._allowed(await self._sent(said, self._written)) == "full":
            raise ValueError(
                f"the steps of job {self.job.id} have all of the {most} bytes that max_step_bytes of "
                f"its platform allows; step {name!r} is not saved: save less, or raise max_step_bytes"
            )
        return value

    async def _recall(self) -> dict[str, bytes]:
        if self.number == 1:
            return {}
        saved: dict[str, bytes] = {}
        cursor = "0"
        while cursor:
            await self.quiet()
            said = call.recall(self._keys, key=self.job.key, nonce=self.fence, cursor=cursor)
            part = to_steps(checked(await self._sent(said, self._answered)))
            if part is None:
                raise Lost(self.job.id, self.number)
            cursor, steps = part
            saved |= steps
        return saved

    def _sent(self, operation: Operation, heard: Callable[[Any], None]) -> asyncio.Future[Any]:
        """Send an operation under the fence; nothing else is on its way. The future brings the answer.

        `heard` gets the answer as well, also when the handler was cancelled and does not wait for it any more.
        """
        answer = self._answer = asyncio.get_running_loop().create_future()
        self._say(operation, heard)
        return answer

    def _written(self, answer: Any) -> None:
        if answer == b"lost":
            self.refused += 1
        self._answered(answer)

    def _answered(self, answer: Any) -> None:
        waiting, self._answer = self._answer, None
        turns, self._turns = self._turns, ()
        for turn in turns:
            if not turn.done():
                turn.set_result(None)
        if waiting and not waiting.done():
            waiting.set_result(answer)

    def _allowed(self, answer: Any) -> str:
        """What the store answers. Raises `Lost` or `Cancelled` when this attempt has to stop."""
        said = word(answer)
        if said == "lost":
            raise Lost(self.job.id, self.number)
        if said == "cancelled":
            raise Cancelled(self.job.id, self.number)
        return said

    @property
    def busy(self) -> bool:
        """Whether an operation of it has not been answered."""
        return self._answer is not None

    async def quiet(self) -> None:
        """Wait until all operations sent so far are answered: one that is sent again must not be overtaken."""
        while self.busy:
            turn = asyncio.get_running_loop().create_future()
            self._turns = (*self._turns, turn)
            await turn


def check_report(step: object, of: object, message: object) -> None:
    """Refuse what no client could show."""
    if isinstance(step, str):
        check_name(step)
    elif isinstance(step, bool) or not isinstance(step, int):
        raise TypeError(f"step: expected a whole number or a name, not {type(step).__name__}")
    elif not 0 <= step <= LARGEST_NUMBER:
        raise ValueError(f"step: expected a number from 0 to {LARGEST_NUMBER}, not {shortened(step)}")
    if of is not None:
        if isinstance(of, bool) or not isinstance(of, int):
            raise TypeError(f"of: expected a whole number or None, not {type(of).__name__}")
        if not 1 <= of <= LARGEST_NUMBER:
            raise ValueError(f"of: expected a number from 1 to {LARGEST_NUMBER}, not {shortened(of)}")
        if isinstance(step, int) and step > of:
            raise ValueError(f"step: {step} is beyond of={of}")
    if message is not None:
        if not isinstance(message, str):
            raise TypeError(f"message: expected a string or None, not {type(message).__name__}")
        check_text(message, "message")


def check_name(step: str) -> None:
    if not isinstance(step, str) or not 0 < len(step) <= LONGEST_STEP:
        raise ValueError(f"step: a name has 1 to {LONGEST_STEP} characters")
    check_text(step, "step")


def check_text(text: str, name: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{name}: half of a surrogate pair is not text") from None


def shortened(number: int) -> str:
    """A number of any size, for a sentence."""
    return str(number) if abs(number) < 10**20 else f"one of {number.bit_length()} bits"


def unwritable(argument: str, error: Exception) -> Exception:
    """The same error for the handler, naming the argument."""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"{argument}: cannot be written as JSON: {said_by(error)}")
