"""Brings the jobs of one platform: claims while there is room, and sleeps when there is nothing.

A claim that finds too little lists this consumer as idle, and the store calls it by its bell when there is work. A
consumer that was called and has no room, or leaves, claims with no slots: that passes the call on. What changes by
itself is kept by hearts; a claim may also name a time, at which the reader looks again, so that nothing is late.
"""

import asyncio
import random
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from tailrace.consumers.runner import Runner
from tailrace.consumers.slots import Rooms
from tailrace.streams.operations import BrokenOperation, Operation, call, checked
from tailrace.streams.process.logs import get_logger
from tailrace.streams.replies import to_claims
from tailrace.streams.store.commit import LONGEST_PAUSE, Committer, Heard

log = get_logger()

MOST = 40  # slots that a claim offers: one or two milliseconds of the server's time
FEW = 8
"""Slots that a claim offers after a sleep. The store calls a sleeper for one job, and each slot that is offered costs a
nonce, so a lone job starts sooner; a claim that fills them all is followed by one that offers the rest."""


class Reader:
    """The claims of one platform."""

    def __init__(
        self,
        terms: Mapping[str, Any],
        rooms: Rooms,
        runner: Runner,
        committer: Committer,
        may_claim: Callable[[], bool],
        longest_sleep: float,
    ) -> None:
        """`terms`: what every claim says of its owner and its platform.

        `may_claim`: whether the owner's heart beats. After `longest_sleep` seconds it looks without being called.
        """
        self.terms = terms
        self._rooms = rooms
        self._runner = runner
        self._committer = committer
        self._may_claim = may_claim
        self._longest_sleep = longest_sleep
        self._hungry = False  # whether there may be something to claim
        self._held_back = True  # whether it was hungry when it must not claim; it is from the beginning
        self._stopped = self._refusing = False
        self._secret = secrets.token_hex(7)
        self._serial = 0
        self._listed = False  # whether the store may call this consumer
        self._asleep = False  # whether the last claim saw all there was, and was not told to come again at once
        self._timer: asyncio.TimerHandle | None = None  # rings when something changes by itself
        self.wanted: set[str] = set()  # nonces of the claims under way

    def stop(self) -> None:
        """Claim nothing more, and have others called."""
        self._stopped = True
        self._committer.nudge()

    def refuse(self) -> None:
        """Hand back the jobs that a claim under way still brings."""
        self._refusing = True

    def ring(self) -> None:
        """There may be something to claim."""
        self._hungry = True
        self._committer.nudge()

    def go_on(self) -> None:
        """Claim from now on, again or for the first time."""
        if self._held_back:
            self._held_back = False
            self.ring()

    def claim(self, settles: bool) -> tuple[Operation, Heard] | None:
        """The claim for the next call, if it may bring something or the call frees slots."""
        places, company = 0, "some"
        if (self._hungry or settles) and not self._stopped:
            if self._may_claim():
                places, company = self._rooms.take(self.ring, FEW if self._asleep and not settles else MOST)
            else:
                self._held_back = True
        passes_on = self._listed and (self._hungry or self._stopped)
        if not places and not settles and not passes_on:
            return None
        self._hungry = self._hungry and not places  # this claim will tell whether another is worth while
        self._listed = self._asleep = False
        nonces = [self._nonce() for _ in range(places)]
        self.wanted.update(nonces)
        operation = call.claim(company=company, nonces=" ".join(nonces), **self.terms)
        return operation, lambda answer: self._claimed(nonces, answer)

    def _nonce(self) -> str:
        """A unique fence: a random part of this reader, then a count."""
        self._serial += 1
        return f"{self._secret}-{self._serial:x}"

    def _claimed(self, nonces: list[str], answer: Any) -> None:
        self.wanted.difference_update(nonces)
        try:
            claims = to_claims(checked(answer))
        except BrokenOperation as error:
            log.error("claim_broken", owner=self.terms["owner"], error=str(error), retry_seconds=LONGEST_PAUSE)
            asyncio.get_running_loop().call_later(LONGEST_PAUSE, self.ring)
            claims, word = [], ""
        else:
            word = answer[1].decode()
            self._listed = len(claims) < len(nonces)
            self._asleep = self._listed and answer[0] != b"0"
            if self._listed:
                self._wind(int(answer[0]) / 1000 if answer[0] else None)
            elif nonces:
                self._hungry = True
        late = bool(claims) and not self._may_claim()  # the answer took longer than beats may fail
        self._held_back = self._held_back or late
        if self._refusing or late:
            for claimed in claims:
                self._runner.refuse(claimed)
            claims, word = [], ""
        for claimed in claims:
            self._runner.begin(claimed, alone=word == "alone")
        self._rooms.give(len(nonces) - len(claims))
        if nonces:
            self._rooms.answered(word, self.ring)

    def _wind(self, seconds: float | None) -> None:
        """Look again then, or after the longest sleep: not all platforms at the same moment."""
        if self._timer:
            self._timer.cancel()
        longest = self._longest_sleep * random.uniform(0.5, 1.0)
        soon = longest if seconds is None else min(seconds, longest)
        self._timer = asyncio.get_running_loop().call_later(soon, self.ring)
