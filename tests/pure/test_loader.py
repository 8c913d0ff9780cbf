"""The loader: a Lua file's header is its signature, and a script is made of such files alone."""

import hashlib
import re

import msgspec
import pytest

from tailrace.streams.functions import build, functions, parse
from tailrace.streams.keys import JOB_KEYS, PLATFORM_KEYS, PlatformKeys
from tailrace.streams.transitions import ACTING, BEATING, BRINGING, SETTLING, TENDING, script

GOOD = """-- greet: say hello.
-- KEYS  record  hash  whom
--       leases  hash  of whom
-- ARGV  name   who
--       times  how often
-- Returns  ok | lost
return 'ok'
"""


def test_a_header_is_read_as_a_signature() -> None:
    greet = parse("greet", GOOD)
    assert (greet.name, greet.summary) == ("greet", "say hello.")
    assert (greet.keys, greet.job_keys, greet.args) == (("record", "leases"), ("record",), ("name", "times"))
    assert (greet.returns, greet.body) == ("ok | lost", "return 'ok'\n")


@pytest.mark.parametrize(
    "text", ["return 1\n", GOOD.replace("greet", "hello"), GOOD.replace("-- Returns  ok | lost\n", "")]
)
def test_a_file_that_does_not_follow_the_form_says_so(text: str) -> None:
    with pytest.raises(ValueError, match=r"greet\.lua does not"):
        parse("greet", text)


@pytest.mark.parametrize("name", functions())
def test_a_transition_names_only_keys_that_exist(name: str) -> None:
    assert set(functions()[name].keys) <= {*PLATFORM_KEYS, *JOB_KEYS}


@pytest.mark.parametrize("name", functions())
def test_a_transition_uses_every_argument_it_names(name: str) -> None:
    function = functions()[name]
    assert [arg for arg in function.args if not re.search(rf"\b{arg}\b", function.body)] == []


def test_every_transition_belongs_to_a_script() -> None:
    bringing = {name for names in BRINGING for name in names}
    assert {*bringing, *SETTLING, *TENDING, *BEATING, *ACTING} == functions().keys()


def test_a_script_is_known_by_the_digest_of_its_text() -> None:
    made = build(SETTLING)
    assert made.sha == hashlib.sha1(made.text.encode()).hexdigest()
    assert tuple(made.functions) == SETTLING
    assert build(SETTLING) == made


def test_only_what_brings_work_is_refused_when_memory_is_full() -> None:
    for names in BRINGING:
        assert script(*names).text.startswith("#!lua\n")
    assert build(SETTLING).text.startswith("#!lua flags=allow-oom\n")


def test_a_script_can_be_built_from_other_sources() -> None:
    changed = msgspec.structs.replace(functions()["pause"], body="return {}\n")
    made = build(("pause",), sources={"pause": changed})
    assert made.functions["pause"].body == "return {}\n"
    assert made.sha != build(("pause",)).sha


def test_a_script_of_an_unknown_function_is_not_built() -> None:
    with pytest.raises(KeyError, match="nothing"):
        build(("nothing",))


@pytest.mark.parametrize("names", [SETTLING, TENDING, BEATING, ACTING, *BRINGING], ids="-".join)
def test_a_script_calls_only_functions_that_it_defines(names: tuple[str, ...]) -> None:
    text = re.sub(r"--.*|'[^'\n]*'", "", script(*names).text)
    known = {"if", "and", "or", "not", "in", "return", "function", "elseif", "while", "until"}
    known |= {"ipairs", "pairs", "pcall", "select", "setmetatable", "tonumber", "tostring", "type", "unpack"}
    known |= set(re.findall(r"function (\w+)\(", text))
    known |= {name for line in re.findall(r"local ([\w, ]+)", text) for name in line.strip().split(", ")}
    assert {name for name in re.findall(r"(?<![\w.:])(\w+)\(", text) if name not in known} == set()


def test_scripts_build_the_keys_that_python_knows() -> None:
    text = "".join(script(*names).text for names in (SETTLING, TENDING, BEATING, ACTING, *BRINGING))
    keys = PlatformKeys("kurly")
    named = (keys.record, keys.log, keys.args, keys.steps, keys.order, keys.parked, keys.starts, keys.dedupe)
    known = {key("").removeprefix(keys.prefix).removesuffix(":") for key in (*named, keys.holds, keys.bell)}
    assert set(re.findall(r"key_of\('(\w+)'", text)) == known
