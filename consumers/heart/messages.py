"""Messages between a consumer and its heart: instructions at the start, news line by line, and goodbye."""

from collections.abc import Iterator

from msgspec import Struct

from tailrace.streams.keys import Keyspace
from tailrace.streams.policies import Policy
from tailrace.streams.store.replication import ReplicaTerms

GOODBYE = b"goodbye\n"
LEAVE_SECONDS = 2.0  # to tell the store that a consumer leaves; if that fails, others see its silence
MOST_NEWS = 15  # of each sort in one line


class MetricsAddress(Struct, frozen=True):
    """The address for Prometheus, and the shared memory with the consumer's counters."""

    host: str
    port: int
    page_fd: int


class Instructions(Struct, frozen=True):
    """The arguments of a heart."""

    url: str
    owner: str
    consumer_pid: int
    table_fd: int
    policies: dict[str, Policy]  # of each platform, in the order of their numbers in the table
    beat_seconds: float
    deadline_seconds: float
    reap_seconds: float
    obey_seconds: float
    lifeline_fd: int | None = None
    keyspace: Keyspace = Keyspace()
    metrics: MetricsAddress | None = None
    terms: ReplicaTerms = ReplicaTerms()


class News(Struct, frozen=True, omit_defaults=True):
    """News of a heart for its consumer; empty news is a sign of life."""

    lost: list[tuple[str, str]] = []  # platform, nonce: attempts that the consumer no longer owns
    stray: list[tuple[str, str, str]] = []  # platform, key, nonce: jobs the consumer owns and does not seem to run
    stop: list[tuple[str, str]] = []  # platform, nonce: attempts that were asked to stop
    restart: bool = False  # the consumers of a platform were asked to drain and leave

    def lines(self) -> Iterator["News"]:
        """News in pieces: a pipe takes up to 4 KB whole, or nothing."""
        for start in range(0, max(1, len(self.lost), len(self.stray), len(self.stop)), MOST_NEWS):
            piece = slice(start, start + MOST_NEWS)
            yield News(self.lost[piece], self.stray[piece], self.stop[piece], self.restart)
