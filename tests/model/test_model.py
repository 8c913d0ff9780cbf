"""The real scripts keep every promise of the model, on each kind of server."""

import os

import pytest
from hypothesis import settings

from tests.model.machine import perform
from tests.model.play import Play

EXAMPLES = int(os.environ.get("TAILRACE_MODEL_EXAMPLES", "60"))  # a long night: 10000
"""How many lives of a store are played."""

PLAYS = settings(max_examples=EXAMPLES, stateful_step_count=50, deadline=None, derandomize=EXAMPLES < 1000)


@pytest.mark.timeout(60 + EXAMPLES)
def test_the_scripts_do_what_the_model_says(store_url: str) -> None:
    perform(Play(store_url), PLAYS)
