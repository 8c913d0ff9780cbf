"""The house keeps its order: every transition whole, keys in one place, names that say something."""

import ast
import importlib
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tailrace.streams.functions import functions

ROOT = Path(__file__).parent.parent
PACKAGES = ("streams", "producers", "consumers", "gateway", "ops")
SOURCES = sorted(
    path for room in (*PACKAGES, "tests") for path in (ROOT / room).rglob("*") if path.suffix in {".py", ".lua", ".js"}
)
LUA = sorted((ROOT / "streams" / "functions").glob("*.lua"))
HEADER = re.compile(
    r"""--\ (?P<name>\w+):\ \S.*\n   # the first line: name and purpose
        --\ Script\ \ \w+\n
        (--\ Uses\ \ \w.*\n)?
        (--\ KEYS\ \ \w.*\n)?
        (--\ ARGV\ \ \w+\ .*\n (--\ \ .*\n)*)?
        (--\ Rules\ \ \w.*\n)?
        --\ Returns\ \ \S""",
    re.VERBOSE,
)


@pytest.fixture(params=LUA, ids=lambda path: path.stem)
def lua(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_a_transition_has_a_header_that_is_its_signature(lua: Path) -> None:
    header = HEADER.match(lua.read_text())
    assert header, f"{lua.name} does not begin with its name, KEYS, ARGV and Returns"
    assert header["name"] == lua.stem


def test_a_transition_has_a_test_file(lua: Path) -> None:
    assert (ROOT / "tests" / "functions" / f"test_{lua.stem}.py").exists()


def test_a_transition_has_a_row_in_the_readme(lua: Path) -> None:
    assert re.search(rf"^\|\s*`?{lua.stem}`?\s*\|", (ROOT / "streams" / "README.md").read_text(), re.MULTILINE)


def joins_of_key_names(path: Path) -> Iterator[int]:
    """The lines that write the namespace or join by colons: a key is `tr:{platform}:…`."""
    tree = ast.parse(path.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text), lineno=line) if id(node) not in docstrings:
                if re.search(r"\btr:", text):
                    yield line
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=":"), attr="join"), lineno=line):
                yield line
            case ast.BinOp(op=ast.Add(), right=ast.Constant(value=":"), lineno=line):
                yield line
            case ast.JoinedStr(values=parts, lineno=line):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)
                if re.search(r"{}\w*:{}", text) and "://" not in text:
                    yield line


def test_only_keys_py_joins_the_names_of_keys() -> None:
    joined = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in SOURCES
        if path.suffix == ".py" and "tests" not in path.parts and path != ROOT / "streams" / "keys.py"
        for line in joins_of_key_names(path)
    ]
    assert joined == []


WITHOUT_STORE = ("streams/keys.py", "consumers/testing.py", "ops/race/track.py", "ops/bench/workbench.py")


def test_keys_are_made_by_the_store_in_its_namespace() -> None:
    made = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        if path.suffix == ".py" and "tests" not in path.parts and "PlatformKeys(" in path.read_text()
    ]
    assert sorted(made) == sorted(WITHOUT_STORE), "these know their namespace: write store.keys(platform)"


MAY_SEND_COMMANDS = tuple(ROOT / room for room in ("streams", "ops/doctor", "ops/bench", "tests"))


def commands_sent(path: Path) -> Iterator[int]:
    """The lines that call a method `command` or `commands`; `launch.command` is a command line."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="launch"))):
                pass
            case ast.Call(func=ast.Attribute(attr="command" | "commands"), lineno=line):
                yield line


def test_only_streams_sends_commands_to_the_store() -> None:
    sent = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in SOURCES
        if path.suffix == ".py" and not any(path.is_relative_to(room) for room in MAY_SEND_COMMANDS)
        for line in commands_sent(path)
    ]
    assert sent == []


def wrong_operations(path: Path) -> Iterator[int]:
    """The lines that build an operation with other arguments than those of its header, as far as they are spelt out."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="call"), attr=name), keywords=keywords, lineno=line):
                header = set(functions()[name].args) if name in functions() else None
                given = {keyword.arg for keyword in keywords if keyword.arg}
                spelt_out = all(keyword.arg for keyword in keywords)
                if header is None or not given <= header or (spelt_out and given != header):
                    yield line


def test_operations_are_built_with_the_arguments_of_their_headers() -> None:
    sources = [path for path in SOURCES if path.suffix == ".py" and "operations import" in path.read_text()]
    wrong = [f"{path.relative_to(ROOT)}:{line}" for path in sources for line in wrong_operations(path)]
    assert [place for place in wrong if "test_operations.py" not in place] == []


def test_only_logs_py_imports_structlog() -> None:
    """How lines are written is the choice of the program around us, unless it called `configure_logs`."""
    pattern = re.compile(r"^ *(?:from|import) structlog", re.MULTILINE)
    found = [path for path in SOURCES if path.suffix == ".py" and "tests" not in path.parts]
    assert [path.name for path in found if pattern.search(path.read_text())] == ["logs.py"]


def own_names(package: ModuleType) -> Iterator[str]:
    """The public names a package gathers from its modules or defines itself."""
    for node in ast.parse(inspect.getsource(package)).body:
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("tailrace."):
                yield from (alias.asname or alias.name for alias in names)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_exports_what_it_says_in_order(name: str) -> None:
    package = importlib.import_module(f"tailrace.{name}")
    assert list(package.__all__) == sorted(name for name in own_names(package) if not name.startswith("_"))


def test_every_file_name_says_something() -> None:
    empty = {"utils", "helpers", "common", "types", "base"}
    assert [path for path in SOURCES if path.stem in empty] == []


def test_a_folder_holds_at_most_fifteen_files() -> None:
    """The transitions excepted: each has a file of its own, and one folder lists them all."""
    folders = Counter(path.parent for path in SOURCES if "tests" not in path.relative_to(ROOT).parts)
    del folders[ROOT / "streams" / "functions"]
    assert {str(folder): files for folder, files in folders.items() if files > 15} == {}


def test_every_file_fits_in_the_head() -> None:
    assert [path for path in SOURCES if len(path.read_text().splitlines()) > 400] == []


def test_no_file_imports_from_a_test_file() -> None:
    """What two test files need lives in `tests/support` or in a helper module of their folder."""
    pattern = re.compile(r"^\s*(?:from|import) (?:\S+\.)?(?:test_\w+|tests\b.* import test_)", re.MULTILINE)
    assert [
        str(path.relative_to(ROOT)) for path in SOURCES if path.suffix == ".py" and pattern.search(path.read_text())
    ] == []


UNCLEAR = re.compile(
    r"\b(whoever|whomever|nobody|somebody|anew|so much|so many|spoilt|dead letters?|keep as it is|it did not happen"
    r"|in vain|fares|rubbish|(?:is|are|was|were) told(?! apart)|told of"
    r"|(?:it|which|that) is no (?!longer|more))\b",
    re.IGNORECASE,
)
"""Words that name nothing, or that made readers stop: say which process, person, number or job it is."""


def test_texts_name_what_they_mean() -> None:
    texts = [path for path in SOURCES if "tests" not in path.relative_to(ROOT).parts]
    texts += [*ROOT.glob("*.md"), *(path for room in PACKAGES for path in (ROOT / room).rglob("*.md"))]
    unclear = [
        f"{path.relative_to(ROOT)}:{number}: {found[0]}"
        for path in texts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (found := UNCLEAR.search(line))
    ]
    assert unclear == []


RIDDLE = re.compile(
    r"(What|Who|Whose|When|Those|These|Of|It|Is|Does|Can|Would|The same)\b|As (it|if|on|in)\b|From (the|what)\b"
)
"""How a docstring may not begin: the reader would have to find out what it is about."""


def test_a_docstring_begins_with_what_a_thing_is_or_does() -> None:
    riddles = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value.value.splitlines()[0]}"
        for room in PACKAGES
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if RIDDLE.match(node.value.value)
    ]
    assert riddles == []


def test_a_class_name_means_one_thing() -> None:
    named = [
        node.name
        for path in SOURCES
        if path.suffix == ".py" and "tests" not in path.parts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    assert {name for name in named if named.count(name) > 1} == set()
