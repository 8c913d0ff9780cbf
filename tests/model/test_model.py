"""The real scripts keep every promise of the model, on each kind of server."""

import os

import pytest
from hypothesis import settings

from tests.model.flow_machine import perform_flows
from tests.model.machine import perform
from tests.model.play import Play

EXAMPLES = int(os.environ.get("TAILRACE_MODEL_EXAMPLES", "80"))  # for a long night: 10000
"""How many lives of a store are played."""

PLAYS = settings(max_examples=EXAMPLES, stateful_step_count=30, deadline=None, derandomize=EXAMPLES < 1000)

FLOWS = settings(PLAYS, max_examples=max(1, EXAMPLES // 4))


@pytest.mark.timeout(600 + EXAMPLES)  # shortening a play that broke a promise takes minutes
def test_the_scripts_do_what_the_model_says(store_url: str) -> None:
    perform(Play(store_url), PLAYS)


@pytest.mark.timeout(600 + EXAMPLES)
def test_flows_do_what_their_model_says(store_url: str) -> None:
    perform_flows(Play(store_url), FLOWS)
