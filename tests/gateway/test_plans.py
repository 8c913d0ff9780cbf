"""Plans and materials: long work is handed over, and the answer does not wait for it."""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from tailrace.streams.store.connection import Store
from tests.support.builders import untouched
from tests.support.deployment import Deployment
from tests.support.problems import problem_of

PLAN = {"userId": "u1", "goal": "read music", "materialIds": ["m1", "m2"], "planId": "p1"}


async def test_a_plan_is_accepted_at_once(http: httpx2.AsyncClient) -> None:
    answer = await http.post("/api/plans", json=PLAN)
    assert answer.status_code == 202
    assert answer.json() == {"jobId": answer.json()["jobId"], "status": "pending"}
    job = (await http.get(answer.headers["location"])).json()["data"]
    assert (job["kind"], job["platform"], job["status"]) == ("make-plan", "plan-generation", "waiting")


async def test_an_uploaded_material_is_accepted_at_once(http: httpx2.AsyncClient) -> None:
    answer = await http.post("/api/materials/complete-upload", json={"materialId": "m1"})
    assert answer.status_code == 202
    assert answer.json() == {"materialId": "m1", "status": "processing", "jobId": answer.json()["jobId"]}
    assert (await http.get(answer.headers["location"] + "/args")).json()["data"]["args"] == {"materialId": "m1"}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/api/plans", {**PLAN, "goal": ""}, "goal"),
        ("/api/plans", {"goal": "x"}, "userId"),
        ("/api/plans", {**PLAN, "materialIds": [1]}, "materialIds"),
        ("/api/plans", {**PLAN, "jobId": "no dots."}, "jobId"),
        ("/api/plans", {**PLAN, "colour": 1}, "colour"),
        ("/api/materials/complete-upload", {}, "materialId"),
        ("/api/materials/complete-upload", {"materialId": "m", "document": ""}, "document"),
    ],
)
async def test_what_cannot_be_is_refused(
    http: httpx2.AsyncClient, store: Store, path: str, body: dict[str, Any], field: str
) -> None:
    async with untouched(store):
        assert problem_of(await http.post(path, json=body), 422, "WRONG_FIELD")["field"].startswith(field)


async def test_a_plan_is_made_in_four_steps(deployment: Deployment) -> None:
    await deployment.consumer("plan-generation")
    job = await deployment.submit("plan-generation", kind="make-plan", **PLAN)
    history = await deployment.ended(job)
    assert [event.step for event in history if event.step is not None] == [10, 30, 70, 100]
    assert history[-1].result["planId"] == "p1"
    assert [week["material"] for week in history[-1].result["weeks"]] == ["m1", "m2", None]


async def test_a_material_is_read_from_its_folder_and_from_nowhere_else(deployment: Deployment, tmp_path: Path) -> None:
    folder = tmp_path / "materials"
    folder.mkdir()
    (folder / "tides.txt").write_text("The sea rises and falls. " * 200)
    (tmp_path / "secret.txt").write_text("not for you")
    await deployment.consumer(
        "material-processing", TAILRACE_MATERIALS=str(folder), TAILRACE_MATERIAL_HOSTS="docs.example"
    )

    async def process(document: str) -> Any:
        args = {"materialId": document, "document": document}
        return (
            await deployment.ended(await deployment.submit("material-processing", kind="process-material", **args))
        )[-1]

    done = await process("tides.txt")
    assert done.result["status"] == "ready"
    assert done.result["pieces"] >= 5
    assert len(list((folder / "processed").iterdir())) == 1
    for elsewhere in (
        "../secret.txt",
        "/etc/passwd",
        "https://elsewhere.example/x",
        "http://docs.example/x",
        "none.txt",
    ):
        refused = await process(elsewhere)
        assert (refused.status, refused.error.type, refused.attempt) == ("failed", "GiveUp", 1)
