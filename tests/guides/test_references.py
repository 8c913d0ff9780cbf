"""The references are complete: every command and every setting of the code is in them."""

import re

import pytest

from tailrace.ops.bootstrap import CHECKOUT
from tailrace.ops.commands import COMMANDS
from tests.guides.code import text_of

ROOMS = ("streams", "producers", "consumers", "gateway", "ops")
SETTING = re.compile(r'"((?:TAILRACE|REDIS|WORKER|LLM)_[A-Z_]+)"')
AMONG_OURSELVES = {"TAILRACE_LIFELINE", "TAILRACE_MATERIALS_OF_UP"}  # what our processes tell each other


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_command_has_a_row(command: str) -> None:
    assert re.search(rf"^\|.*`{command}\b", text_of("ops/README.md"), re.MULTILINE)


def test_every_setting_is_documented() -> None:
    sources = [path for room in ROOMS for path in (CHECKOUT / room).rglob("*.py")]
    read = {name for path in sources for name in SETTING.findall(path.read_text(encoding="utf-8"))}
    told = "".join(path.read_text(encoding="utf-8") for room in ROOMS for path in (CHECKOUT / room).rglob("*.md"))
    assert "REDIS_URL" in read
    assert {name for name in read - AMONG_OURSELVES if not re.search(rf"\b{name}\b", told)} == set()
