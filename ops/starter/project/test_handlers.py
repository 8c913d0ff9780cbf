"""The handlers run here as in a consumer, without a store: `python3 -m unittest`, or pytest."""

from unittest import IsolatedAsyncioTestCase

from handlers import handles

from tailrace.consumers.testing import run_handler


class TestGreet(IsolatedAsyncioTestCase):
    async def test_everybody_is_greeted_and_progress_is_shown(self) -> None:
        outcome = await run_handler(handles, "greet", {"names": ["Ada", "Grace"]})
        assert outcome.status == "completed"
        assert outcome.result == {"greetings": ["Hello Ada", "Hello Grace"]}
        assert [report.step for report in outcome.progress] == [1, 2]

    async def test_a_later_attempt_greets_nobody_again(self) -> None:
        outcome = await run_handler(handles, "greet", {"names": ["Ada"]}, attempt=2, saved={"greet Ada": "Hi Ada"})
        assert outcome.result == {"greetings": ["Hi Ada"]}

    async def test_args_that_do_not_fit_are_not_tried_again(self) -> None:
        outcome = await run_handler(handles, "greet", {"names": "Ada"})
        assert outcome.status == "failed"
        assert outcome.gave_up
