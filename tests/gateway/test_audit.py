"""Who did what over HTTP: every act, who asked for it, and nothing of other platforms."""

import httpx2

from tests.gateway.keyrings import SHOPS, WHOLE, shown
from tests.support.builders import Desk


async def test_every_act_is_told_with_who_asked(http: httpx2.AsyncClient, desk: Desk) -> None:
    for key in ("a", "b", "c"):
        await desk.fail(await desk.start(key))
    await desk.submit("d")
    me = {"by": "ann"}
    for method, path, body in (
        ("POST", "/api/platforms/research/pause", me),
        ("POST", "/api/platforms/research/resume", me),
        ("POST", "/api/jobs/research.d/cancel", {**me, "reason": "not wanted"}),
        ("POST", "/api/jobs/research.a/retry", me),
        ("POST", "/api/jobs/research.d/drop", me),
        ("POST", "/api/platforms/research/replay", me),
        ("PATCH", "/api/platforms/research", {"attempts": 4}),
        ("PATCH", "/api/platforms/research", {"attempts": 3}),
    ):
        answer = await http.request(method, path, json=body)
        assert answer.status_code < 300, (path, answer.text)
    page = (await http.get("/api/audit?platform=research")).json()
    told = [(act["act"], act["jobId"], act["by"]) for act in page["acts"]]
    assert told == [
        ("configure", None, None),
        ("configure", None, None),
        ("replay", "research.b", "ann"),
        ("drop", "research.d", "ann"),
        ("retry", "research.a", "ann"),
        ("cancel", "research.d", "ann"),
        ("resume", None, "ann"),
        ("pause", None, "ann"),
    ]
    assert page["acts"][5]["more"] == {"reason": "not wanted"}
    assert page["acts"][0]["more"] == {"changed": {"attempts": [4, 3]}}
    first = (await http.get("/api/audit?limit=3")).json()
    rest = (await http.get(f"/api/audit?limit=100&before={first['next']}")).json()
    assert [*first["acts"], *rest["acts"]] == page["acts"]
    assert rest["next"] is None


async def test_a_wrong_question_names_its_field(http: httpx2.AsyncClient) -> None:
    for query, field in (("platform=nowhere", "platform"), ("limit=0", "limit"), ("before=x", "before")):
        answer = await http.get(f"/api/audit?{query}")
        assert (answer.status_code, answer.json()["field"]) == (422, field)


async def test_the_key_that_asked_is_named_and_a_limited_key_sees_its_own_platforms(locked: httpx2.AsyncClient) -> None:
    for platform in ("research", "ably"):
        answer = await locked.post(f"/api/platforms/{platform}/pause", headers=shown(WHOLE))
        assert answer.status_code == 200, answer.text
    whole = (await locked.get("/api/audit", headers=shown(WHOLE))).json()["acts"]
    assert [act["platform"] for act in whole] == ["ably", "research"]
    assert all(act["by"] for act in whole), "the name of the key"
    own = (await locked.get("/api/audit", headers=shown(SHOPS))).json()["acts"]
    assert [act["platform"] for act in own] == ["ably"]
    refused = await locked.get("/api/audit?platform=research", headers=shown(SHOPS))
    assert refused.status_code == 422
