"""Accepts jobs: checks a submission, gives it an id and a fingerprint, and enqueues it once.

A call whose answer was lost may have been carried out. It is repeated under the same keys for a little while, because
the same key again is the same job. If it still fails, the error names the jobs that may exist.
"""

import asyncio
import base64
import hashlib
import os
import time
from asyncio import to_thread
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from tailrace.producers.flows import with_children
from tailrace.producers.kinds import ALL_KINDS, Kinds
from tailrace.producers.submissions import Submission, Submitted
from tailrace.streams.errors import AnswerLost, NoStore, OtherBody, Refused, StoreError, WrongField
from tailrace.streams.keys import check_key, check_word, join_id
from tailrace.streams.messages import Job, encode, plain_model
from tailrace.streams.policies import Platforms
from tailrace.streams.process.tracing import enabled, open_span, to_traceparent
from tailrace.streams.process.turns import Turns
from tailrace.streams.states import State
from tailrace.streams.store.fitness import Fitness
from tailrace.streams.transitions import Transitions

BATCH = 64  # plain jobs in one call: a millisecond of the server's time
LOOK_EVERY = 64  # jobs, of which each takes some ten microseconds of this process
LARGE = 64 * 1024  # bytes of args: to write them in order takes milliseconds too
WITH_OPTIONS = 4  # one with options takes the server as long as this many without
SIZE = 8 * 1024  # bytes of args that take it as long as another job
REPEAT_SECONDS = 2.0  # how long a call whose answer was lost is repeated; a caller waits for it
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 0.5


class Asked(NamedTuple):
    """A submission that was checked."""

    place: int  # in the answer
    job: Job
    fingerprint: str
    named_here: bool  # its key was made here: no earlier request can have used it


class Batch:
    """Submissions of one platform that go to the store in one call."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._work = 0  # of the server, in plain jobs

    def add(self, asked: Asked) -> None:
        self.asked.append(asked)
        self._work += (1 if asked.job.options.plain else WITH_OPTIONS) + len(asked.job.args) // SIZE

    @property
    def full(self) -> bool:
        return self._work >= BATCH


class Producer:
    """Accepts jobs; every job of a user is submitted through this class."""

    def __init__(
        self, transitions: Transitions, platforms: Platforms, fitness: Fitness | None = None, kinds: Kinds = ALL_KINDS
    ) -> None:
        """With `fitness`, no job is accepted while the store would lose it."""
        self._transitions = transitions
        self._platforms = platforms
        self._fitness = fitness
        self._kinds = kinds

    async def submit(self, submission: Submission) -> Submitted:
        """Accept a job. Raises `WrongField` or `OtherBody`, or a `StoreError` whose `job_ids` names it if it may exist.

        After any other error nothing was stored.
        """
        (answer,) = await self.submit_many([submission])
        if isinstance(answer, Refused):
            raise answer
        return answer

    async def submit_many(self, submissions: Sequence[Submission]) -> list[Submitted | Refused]:
        """Accept each valid submission; the others get their error in the answer, in the order given.

        Raises a `StoreError`; if any of the jobs may exist, its `job_ids` names all that were not refused.
        """
        if self._fitness and self._fitness.unfit:
            raise self._fitness.unfit
        if not enabled():
            return await self._accept(submissions)
        first = submissions[0] if len(submissions) == 1 else None
        name, parent = (f"submit {first.kind}", first.options.traceparent) if first else ("submit", None)
        with open_span(name, {"tailrace.jobs": len(submissions)}, parent, producer=True) as span:
            return await self._accept([traced(each, to_traceparent(span), alone=bool(first)) for each in submissions])

    async def _accept(self, submissions: Sequence[Submission]) -> list[Submitted | Refused]:
        answers: dict[int, Submitted | Refused] = {}
        ids: dict[int, str] = {}
        gathering: dict[str, Batch] = {}
        under_way: list[asyncio.Task[None]] = []
        errors: list[BaseException] = []
        turns = Turns()
        for index, submission in enumerate(submissions):
            if index % LOOK_EVERY == LOOK_EVERY - 1:
                await turns.give_way()
            try:
                job = self.check(submission) if not submission.children else await to_thread(self.check, submission)
            except Refused as refusal:
                answers[index] = refusal
                continue
            if len(job.args) > LARGE:
                await turns.give_way()
            batch = gathering.setdefault(job.platform, Batch())
            batch.add(Asked(index, job, fingerprint(job), submission.id is None))
            ids[index] = job.id
            # The store works on a full one while we check the next.
            if batch.full:
                del gathering[job.platform]
                under_way.append(asyncio.create_task(self._send(batch, answers, whole=True)))
                await asyncio.sleep(0)
        try:
            for batch in gathering.values():
                if not under_way:
                    await self._send(batch, answers)
                else:
                    under_way.append(asyncio.create_task(self._send(batch, answers, whole=True)))
        except StoreError as error:
            errors.append(error)
        errors += filter(None, await asyncio.gather(*under_way, return_exceptions=True))
        if errors:
            raise blamed(errors, answers, tuple(ids.get(index) for index in range(len(submissions))))
        return [answers[index] for index in range(len(submissions))]

    async def _send(self, batch: Batch, answers: dict[int, Submitted | Refused], *, whole: bool = False) -> None:
        """`whole`: others are under way, and a server that forgot the script would take them in another order."""
        jobs = [(asked.job, asked.fingerprint) for asked in batch.asked]
        try:
            words = await self._transitions.submit(jobs, whole=whole)
        except AnswerLost as error:
            words = await self._repeat(jobs, error)
        for asked, answer in zip(batch.asked, words, strict=True):
            answers[asked.place] = _answer(asked, answer)

    async def _repeat(self, jobs: Sequence[tuple[Job, str]], lost: AnswerLost) -> list[list[str]]:
        """Send the same call again until it is answered. Raises a `StoreError` that names the jobs: they may exist."""
        pause = FIRST_PAUSE
        error: StoreError = lost
        try:
            async with asyncio.timeout(REPEAT_SECONDS):
                while isinstance(error, NoStore):
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
                    try:
                        return await self._transitions.submit(jobs, whole=True)
                    except StoreError as again:
                        error = again
        except TimeoutError:
            pass
        error.job_ids = tuple(job.id for job, _ in jobs)
        raise error

    def check(self, submission: Submission) -> Job:
        """The job of a submission. Raises `WrongField` when it cannot be accepted."""
        job = self._check_alone(submission)
        return with_children(job, submission, self._check_alone) if submission.children else job

    def _check_alone(self, submission: Submission) -> Job:
        platform = self._platforms.known(submission.platform)
        if not submission.options.plain:  # what it says of attempts and times must fit the rest of the rules
            self._platforms[platform].retrying(submission.options)
        kind = check_word(submission.kind, "kind")
        self._kinds.check(kind, submission.args)
        key = new_key() if submission.id is None else check_key(submission.id)
        try:
            return Job(platform, key, kind, encode_args(submission.args), submission.options)
        except (TypeError, ValueError, RecursionError) as error:  # lone surrogates, objects of other kinds
            raise WrongField("args", f"cannot be written as JSON: {error}") from None


def traced(submission: Submission, traceparent: str | None, *, alone: bool) -> Submission:
    """A submission below this span, unless it is one of many and has a trace of its own."""
    if submission.options.traceparent and not alone:
        return submission
    return replace(submission, options=replace(submission.options, traceparent=traceparent))


def _answer(asked: Asked, words: list[str]) -> Submitted | Refused:
    job = asked.job
    if words[0] == "conflict":
        return OtherBody(job.id)
    if words[0] in {"duplicate", "replaced"}:
        return Submitted(join_id(job.platform, words[1]), State(words[2]), replayed=True, deduplicated=True)
    return Submitted(job.id, State(words[1]), words[0] == "again" and not asked.named_here)


def blamed(
    errors: Sequence[BaseException], answers: Mapping[int, Submitted | Refused], ids: tuple[str | None, ...]
) -> BaseException:
    """The error to raise. It names the jobs if any of them may exist: some were accepted, or an answer was lost."""
    unsure = [error for error in errors if isinstance(error, StoreError) and error.job_ids]
    error = unsure[0] if unsure else errors[0]
    if isinstance(error, StoreError) and (unsure or any(isinstance(each, Submitted) for each in answers.values())):
        error.job_ids = ids
    return error


encode_args = msgspec.json.Encoder(order="sorted", enc_hook=plain_model).encode
"""Equal bytes for equal args, whatever the order of their members: they are stored, and the fingerprint is of them."""


def fingerprint(job: Job) -> str:
    """Equal for the same request however its JSON was written; 16 characters, so that the record stays small."""
    options = replace(job.options, traceparent=None) if job.options.traceparent else job.options
    said = options.priority if options.plain else options  # as it was before there were other options
    whole = b"[%b,%b,%b]" % (encode(job.kind), job.args, encode_args(said))
    return base64.urlsafe_b64encode(hashlib.blake2b(whole, digest_size=12).digest()).decode()


def new_key() -> str:
    """A UUIDv7: unique, and sorted by the time it was made."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
