"""The rules of time for one job: pauses grow within their bounds, and an attempt gets what is left."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.consumers.backoff import again_after, pause_seconds, seconds_left, timed_out
from tailrace.consumers.outcomes import Failed
from tailrace.streams.messages import Failure
from tailrace.streams.policies import Policy, rules_for

BROKE = Failed(Failure("RuntimeError", "it broke"))

chances = st.floats(0, 1)
policies = st.builds(
    Policy,
    backoff=st.sampled_from(["exponential", "fixed"]),
    backoff_seconds=st.floats(0, 100),
    backoff_cap_seconds=st.floats(100, 3600),
    jitter=chances,
)


def test_the_default_doubles_from_one_second() -> None:
    rules = Policy(jitter=0)
    assert [pause_seconds(rules, failures, 0.5) for failures in (1, 2, 3, 4)] == [1, 2, 4, 8]


def test_a_fixed_pause_stays_the_same() -> None:
    rules = Policy(backoff="fixed", backoff_seconds=7, jitter=0)
    assert {pause_seconds(rules, failures, 0.5) for failures in range(1, 50)} == {7}


def test_jitter_moves_a_pause_both_ways() -> None:
    rules = Policy(jitter=0.2)
    assert [round(pause_seconds(rules, 1, chance), 6) for chance in (0, 0.5, 1)] == [0.8, 1.0, 1.2]


@given(rules=policies, failures=st.integers(1, 10_000), chance=chances)
def test_a_pause_is_never_below_zero_nor_above_its_cap(rules: Policy, failures: int, chance: float) -> None:
    assert 0 <= pause_seconds(rules, failures, chance) <= rules.backoff_cap_seconds


@given(rules=policies, failures=st.integers(1, 60), chance=chances)
def test_a_pause_never_gets_shorter(rules: Policy, failures: int, chance: float) -> None:
    assert pause_seconds(rules, failures, chance) <= pause_seconds(rules, failures + 1, chance)


@given(rules=policies, failures=st.integers(1, 60), chance=chances)
def test_without_jitter_chance_decides_nothing(rules: Policy, failures: int, chance: float) -> None:
    still = Policy(
        backoff=rules.backoff,
        backoff_seconds=rules.backoff_seconds,
        backoff_cap_seconds=rules.backoff_cap_seconds,
        jitter=0,
    )
    assert pause_seconds(still, failures, chance) == pause_seconds(still, failures, 0)


def test_a_job_goes_by_its_own_rules_where_it_has_some() -> None:
    rules = rules_for(Policy(), b'{"attempts":7,"jitter":0}')
    assert (rules.attempts, rules.jitter, rules.backoff_seconds) == (7, 0, 1.0)
    assert rules_for(Policy(), b"") == Policy()
    assert Policy().attempts == 3


def test_rules_that_contradict_each_other_are_followed_as_far_as_they_go() -> None:
    rules = rules_for(Policy(max_starts=5), b'{"attempts":9,"backoff_seconds":7200}')
    assert (rules.attempts, rules.max_starts) == (9, 5)
    assert pause_seconds(rules, 1, 1) == 3600


@pytest.mark.parametrize(
    ("timeout", "lifetime", "age", "left"),
    [(0, 0, 100, None), (5, 0, 100, 5), (0, 60, 10, 50), (5, 60, 10, 5), (5, 60, 58, 2), (0, 60, 61, 0)],
)
def test_an_attempt_gets_the_lesser_of_its_time_and_what_is_left(
    timeout: float, lifetime: float, age: float, left: float | None
) -> None:
    assert seconds_left(Policy(timeout_seconds=timeout, lifetime_seconds=lifetime), age) == left


def test_an_attempt_that_took_too_long_says_which_limit_it_was() -> None:
    rules = Policy(timeout_seconds=5, lifetime_seconds=60)
    assert "longer than the 5 s it may take" in timed_out(rules, 10).error.message
    assert "longer than the 60 s it may take in all" in timed_out(rules, 58).error.message


def test_a_job_is_tried_again_while_it_may() -> None:
    assert again_after(BROKE, 1, 0, Policy(jitter=0)) == (1.0, 3, 100, "block")
    assert again_after(Failed(BROKE.error, final=True), 1, 0, Policy()).attempts == 0


def test_a_job_is_not_tried_again_when_its_time_would_be_over() -> None:
    rules = Policy(lifetime_seconds=10, jitter=0)
    assert again_after(BROKE, 1, 8.5, rules).attempts == 3
    assert again_after(BROKE, 1, 9, rules).attempts == 0


def test_a_handler_may_have_a_rule_of_its_own_within_the_cap() -> None:
    rules = Policy(jitter=1, backoff_cap_seconds=60)
    assert again_after(BROKE, 3, 0, rules, lambda failures: failures * 5).seconds == 15
    assert again_after(BROKE, 3, 0, rules, lambda _: 1e9).seconds == 60


@pytest.mark.parametrize("wrong", [-1, float("nan"), "soon", None])
def test_a_rule_that_answers_nonsense_is_replaced_by_the_platforms(wrong: object) -> None:
    rules = Policy(jitter=0)
    assert again_after(BROKE, 2, 0, rules, lambda _: wrong).seconds == 2.0  # type: ignore[arg-type,return-value]
