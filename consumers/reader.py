"""Brings the jobs of one platform: claims while there is room, and sleeps on the platform's bell when there is nothing.

While it sleeps it owns nothing: XREAD on the bell can be cancelled or cut off at any time. The bell's id comes with the
claim that found too little, so a ring between that claim and the sleep is not missed.
"""

import asyncio
import secrets
from typing import Any

import structlog

from consumers.room import Rooms
from consumers.runner import Runner
from streams.commit import LONGEST_PAUSE, Committer, Heard
from streams.connection import Store
from streams.errors import StoreError
from streams.policies import Policy
from streams.reading import read_feed, to_claims
from streams.transitions import BrokenOperation, Operation, checked, claim

log = structlog.get_logger()


class Reader:
    """The claims of one platform."""

    def __init__(self, owner: str, deadline_seconds: float, policy: Policy, rooms: Rooms, runner: Runner) -> None:
        self._owner = owner
        self._deadline_seconds = deadline_seconds
        self._policy = policy
        self._rooms = rooms
        self._runner = runner
        self._hungry = False  # whether there may be something to claim: nobody has rung yet
        self._stopped = self._refusing = False
        self._secret = secrets.token_hex(7)
        self._serial = 0
        self._bell: str | None = None  # where to listen from, while there is nothing to claim
        self._timer: asyncio.TimerHandle | None = None  # rings when something changes by itself
        self._listen = asyncio.Event()
        self.wanted: set[str] = set()  # nonces of the claims under way
        self.committer: Committer | None = None  # set by the consumer: reader and committer need each other

    def stop(self) -> None:
        """Claim nothing more."""
        self._stopped = True

    def refuse(self) -> None:
        """Hand back whatever a claim that is still under way brings."""
        self._refusing = True

    def ring(self) -> None:
        """There may be something to claim."""
        self._hungry = True
        if self.committer:
            self.committer.nudge()

    def claim(self, settles: bool) -> tuple[Operation, Heard] | None:
        """What goes along with the next call: a claim, when it may bring something or the call frees slots."""
        places = 0
        if (self._hungry or settles) and not self._stopped:
            places = self._rooms.take(self.ring)
        if not places and not settles:
            return None
        self._hungry = self._hungry and not places  # this claim will tell whether another is worth while
        nonces = [self._nonce() for _ in range(places)]
        self.wanted.update(nonces)
        operation = claim(self._owner, self._deadline_seconds, self._policy, nonces)
        return operation, lambda answer: self._claimed(nonces, answer)

    def _nonce(self) -> str:
        """A fence that nobody else can have: a random part of this reader's own, then a count."""
        self._serial += 1
        return f"{self._secret}-{self._serial:x}"

    def _claimed(self, nonces: list[str], answer: Any) -> None:
        self.wanted.difference_update(nonces)
        try:
            claims = to_claims(checked(answer))
        except BrokenOperation as error:
            log.error("claim_broken", owner=self._owner, error=str(error), retry_seconds=LONGEST_PAUSE)
            asyncio.get_running_loop().call_later(LONGEST_PAUSE, self.ring)
            claims = []
        else:
            if len(claims) < len(nonces):
                self._bell = answer[0].decode()
                self._wind(int(answer[1]) / 1000 if answer[1] else None)
                self._listen.set()
            elif nonces:
                self._hungry = True
        for claimed in claims:
            if self._refusing:
                self._runner.refuse(claimed)
            else:
                self._runner.begin(claimed)
        self._rooms.give(len(nonces) - len(claims))

    def _wind(self, seconds: float | None) -> None:
        """Look again by itself then; a claim while somebody listens may bring an earlier time than the one before."""
        if self._timer:
            self._timer.cancel()
        self._timer = None if seconds is None else asyncio.get_running_loop().call_later(seconds, self.ring)

    async def listen(self, store: Store, bell_key: str, seconds: float) -> None:
        """Sleep on the bell whenever there is nothing to claim."""
        pause = 0.0
        async with store.blocking(seconds) as ears:
            while True:
                await self._listen.wait()
                if self._bell is None:
                    self._listen.clear()
                    continue
                try:
                    rung = await read_feed(ears, {bell_key: self._bell}, int(seconds * 1000))
                except StoreError:
                    pause = min(max(0.05, pause * 2), LONGEST_PAUSE)
                    await asyncio.sleep(pause)
                    rung = {bell_key: []}  # it may have rung while nobody listened
                else:
                    pause = 0.0
                if rung:
                    self._listen.clear()
                    self._bell = None
                    self.ring()
