"""The command line itself: help at once, exit codes, and one sentence instead of a traceback."""

import argparse
import os
import subprocess
import sys
import types
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from tailrace.ops.__main__ import main, parse, words_of
from tailrace.ops.bootstrap import CHECKOUT, required
from tailrace.ops.commands import COMMANDS, GROUPS
from tailrace.ops.hints import command
from tailrace.streams.errors import BadConfiguration, JobNotFound, NoStore
from tests.ops.commands import environment

MOST_IMPORTED = 200  # modules; `import redis` alone brings more


def tailrace(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command, told = [sys.executable, "-m", "ops", *words], {**os.environ, **variables}
    return subprocess.run(command, cwd=CHECKOUT, env=told, capture_output=True, text=True, check=False)


@pytest.fixture
def running_does(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[argparse.Namespace], int]], None]:
    """Put a body of our own behind `tailrace running`."""

    def put(body: Callable[[argparse.Namespace], int]) -> None:
        module = types.ModuleType("tailrace.ops.cli.running")
        monkeypatch.setattr(module, "run", body, raising=False)
        monkeypatch.setitem(sys.modules, "tailrace.ops.cli.running", module)

    return put


def test_help_names_every_command_and_answers_at_once() -> None:
    result = tailrace("--help", PYTHONPROFILEIMPORTTIME="1")  # says on stderr what is imported
    assert result.returncode == 0
    assert all(f"    {name}" in result.stdout for name in COMMANDS)
    imported = [line.rpartition("|")[2].strip() for line in result.stderr.splitlines()]
    assert len(imported) < MOST_IMPORTED, imported


def test_reading_the_command_line_imports_no_package() -> None:
    code = "import sys; from tailrace.ops.__main__ import parse; parse(['running']); print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    ours = {name.replace("_", "-") for name in required(CHECKOUT)}
    packages = {
        module
        for module, names in metadata.packages_distributions().items()
        if ours & {name.replace("_", "-") for name in names}
    }
    assert {"anyio", "redis"} < packages
    assert not {*packages, "tailrace.streams"} & set(result.stdout.split())


def test_the_version_is_that_of_the_package() -> None:
    result = tailrace("--version")
    assert (result.returncode, result.stdout) == (0, f"tailrace {metadata.version('tailrace')}\n")


def test_a_bare_command_prints_help_in_groups() -> None:
    result = tailrace()
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == tailrace("--help").stdout
    titles = [line for line in result.stdout.splitlines() if line.endswith(":")]
    assert titles == [f"{title}:" for title in GROUPS]
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS), "each stands in one group"


def test_a_mistyped_command_is_answered_with_the_nearest() -> None:
    result = tailrace("sumbit", "research", "drill")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.endswith("there is no command sumbit; did you mean submit?\n")
    assert tailrace("fly").stderr.endswith("there is no command fly; `tailrace --help` lists them\n")


@pytest.mark.parametrize(
    "words", [("--bogus",), ("fly",), ("running", "now"), ("up", "--port", "x"), ("running", "--js")]
)
def test_a_wrong_line_is_a_usage_error(words: tuple[str, ...]) -> None:
    result = tailrace(*words)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("usage: tailrace")


@pytest.mark.parametrize(("role", "package"), [("gateway", "tailrace.gateway"), ("consume", "tailrace.consumers")])
def test_the_help_of_a_role_tells_what_the_role_itself_tells(role: str, package: str) -> None:
    module = [sys.executable, "-m", package, "--help"]
    own = subprocess.run(module, cwd=CHECKOUT, env=environment(), capture_output=True, text=True, check=True).stdout
    usage, _, flags = own.partition("\n\n")
    told = tailrace(role, "--help").stdout
    assert told.partition("\n\n")[0] == usage
    assert told.partition("\n\n")[2].partition("\n\n")[2] == flags.partition("\n\n")[2]


def test_every_argument_is_explained() -> None:
    for each in COMMANDS.values():
        assert all(settings.get("help") for _, settings in each.arguments)


def test_a_wrong_flag_of_a_role_is_answered_with_the_usage_of_that_role() -> None:
    for role in ("gateway", "consume"):
        result = tailrace(role, "--bogus")
        assert result.returncode == 2
        assert result.stderr.startswith(tailrace(role, "--help").stdout.partition("\n\n")[0])


def test_a_role_gets_what_was_typed_for_it() -> None:
    assert words_of(parse(["gateway", "--port", "0", "--processes=2"])) == ["--port=0", "--processes=2"]
    assert words_of(parse(["consume", "ably", "--handlers", "mine", "kurly"])) == ["ably", "kurly", "--handlers=mine"]
    assert words_of(parse(["consume", "--reload", "ably"])) == ["ably", "--reload"]
    assert words_of(parse(["consume"])) == []


def test_show_says_why_it_waits() -> None:
    said = " ".join(tailrace("show", "--help").stdout.split())
    assert "this takes some seconds, because it watches the consumers" in said


@pytest.mark.parametrize(
    ("data", "typed"),
    [(".tailrace", ""), ("/a/b", " --data /a/b"), ("my data", " --data 'my data'")],
)
def test_a_command_to_try_next_names_the_folder_unless_it_is_the_default(data: str, typed: str) -> None:
    assert command("show JOB", Path(data)) == f"python3 -m ops show JOB{typed}"


def test_options_of_pytest_pass_through() -> None:
    assert parse(["test", "-k", "store", "--durations=3", "tests/ops"]).rest == [
        "-k",
        "store",
        "--durations=3",
        "tests/ops",
    ]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NoStore("no store answers"), 69),
        (BadConfiguration("PORT is wrong"), 78),
        (JobNotFound("research.1"), 1),
        (ExceptionGroup("tasks", [ExceptionGroup("tasks", [NoStore("no store answers")])]), 69),
    ],
)
def test_what_a_person_can_mend_is_one_sentence(
    error: Exception,
    code: int,
    running_does: Callable[[Callable[[argparse.Namespace], int]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(options: argparse.Namespace) -> int:
        raise error

    running_does(fail)
    assert main(["running"]) == code
    said = capsys.readouterr().err
    assert said.startswith("tailrace: ")
    assert said.count("\n") == 1


def test_a_bug_keeps_its_traceback(running_does: Callable[[Callable[[argparse.Namespace], int]], None]) -> None:
    def fail(options: argparse.Namespace) -> int:
        raise ZeroDivisionError

    running_does(fail)
    with pytest.raises(ZeroDivisionError):
        main(["running"])


def test_an_interrupt_ends_without_a_word(
    running_does: Callable[[Callable[[argparse.Namespace], int]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(options: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    running_does(interrupt)
    assert main(["running"]) == 130
    assert capsys.readouterr().err == ""


def test_a_reader_that_leaves_early_is_no_error() -> None:
    code = """
import sys, types
module = types.ModuleType("tailrace.ops.cli.running")
def run(options):
    print("a long answer", flush=True)
    sys.stdin.readline()
    print("nobody reads this")
    return 0
module.run = run
sys.modules["tailrace.ops.cli.running"] = module
from tailrace.ops.__main__ import main
sys.exit(main(["running"]))
"""
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=CHECKOUT,
        env=buffered,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "a long answer\n"
    process.stdout.close()
    _, said = process.communicate("go on\n")
    assert (process.returncode, said) == (141, "")


def test_flags_may_stand_between_the_words() -> None:
    options = parse(["submit", "research", "drill", "--id", "a", '{"steps": 1}', "--follow"])
    assert (options.platform, options.kind, options.args, options.id) == ("research", "drill", '{"steps": 1}', "a")
    assert options.follow


def test_a_word_too_many_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        parse(["submit", "research", "drill", "--id", "a", "{}", "more"])
    assert left.value.code == 2
    assert "more" in capsys.readouterr().err
