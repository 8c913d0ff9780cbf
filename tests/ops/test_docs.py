"""The guides and references are printed by `tailrace docs`."""

import re

import pytest

from tailrace.ops.__main__ import main
from tailrace.ops.bootstrap import CHECKOUT
from tailrace.ops.docs import ROOMS, topics, without_relative_links


def test_every_guide_is_a_topic_of_its_own() -> None:
    assert sorted(topics().values()) == sorted(path for room in ROOMS for path in (CHECKOUT / room).glob("*.md"))


def test_without_a_topic_they_are_listed_by_their_titles(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs"]) == 0
    assert "first-job  First job\n" in capsys.readouterr().out


def test_a_guide_names_the_command_that_shows_another(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "first-job"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("# First job\n")
    assert "(`tailrace docs handlers`)" in said


def test_an_unknown_topic_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "hendlers"]) == 2
    assert capsys.readouterr().err == "tailrace: TOPIC: there is no guide hendlers; did you mean handlers?\n"


def test_only_relative_links_and_pictures_are_rewritten() -> None:
    text = "[a](consumers/arq.md#x), [b](https://b.example/c.md), ![c](c.png), [d](LICENSE), [e](#e)"
    rewritten = "a (`tailrace docs arq`), [b](https://b.example/c.md), , d, e"
    assert without_relative_links(text) == rewritten


@pytest.mark.parametrize("topic", sorted(topics()))
def test_no_guide_is_left_with_a_relative_link(topic: str) -> None:
    path = topics()[topic]
    text = without_relative_links(path.read_text(encoding="utf-8"), path.parent)
    assert [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target] == []
