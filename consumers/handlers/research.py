"""research: look into a question in five steps; asks the model at LLM_SERVER_URL when set, else works offline."""

from typing import Any

import anyio
import anyio.to_thread

from tailrace.consumers.attempt import Attempt
from tailrace.consumers.handlers.model import Model
from tailrace.consumers.registry import Handlers
from tailrace.producers.kinds import Research

handles = Handlers()

STEPS = ("plan the search", "gather sources", "read them", "compare what they say", "write the summary")
STEP_SECONDS = 2.0


@handles("research")
async def research(attempt: Attempt[Research]) -> dict[str, Any]:
    query = attempt.args.query
    notes: list[str] = []
    for number, task in enumerate(STEPS, start=1):
        notes.append(await work_on(task, query, notes))
        await attempt.progress(number, of=len(STEPS), message=task)
    return {"query": query, "summary": notes[-1]}


async def work_on(task: str, query: str, notes: list[str]) -> str:
    model = Model.read()
    if model is None:
        await anyio.sleep(STEP_SECONDS)
        return f"{task}: {query}"
    prompt = f"Question: {query}\nNotes so far: {notes}\nNow {task}. Answer in two sentences."
    return await anyio.to_thread.run_sync(model.ask, prompt)
