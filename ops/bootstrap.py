"""Makes `.venv` in a fresh checkout, with the standard library alone, and goes on inside it."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

CHECKOUT = Path(__file__).resolve().parent.parent

UNFINISHED = "unfinished"


def enter_environment(command: str) -> None:
    """Return when `command` can run in this Python; else make or mend `.venv` and start again inside it."""
    if not is_checkout():
        return  # installed: the packages came with it
    environment = VirtualEnvironment(CHECKOUT, tools=command in ("check", "test"))
    if environment.is_ours() and environment.is_this_python():
        if environment.is_ready():
            return
    elif is_installed(*required(CHECKOUT, *(["test"] if environment.tools else []))):
        return
    try:
        if not environment.is_ready():
            environment.make_ready()
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        give_up(1, f".venv could not be made: {error}.")
    os.execv(environment.python, [str(environment.python), *sys.orig_argv[1:]])


def is_checkout() -> bool:
    return (CHECKOUT / "pyproject.toml").exists()


def required(checkout: Path, *extras: str) -> list[str]:
    """The packages that pyproject.toml names, with those of these extras."""
    import tomllib  # not above: help does not need it

    project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    lines = [*project.get("dependencies", ())]
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    return [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in lines]


def is_installed(*packages: str) -> bool:
    """Whether this Python has all of them; a project that names none says nothing about it."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return bool(packages) and all(map(version, packages))
    except PackageNotFoundError:
        return False


def require_checkout() -> Path:
    if not is_checkout():
        give_up(78, "tests and checks need the source: run `python3 -m ops test` in a checkout.")
    return CHECKOUT


class VirtualEnvironment:
    """The `.venv` of a checkout.

    Its stamp says for which folder it was made, with which extras and, by its time, from which pyproject.toml. A
    `.venv` without one was made by `uv run` or by hand: it is completed, not thrown away, if it can be.
    """

    def __init__(self, checkout: Path, *, tools: bool) -> None:
        """With `tools` it has those of the tests and checks too; everything else runs without them."""
        self.tools = tools
        self.extras = "embedded,test" if tools else "embedded"
        self.project = checkout / "pyproject.toml"
        self.folder = (checkout / ".venv").resolve()
        self.python = self.folder / "bin" / "python"
        self.stamp = self.folder / "tailrace.stamp"

    def is_this_python(self) -> bool:
        return Path(sys.prefix).resolve() == self.folder

    def is_ours(self) -> bool:
        return self.stamp.exists()

    def is_ready(self) -> bool:
        if not self.is_ours():
            names = required(self.project.parent, *self.extras.split(","))
            return self.runs(f"from importlib.metadata import version; [version(name) for name in {names}]")
        _, installed = self.stamped()
        is_new = self.stamp.stat().st_mtime >= self.project.stat().st_mtime
        return self.is_usable() and is_new and installed.startswith(self.extras)

    def is_usable(self) -> bool:
        """Whether packages can be installed into it; else it is made again."""
        if not self.is_ours():
            return self.runs("pass" if shutil.which("uv") else "import pip")
        if not self.python.exists():
            return False
        if self.stamped()[0] != str(self.folder):
            return False  # interrupted, or copied here from elsewhere
        # An upgrade of the system may have put another Python behind `.venv/bin/python`.
        return not self.is_this_python() or (self.folder / "lib" / f"python{python_version()}").is_dir()

    def stamped(self) -> tuple[str, str]:
        """The folder it was made for, and the extras that are installed."""
        folder, _, extras = self.stamp.read_text().partition("\n")
        return folder, extras

    def runs(self, code: str) -> bool:
        try:
            subprocess.run([self.python, "-I", "-c", code], capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return False
        return True

    def make_ready(self) -> None:
        with self.locked() as lock:
            if self.is_ready():
                return  # another command made it while we waited
            if not self.is_usable():
                self.create(lock)
            self.install(lock)

    @contextmanager
    def locked(self) -> Iterator[int]:
        """One at a time. The installer inherits the lock, and so keeps it when we are killed."""
        with self.project.open("r+b") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("waiting for another command, which is making .venv")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield lock.fileno()

    def create(self, lock: int) -> None:
        uv = shutil.which("uv")
        if not uv and not brings_pip():
            give_up(
                78,
                "this Python cannot make a virtual environment: install the package python3-venv "
                f"(or python{python_version()}-venv), then run the same command again.",
            )
        say(f"making .venv with Python {python_version()}")
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.folder.mkdir()
        self.stamp.write_text(UNFINISHED)
        # Not sys.executable: that may be the one in the folder just removed.
        base = getattr(sys, "_base_executable", sys.executable)
        if uv:
            work([uv, "venv", "--allow-existing", "--python", base, str(self.folder)], lock)
        else:
            work([base, "-I", "-m", "venv", str(self.folder)], lock)

    def install(self, lock: int) -> None:
        started = time.time()
        say(f"installing the packages named in pyproject.toml{', and the tools for tests' if self.tools else ''}, once")
        self.stamp.write_text(UNFINISHED)
        uv = shutil.which("uv")
        if uv:
            installer = [uv, "pip", "install", "--python", str(self.python)]
        else:
            quiet = ["--no-input", "--disable-pip-version-check"]
            installer = [str(self.python), "-I", "-m", "pip", "install", *quiet]
        work([*installer, "--editable", f"{self.project.parent}[{self.extras}]"], lock)
        self.stamp.write_text(f"{self.folder}\n{self.extras}")
        os.utime(self.stamp, (started, started))  # a pyproject.toml changed meanwhile is newer
        count = len(list(self.folder.glob("lib/python*/site-packages/*.dist-info")))
        say(f"installed {count} packages in {time.time() - started:.0f} s")


def work(command: list[str], lock: int) -> None:
    """Run a command without its output; a failure shows the last lines."""
    result = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        pass_fds=[lock],
    )
    if result.returncode:
        for line in result.stdout.splitlines()[-12:]:
            say("  " + line)
        give_up(1, f"`{' '.join(command[:5])} …` failed as shown above; mend that, then run the same command again.")


def brings_pip() -> bool:
    """Whether this Python can put pip into a virtual environment; Debian's cannot."""
    try:
        import ensurepip
        import venv  # noqa: F401

        return bool(ensurepip.version())
    except Exception:
        return False


def python_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def give_up(code: int, sentence: str) -> NoReturn:
    say(f"tailrace: {sentence}")
    sys.exit(code)
