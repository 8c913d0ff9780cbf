"""The loader: a Lua file's header is its signature, and a script is made of such files alone."""

import hashlib
import re

import msgspec
import pytest

from tailrace.streams.functions import BRINGING, OF_BANDS, build, functions, parse, script, shared
from tailrace.streams.keys import JOB_KEYS, PLATFORM_KEYS, PlatformKeys

SCRIPTS = sorted({function.script for function in functions().values()})
GOOD = """-- greet: say hello.
-- Script  greeting
-- Uses  places calls
-- KEYS  record leases
-- ARGV  name   who
--       times  how often
-- Rules  max_running lane
-- Returns  ok | lost
return 'ok'
"""


def test_a_header_is_read_as_a_signature() -> None:
    greet = parse("greet", GOOD)
    assert (greet.name, greet.summary, greet.script) == ("greet", "say hello.", "greeting")
    assert greet.uses == ("places", "calls")
    assert (greet.keys, greet.job_keys, greet.args) == (
        ("record", "leases"),
        ("record",),
        ("name", "times", "max_running", "lane"),
    )
    assert greet.rules == ("max_running", "lane")
    assert (greet.returns, greet.body) == ("ok | lost", "return 'ok'\n")


def test_a_shared_part_has_neither_a_script_nor_answers() -> None:
    part = parse("manners", "-- manners: how to greet.\n-- KEYS  leases due\n\nfunction manners.bow()\nend\n")
    assert (part.keys, part.uses, part.body) == (("leases", "due"), (), "\nfunction manners.bow()\nend\n")


@pytest.mark.parametrize(
    "text", ["return 1\n", GOOD.replace("greet", "hello"), GOOD.replace("-- Returns  ok | lost\n", "")]
)
def test_a_file_that_does_not_follow_the_form_says_so(text: str) -> None:
    with pytest.raises(ValueError, match=r"greet\.lua does not"):
        parse("greet", text)


@pytest.mark.parametrize("name", functions())
def test_a_transition_names_only_keys_that_exist(name: str) -> None:
    assert set(functions()[name].keys) <= {*PLATFORM_KEYS, *JOB_KEYS, *OF_BANDS}


@pytest.mark.parametrize("name", functions())
def test_a_transition_uses_every_argument_it_names(name: str) -> None:
    function = functions()[name]
    assert [arg for arg in function.args if not re.search(rf"\b{arg}\b", function.body)] == []


def test_a_script_is_known_by_the_digest_of_its_text() -> None:
    made = build("settling")
    assert made.sha == hashlib.sha1(made.text.encode()).hexdigest()
    assert set(made.functions) == {name for name, function in functions().items() if function.script == "settling"}
    assert build("settling") == made


def test_only_what_brings_work_is_refused_when_memory_is_full() -> None:
    refused = {name for name in SCRIPTS if script(name).text.startswith("#!lua\n")}
    assert refused == BRINGING == {functions()[name].script for name in ("submit", "spawn", "schedule", "tick")}
    assert all(script(name).text.startswith("#!lua flags=allow-oom\n") for name in set(SCRIPTS) - BRINGING)


def test_a_script_can_be_built_from_other_sources() -> None:
    changed = msgspec.structs.replace(functions()["pause"], body="return {}\n")
    made = build("acting", {"pause": changed})
    assert made.functions["pause"].body == "return {}\n"
    assert made.sha != build("acting").sha


def code_of(text: str) -> str:
    """Lua without comments and strings."""
    return re.sub(r"--.*|'[^'\n]*'", "", text)


@pytest.mark.parametrize("name", [*functions(), *shared()])
def test_a_header_names_exactly_what_its_body_uses(name: str) -> None:
    """The loader believes the header."""
    file = (functions() | shared())[name]
    code = code_of(file.body)
    parts = {part for part in shared() if part != name and re.search(rf"(?<![\w.]){part}\.\w", code)}
    assert set(file.uses) == parts
    assert set(file.keys) - set(JOB_KEYS) == set(re.findall(r"\bkeys\.(\w+)", code))


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_calls_only_functions_that_it_defines(name: str) -> None:
    text = code_of(script(name).text)
    for part in shared():
        asked = set(re.findall(rf"(?<![\w.]){part}\.(\w+)", text))
        assert asked <= set(re.findall(rf"(?:function {part}\.(?=\w+\()|^{part}\.(?=\w+ = ))(\w+)", text, re.MULTILINE))
    known = {"if", "and", "or", "not", "in", "return", "function", "elseif", "while", "until"}
    known |= {"ipairs", "next", "pairs", "pcall", "select", "setmetatable", "tonumber", "tostring", "type", "unpack"}
    known |= set(re.findall(r"function (\w+)\(", text))
    known |= {name for line in re.findall(r"local ([\w, ]+)", text) for name in line.strip().split(", ")}
    assert {name for name in re.findall(r"(?<![\w.:])(\w+)\(", text) if name not in known} == set()


def test_scripts_build_the_keys_that_python_knows() -> None:
    text = "".join(script(name).text for name in SCRIPTS)
    keys = PlatformKeys("kurly")
    named = (keys.record, keys.log, keys.args, keys.steps, keys.order, keys.parked, keys.starts, keys.dedupe)
    known = {
        key("").removeprefix(keys.prefix).removesuffix(":")
        for key in (*named, keys.children, keys.signals, keys.holds, keys.bell)
    }
    assert set(re.findall(r"key_of\('(\w+)'", text)) == known
