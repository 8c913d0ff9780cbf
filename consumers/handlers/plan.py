"""make-plan: a study plan for a goal; asks the model at LLM_SERVER_URL when set, else makes a plain outline."""

from typing import Any

import anyio.to_thread

from tailrace.consumers.attempt import Attempt
from tailrace.consumers.handlers.model import Model
from tailrace.consumers.registry import Handlers
from tailrace.producers.kinds import MakePlan

handles = Handlers()


@handles("make-plan")
async def make_plan(attempt: Attempt[MakePlan]) -> dict[str, Any]:
    asked = attempt.args
    plan_id = asked.planId or attempt.job.key
    await attempt.progress(10, message="the goal is understood")
    weeks = outline(asked.goal, asked.materialIds)
    await attempt.progress(30, message="the materials are put in order")
    text = await describe(asked.goal, weeks)
    await attempt.progress(70, message="the plan is written")
    plan = {"planId": plan_id, "userId": asked.userId, "goal": asked.goal, "weeks": weeks, "text": text}
    await attempt.progress(100, message="the plan is complete")
    return plan


def outline(goal: str, material_ids: list[str]) -> list[dict[str, Any]]:
    """One week for each material, then one to look back: enough to show where a plan comes from."""
    weeks = [
        {"week": n, "material": material, "task": f"study {material}"} for n, material in enumerate(material_ids, 1)
    ]
    return [*weeks, {"week": len(weeks) + 1, "material": None, "task": f"look back: {goal}"[:200]}]


async def describe(goal: str, weeks: list[dict[str, Any]]) -> str:
    model = Model.read()
    if model is None:
        return "; ".join(f"week {week['week']}: {week['task']}" for week in weeks)
    prompt = f"Goal: {goal}\nOutline: {weeks}\nWrite a short study plan."
    return await anyio.to_thread.run_sync(model.ask, prompt)
