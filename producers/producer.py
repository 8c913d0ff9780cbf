"""Accepting jobs: checks what was asked for, gives it an id and a fingerprint, and puts it in line once."""

import asyncio
import base64
import hashlib
import os
import time
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from producers.kinds import check_args
from streams.errors import OtherBody, Refused, WrongField
from streams.keys import check_key, check_word, join_id
from streams.messages import Job, encode
from streams.options import NO_OPTIONS, Options
from streams.policies import Platforms
from streams.states import State
from streams.transitions import Transitions

BATCH = 500  # jobs in one call: a few milliseconds of the server's time
WITH_OPTIONS = 4  # one with options takes the server as long as so many without

Batch = list[tuple[int, Job, str]]  # of one platform: place in the answer, job, fingerprint


class Submission(Struct, frozen=True):
    """What somebody asks for."""

    platform: str
    kind: str
    args: Any = {}  # decoded JSON
    id: str | None = None  # the caller's key; the same key again is the same job
    options: Options = NO_OPTIONS


class Submitted(Struct, frozen=True):
    """The answer: the job, where it is now, and whether it had been accepted before."""

    job_id: str
    state: State
    replayed: bool


class Producer:
    """The door through which every job comes in."""

    def __init__(self, transitions: Transitions, platforms: Platforms) -> None:
        self._transitions = transitions
        self._platforms = platforms

    async def submit(self, submission: Submission) -> Submitted:
        """Accept a job. Raises `WrongField`, `OtherBody` or `StoreFull`; then nothing was stored."""
        (answer,) = await self.submit_many([submission])
        if isinstance(answer, Refused):
            raise answer
        return answer

    async def submit_many(self, submissions: Sequence[Submission]) -> list[Submitted | Refused]:
        """Accept each valid one and say why not of each other, in the order given."""
        answers: dict[int, Submitted | Refused] = {}
        gathering: dict[str, Batch] = {}
        under_way: list[asyncio.Task[None]] = []
        for index, submission in enumerate(submissions):
            try:
                job, fingerprint = self._check(submission)
            except Refused as refusal:
                answers[index] = refusal
                continue
            batch = gathering.setdefault(job.platform, [])
            batch.append((index, job, fingerprint))
            # The store works on a full one while we check the next.
            if len(batch) >= (BATCH if job.options.plain else BATCH // WITH_OPTIONS):
                del gathering[job.platform]
                under_way.append(asyncio.create_task(self._send(batch, answers, whole=True)))
                await asyncio.sleep(0)
        for batch in gathering.values():
            if not under_way:
                await self._send(batch, answers)
            else:
                under_way.append(asyncio.create_task(self._send(batch, answers, whole=True)))
        for outcome in await asyncio.gather(*under_way, return_exceptions=True):
            if outcome is not None:
                raise outcome
        return [answers[index] for index in range(len(submissions))]

    async def _send(self, batch: Batch, answers: dict[int, Submitted | Refused], *, whole: bool = False) -> None:
        """`whole`: others are under way, and a server that forgot the script would take them in another order."""
        words = await self._transitions.submit([(job, fingerprint) for _, job, fingerprint in batch], whole=whole)
        for (index, job, _), answer in zip(batch, words, strict=True):
            answers[index] = _answer(job, answer)

    def _check(self, submission: Submission) -> tuple[Job, str]:
        platform = self._platforms.known(submission.platform)
        if not submission.options.plain:  # what it says of attempts and times must fit the rest of the rules
            self._platforms[platform].retrying(submission.options)
        kind = check_word(submission.kind, "kind")
        check_args(kind, submission.args)
        key = new_key() if submission.id is None else check_key(submission.id)
        try:
            job = Job(platform, key, kind, encode(submission.args), submission.options)
            return job, fingerprint(kind, submission.args, submission.options)
        except (TypeError, ValueError, RecursionError) as error:  # lone surrogates, objects of other kinds
            raise WrongField("args", f"cannot be written as JSON: {error}") from None


def _answer(job: Job, words: list[str]) -> Submitted | Refused:
    if words[0] == "conflict":
        return OtherBody(job.id)
    if words[0] in {"duplicate", "replaced"}:
        return Submitted(join_id(job.platform, words[1]), State(words[2]), replayed=True)
    return Submitted(job.id, State(words[1]), words[0] == "again")


_sorted = msgspec.json.Encoder(order="sorted").encode


def fingerprint(kind: str, args: Any, options: Options) -> str:
    """Equal for the same request however its JSON was written; 16 characters, so that the record stays small."""
    said = options.priority if options.plain else options  # as it was written before there were other options
    digest = hashlib.blake2b(_sorted([kind, args, said]), digest_size=12)
    return base64.urlsafe_b64encode(digest.digest()).decode()


def new_key() -> str:
    """A UUIDv7: unique, and sorted by the time it was made."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
