"""The routes that bring jobs, tell of them and act on them, described."""

from collections.abc import Mapping
from typing import Final

from tailrace.gateway.documents.around import STREAM, Answer, Operation, accepted, kept, ok
from tailrace.gateway.problems import Code
from tailrace.gateway.routes import schemas as a
from tailrace.gateway.routes.bodies import ActBody
from tailrace.gateway.routes.plans import MaterialBody, PlanBody
from tailrace.gateway.routes.submissions import BulkBody, JobBody, ResearchBody, WorkflowBody
from tailrace.streams.messages import Event

REPLAYED: Final = "Idempotency-Replayed"
NEW_WORK: Final = (Code.OTHER_BODY, Code.STORE_FULL, Code.PLATFORM_FORBIDDEN)
NOT_SO: Final = (Code.JOB_ENDED, Code.JOB_NOT_ENDED)
EVENTS: Final = Answer("The events, as they happen.", Event, media=(STREAM,))
JOB: Final = {"platform": "default", "kind": "scan", "args": {"params": {"product_ids": ["p-1"]}}}

JOBS: Final[Mapping[str, Operation]] = {
    "POST /research/start": Operation(
        id="startResearch",
        does="Start a research",
        group="submit",
        takes=ResearchBody,
        examples=({"query": "tides"}, {"query": "tides", "jobId": "tides-1"}),
        asks=("IdempotencyKey",),
        answers=accepted("In line.", a.ResearchAccepted, None, REPLAYED),
        refuses=NEW_WORK,
    ),
    "POST /api/jobs": Operation(
        id="submitJob",
        does="Submit a job",
        more="The same id and body again is the same job. `Idempotency-Key` does the same for a job without an id. "
        "The kind `drill` is 422 where it is switched off, as it is by default on a gateway with keys.",
        group="submit",
        takes=JobBody,
        examples=(JOB, {**JOB, "id": "mine-1", "priority": "high", "delay_seconds": 60}),
        asks=("IdempotencyKey",),
        answers=accepted("In line.", a.Accepted, None, REPLAYED),
        refuses=NEW_WORK,
    ),
    "POST /api/jobs/bulk": Operation(
        id="submitJobs",
        does="Submit many jobs; what is valid is accepted",
        group="submit",
        takes=BulkBody,
        examples=({"jobs": [JOB, {**JOB, "id": "mine-2"}]},),
        answers={202: Answer("A line for each.", a.BulkAccepted, headers=("Retry-After",))},
        refuses=(Code.STORE_FULL,),
    ),
    "POST /api/plans": Operation(
        id="makePlan",
        does="Make a study plan: a `make-plan` on `plan-generation`",
        group="submit",
        takes=PlanBody,
        examples=({"userId": "u-1", "goal": "read the sea", "materialIds": ["m-1"]},),
        asks=("IdempotencyKey",),
        answers=accepted("In line.", a.PlanAccepted, None, REPLAYED),
        refuses=NEW_WORK,
    ),
    "POST /api/materials/complete-upload": Operation(
        id="processMaterial",
        does="Read a document that was uploaded: a `process-material` on `material-processing`",
        group="submit",
        takes=MaterialBody,
        examples=({"materialId": "m-1"}, {"materialId": "m-1", "document": "tides.txt"}),
        asks=("IdempotencyKey",),
        answers=accepted("In line.", a.MaterialAccepted, None, REPLAYED),
        refuses=NEW_WORK,
    ),
    "POST /api/v2/workflows/execute": Operation(
        id="executeWorkflow",
        does="Run a workflow on `params.platform`, else on `default`",
        group="submit",
        takes=WorkflowBody,
        examples=({"workflow_id": "daily", "params": {"product_ids": ["p-1"]}},),
        asks=("IdempotencyKey",),
        answers=accepted("In line.", a.WorkflowAccepted, "success", REPLAYED),
        refuses=NEW_WORK,
    ),
    "GET /api/jobs/{job_id}": Operation(
        id="showJob",
        does="A job as it is now",
        group="jobs",
        asks=("IfNoneMatch",),
        answers=kept("The job.", a.JobSeen),
    ),
    "DELETE /api/jobs/{job_id}": Operation(
        id="deleteJob",
        does="Remove a failed or cancelled job with its history",
        group="jobs",
        takes=ActBody,
        answers=ok("Gone.", a.Dropped, None),
        refuses=NOT_SO,
    ),
    "GET /api/jobs/{job_id}/args": Operation(
        id="argsOfJob", does="What a job was asked with", group="jobs", answers=ok("The args.", a.ArgsSeen)
    ),
    "GET /api/jobs/{job_id}/steps": Operation(
        id="stepsOfJob",
        does="The names of the steps a job has saved; with `name`, what that one gave",
        group="jobs",
        asks=("StepName",),
        answers=ok("The names, or the one.", (a.StepsSeen, a.StepSeen)),
        refuses=(Code.STEP_NOT_FOUND,),
    ),
    "POST /api/jobs/{job_id}/cancel": Operation(
        id="cancelJob",
        does="End a job that nobody runs, or ask its attempt to stop",
        group="jobs",
        takes=ActBody,
        examples=({"by": "night shift", "reason": "not wanted any more"},),
        answers={
            200: Answer("Cancelled, now or before.", a.Acted),
            202: Answer("Asked to stop: it can only end cancelled.", a.Acted, headers=("Location", "Retry-After")),
        },
        refuses=(Code.JOB_ENDED,),
    ),
    "POST /api/jobs/{job_id}/retry": Operation(
        id="retryJob",
        does="Give a failed or cancelled job another life",
        group="jobs",
        takes=ActBody,
        examples=({"by": "night shift"},),
        answers=accepted("In line again.", a.Acted),
        refuses=(*NOT_SO, Code.STORE_FULL),
    ),
    "POST /api/jobs/{job_id}/drop": Operation(
        id="dropJob",
        does="Remove a failed or cancelled job with its history",
        group="jobs",
        takes=ActBody,
        answers=ok("Gone.", a.Dropped, None),
        refuses=NOT_SO,
    ),
    "GET /api/v2/jobs/running": Operation(
        id="listRunning",
        does="What runs, and how many wait",
        group="jobs",
        answers=ok("Both.", a.RunningNow, "success"),
    ),
    "GET /research/stream/{job_id}": Operation(
        id="followJob",
        does="The events of one job, live",
        more="Each event is one default `message`. `event: end` comes after the last one, `event: reset` before "
        "everything is told anew; both have `data: {}`. While the store is away there is one comment, and the stream "
        "closes: come back.",
        group="events",
        asks=("LastEventId", "LastEventIdQuery"),
        answers={200: EVENTS, 204: Answer("All was told, the last event is the one named. Stay away.", media=())},
        store=False,
    ),
    "GET /research/history/{job_id}": Operation(
        id="historyOfJob",
        does="The events of one job so far",
        group="events",
        asks=("HistoryAttempt", "HistoryAfter", "HistoryLimit", "IfNoneMatch"),
        answers=kept("In order, each once.", list[Event], None),
        refuses=(Code.WRONG_FIELD,),
    ),
    "GET /api/events": Operation(
        id="followAll",
        does="What happens from now on, of many jobs in one stream",
        more="Events have no id here, and none is repeated: `event: reset` says that some may be missing, and the "
        "histories have them.",
        group="events",
        asks=("EventsPlatform", "EventsJobs", "LastEventId", "LastEventIdQuery"),
        answers={200: Answer("The events, as they happen.", (Event, a.LargeEvent), media=(STREAM,))},
        refuses=(Code.WRONG_FIELD, Code.PLATFORM_FORBIDDEN),
        store=False,
    ),
    "GET /api/v2/workers/status": Operation(
        id="listWorkers",
        does="Every consumer, by what this gateway has seen of it",
        group="workers",
        asks=("Wait",),
        answers=ok("The consumers.", a.WorkersSeen, "success"),
        refuses=(Code.WRONG_FIELD,),
    ),
    "POST /api/v2/workers/{platform}/restart": Operation(
        id="restartWorkers",
        does="Ask the consumers of a platform to drain and leave; their supervisor starts them anew",
        group="workers",
        takes=ActBody,
        answers=accepted("They were asked.", a.Restarting, "success"),
        refuses=(Code.WORKER_SHARED,),
    ),
}
