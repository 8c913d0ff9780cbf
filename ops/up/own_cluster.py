"""A cluster of our own: several primaries on this machine, to try a cluster out and to test against one."""

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from msgspec import Struct
from msgspec import json as msgspec_json

from tailrace.ops.up.own_store import Ownership, OwnStore, free_port, make_folder, open_private, tell_others
from tailrace.streams.errors import NoStore, TailraceError

if TYPE_CHECKING:
    import redis

SLOTS = 16384
FORM_SECONDS = 30.0  # a primary serves two seconds after its start, when it has heard of the others
NODE_TIMEOUT_MS = 2000  # how long the others wait for a node that does not answer


class Facts(Struct):
    """The facts that a cluster keeps from one start to the next."""

    password: str
    ports: list[tuple[int, int]]  # of each node, for clients and for the other nodes


class OwnCluster:
    """`with OwnCluster(folder, 3) as cluster: … cluster.url …`. The nodes listen on loopback, with a password."""

    def __init__(
        self,
        folder: Path,
        primaries: int = 3,
        *,
        replicas: int = 0,
        server: Path | None = None,
        extra_args: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`replicas`: of each primary."""
        self.folder = folder.absolute()
        self.settings = settings or {}
        self.primaries = primaries
        self._count = primaries * (1 + replicas)
        self._server = server
        self._extra_args = extra_args
        self._ownership = Ownership(self.folder)
        self._facts = Facts("", [])
        self.nodes: list[OwnStore] = []  # the first primaries, then their replicas

    @property
    def server(self) -> Path:
        return self.nodes[0].server

    @property
    def password(self) -> str:
        return self._facts.password

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"redis+cluster://:{self._facts.password}@{hosts}"

    def start(self) -> Self:
        """Start the nodes and wait until every slot is served. Raises `NoStore` with the reason."""
        make_folder(self.folder)
        self._ownership.take()
        try:
            self._start_nodes()
            self._form()
            tell_others(self.folder, self.url, self.settings)
        except BaseException:
            self.stop()
            raise
        return self

    def _start_nodes(self) -> None:
        self._facts = self._read_facts()
        secret = self.folder / "cluster.conf"
        with open_private(secret, "w") as file:
            file.write(f"requirepass {self._facts.password}\nmasterauth {self._facts.password}\n")
        args = ["--cluster-enabled", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT_MS), "--include", str(secret)]
        args += ["--cluster-require-full-coverage", "no"]  # else one node that is down stops the others
        args += ["--repl-diskless-sync-delay", "0"]  # else a young replica never takes over
        for number, (port, bus) in enumerate(self._facts.ports, 1):
            more = [*args, "--cluster-port", str(bus), *self._extra_args]
            node = OwnStore(self.folder / f"node-{number}", server=self._server, port=port, extra_args=more)
            self.nodes.append(node)
            node.start()

    def _read_facts(self) -> Facts:
        """The facts of the last start, with other ports where another program has taken one."""
        kept = self.folder / "cluster.json"
        try:
            facts = msgspec_json.decode(kept.read_bytes(), type=Facts)
        except (OSError, ValueError):
            facts = Facts(secrets.token_urlsafe(24), [])
        if facts.ports and len(facts.ports) != self._count:
            raise NoStore(f"{self.folder} holds a cluster of {len(facts.ports)} nodes; name another folder with --data")
        ports: list[int] = [port for pair in facts.ports for port in pair] or [0] * (2 * self._count)
        free = [free_or_other(port) for port in ports]
        facts.ports = list(zip(free[::2], free[1::2], strict=True))
        with open_private(kept, "w") as file:
            file.write(json.dumps({"password": facts.password, "ports": facts.ports}) + "\n")
        return facts

    def _form(self) -> None:
        """Have the nodes meet, and give each primary its share of the slots if it has none."""
        first = self.nodes[0]
        for node, (port, bus) in zip(self.nodes, self._facts.ports, strict=True):
            if node is not first:
                self.ask(first, "CLUSTER", "MEET", "127.0.0.1", port, bus)
        self._wait("know each other", lambda node: self.fact(node, "cluster_known_nodes") == str(self._count))
        share = SLOTS / self.primaries
        for number, node in enumerate(self.nodes):
            own = self.line_of(node)
            if "slave" in own[2] or len(own) > 8:
                continue  # it was formed before
            if number < self.primaries:
                first_slot, last_slot = round(number * share), round((number + 1) * share) - 1
                self.ask(node, "CLUSTER", "ADDSLOTSRANGE", first_slot, last_slot)
            else:
                self.ask(node, "CLUSTER", "REPLICATE", self.id_of(self.nodes[number % self.primaries]))
        self._wait("serve every slot", lambda node: self.fact(node, "cluster_state") == "ok")
        self._wait("see all primaries", lambda node: self.fact(node, "cluster_size") == str(self.primaries))

    def _wait(self, what: str, holds: Callable[[OwnStore], bool]) -> None:
        patience = time.monotonic() + FORM_SECONDS
        for node in self.nodes:
            while not holds(node):
                if time.monotonic() > patience:
                    raise NoStore(f"the nodes in {self.folder} do not {what} after {FORM_SECONDS:g} s; see {node.log}")
                time.sleep(0.02)

    def fact(self, node: OwnStore, name: str) -> str:
        """A line of CLUSTER INFO."""
        lines = str(self.ask(node, "CLUSTER", "INFO")).splitlines()
        return next((line.partition(":")[2] for line in lines if line.startswith(f"{name}:")), "")

    def line_of(self, node: OwnStore) -> list[str]:
        """The node's own line of CLUSTER NODES: its id, its address, its flags …; from the ninth on its slots."""
        lines = str(self.ask(node, "CLUSTER", "NODES")).splitlines()
        return next(line.split() for line in lines if "myself" in line)

    def id_of(self, node: OwnStore) -> str:
        return str(self.ask(node, "CLUSTER", "MYID"))

    def ask(self, node: OwnStore, *command: object) -> object:
        """The answer of one node."""
        import redis  # not above: every `up` would wait for it

        with redis.Redis(port=node.port or 0, password=self._facts.password, decode_responses=True) as client:
            return raw(client, *command)

    def flush(self) -> None:
        """Remove every key."""
        for node in self.nodes:
            if "master" in self.line_of(node)[2]:
                self.ask(node, "FLUSHALL")

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()
        self.nodes = []
        (self.folder / "store.json").unlink(missing_ok=True)
        self._ownership.give_back()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def raw(client: "redis.Redis", *command: object) -> object:
    """The answer of a server as it is, which redis-py would take apart."""
    connection = client.connection_pool.get_connection()
    try:
        connection.send_command(*command)  # type: ignore[no-untyped-call]
        return connection.read_response()
    finally:
        client.connection_pool.release(connection)


def free_or_other(port: int) -> int:
    try:
        return free_port(port)
    except TailraceError:
        return free_port(0)
