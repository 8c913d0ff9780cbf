"""`bench --costs`: instructions of each transition, held to what was noted of them."""

import argparse
import shutil

import pytest

from tailrace.ops.bench import costs
from tailrace.ops.bench.costs import Cost
from tailrace.streams.errors import TailraceError

OPTIONS = argparse.Namespace(json=False)


def test_without_valgrind_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(TailraceError, match="apt-get install valgrind"):
        costs.run(OPTIONS)


@pytest.mark.parametrize(
    ("now", "status"),
    [(Cost(104, 52), 0), (Cost(106, 50), 1), (Cost(100, 53), 1), (Cost(50, 20), 0)],
    ids=["within the tolerance", "dearer alone", "dearer among others", "cheaper"],
)
def test_it_ends_with_1_when_a_transition_is_dearer_than_noted(now: Cost, status: int) -> None:
    assert costs.show("valkey 9.1.2", {"submit": now}, {"submit": Cost(100, 50)}) == status


@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.skipif(not shutil.which("callgrind_control"), reason="valgrind is not installed")
def test_no_transition_is_dearer_than_noted() -> None:
    assert costs.run(OPTIONS) == 0
