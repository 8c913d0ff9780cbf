"""The gateway's settings: where it listens, on top of which store and platforms."""

import sys
from ipaddress import ip_address
from typing import Self

from msgspec import Struct

from tailrace.gateway.access.api_keys import NO_KEYS, SETTING, Keys
from tailrace.gateway.access.limits import Caps
from tailrace.gateway.access.origins import read_origins
from tailrace.producers.kinds import Kinds
from tailrace.producers.settings import StreamsSettings
from tailrace.streams.errors import BadConfiguration
from tailrace.streams.process.settings import Environment

PROCESSES = "TAILRACE_GATEWAY_PROCESSES"
MOST_PROCESSES = 64
DRILL = "TAILRACE_DRILL"
NO_DRILL = Kinds({"drill": f"drill is switched off on this gateway; {DRILL}=on allows it"})


class GatewaySettings(Struct, frozen=True):
    """One gateway."""

    streams: StreamsSettings
    host: str = "127.0.0.1"  # HOST; without keys loopback, because every caller that reaches the gateway may use it
    port: int = 3989  # PORT; 0: any free one
    processes: int = 1  # TAILRACE_GATEWAY_PROCESSES; on this one port, each with its own clients and limits
    process: int = 0  # which of several this is, from 1 on; 0: the only one, or their parent
    ping_seconds: float = 15.0  # a comment on quiet streams, well under the idle limits of proxies
    grace_seconds: float = 8.0  # for open requests after SIGTERM; longer than a store that hangs keeps them waiting
    keys: Keys = NO_KEYS  # TAILRACE_API_KEYS; a request without one of them is refused
    drill: str = (
        "auto"  # TAILRACE_DRILL; on or off: whether drills are accepted, which can kill a worker; auto: no keys
    )
    origins: frozenset[str] = frozenset()  # TAILRACE_CORS_ORIGINS; other sites whose pages may read our answers
    caps: Caps = Caps()

    def __post_init__(self) -> None:
        if not self.keys and not is_loopback(self.host):
            raise BadConfiguration(
                f"HOST is {self.host!r}: the gateway has no API keys and serves this machine only; "
                f"use 127.0.0.1, ::1 or localhost, or set {SETTING}"
            )
        if not 0 <= self.port <= 65535:
            raise BadConfiguration(f"PORT is {self.port}; it must be a whole number from 0 to 65535")
        if not 1 <= self.processes <= MOST_PROCESSES:
            raise BadConfiguration(
                f"{PROCESSES} is {self.processes}; it must be a whole number from 1 to {MOST_PROCESSES}"
            )
        if self.processes > 1 and sys.platform != "linux":  # other systems do not share the connections of one port
            raise BadConfiguration(f"{PROCESSES} is {self.processes}; more than one needs Linux")

    @property
    def kinds(self) -> Kinds:
        """The kinds that this gateway accepts."""
        allowed = self.drill == "on" or (self.drill == "auto" and not self.keys)
        return self.streams.kinds if allowed or not self.streams.builtins else NO_DRILL

    @classmethod
    def read(
        cls,
        environment: Environment | None = None,
        *,
        host: str | None = None,
        port: int | None = None,
        processes: int | None = None,
    ) -> Self:
        """Read the environment; the arguments go before it."""
        env = environment or Environment()
        streams = StreamsSettings.read(env)
        try:
            return cls(
                streams=streams,
                host=host or env.text("HOST") or "127.0.0.1",
                port=env.whole("PORT", 3989, most=65535) if port is None else port,
                processes=env.whole(PROCESSES, 1, least=1, most=MOST_PROCESSES) if processes is None else processes,
                keys=NO_KEYS if (entries := env.secret(SETTING)) is None else Keys.read(entries, streams.platforms),
                drill=env.choice(DRILL, "auto", ("on", "off", "auto")),
                origins=read_origins(env.words("TAILRACE_CORS_ORIGINS")),
                caps=Caps.read(env),
            )
        except BadConfiguration as error:
            given = {"HOST": ("--host", host), "PORT": ("--port", port), PROCESSES: ("--processes", processes)}
            name, _, rest = str(error).partition(" ")
            flag, value = given.get(name, (name, None))
            if value is None:
                raise
            raise BadConfiguration(f"{flag} {rest}") from None


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
