"""`Idempotency-Key`: the same key and body is the same job, another body is refused, and nothing extra is stored."""

import asyncio
from typing import Any

import httpx2
import pytest

from tailrace.streams.store.connection import Store
from tests.gateway.submitting import DRILL, ROUTES, id_of
from tests.support.builders import Desk, untouched
from tests.support.problems import problem_of


@pytest.mark.parametrize(("path", "case"), ROUTES.items(), ids=ROUTES)
async def test_the_same_key_and_body_is_the_same_job(
    http: httpx2.AsyncClient, store: Store, path: str, case: tuple[dict[str, Any], dict[str, Any], str]
) -> None:
    body, other, field = case
    headers = {"Idempotency-Key": 'one"key"!~/\\'}
    first = await http.post(path, json=body, headers=headers)
    assert first.status_code == 202
    assert "idempotency-replayed" not in first.headers
    assert first.headers["location"] == f"/api/jobs/{id_of(first)}"
    assert first.headers["retry-after"] == "1"
    async with untouched(store):
        again = await http.post(path, json=body, headers=headers)
        assert (again.status_code, again.json()) == (202, first.json())
        assert again.headers["idempotency-replayed"] == "true"
        assert again.headers["location"] == first.headers["location"]
        taken = problem_of(await http.post(path, json=other, headers=headers), 409, "OTHER_BODY")
        assert taken["detail"].endswith("choose another Idempotency-Key")
        refused = problem_of(await http.post(path, json={**body, field: "mine"}, headers=headers), 422, "WRONG_FIELD")
        assert refused["field"] == "Idempotency-Key"
        assert field in refused["detail"]
    assert id_of(await http.post(path, json=body, headers={"Idempotency-Key": "another"})) != id_of(first)
    assert len(await Desk(store, id_of(first).partition(".")[0]).line()) == 2


@pytest.mark.parametrize("key", ["", "a b", "k" * 256, "ü", "a\tb"], ids=repr)
@pytest.mark.parametrize("path", ROUTES)
async def test_a_header_that_is_no_key_is_refused(http: httpx2.AsyncClient, store: Store, path: str, key: str) -> None:
    async with untouched(store):
        answer = await http.post(path, json=ROUTES[path][0], headers=[(b"Idempotency-Key", key.encode())])
        assert problem_of(answer, 422, "WRONG_FIELD")["field"] == "Idempotency-Key"


async def test_two_keys_are_none(http: httpx2.AsyncClient, store: Store) -> None:
    async with untouched(store):
        answer = await http.post("/api/jobs", json=DRILL, headers=[("Idempotency-Key", "a"), ("Idempotency-Key", "b")])
        assert problem_of(answer, 422, "WRONG_FIELD")["field"] == "Idempotency-Key"


async def test_the_longest_key_is_taken(http: httpx2.AsyncClient) -> None:
    assert (await http.post("/api/jobs", json=DRILL, headers={"Idempotency-Key": "~" * 255})).status_code == 202


async def test_a_bulk_has_no_key(http: httpx2.AsyncClient, store: Store) -> None:
    async with untouched(store):
        answer = await http.post("/api/jobs/bulk", json={"jobs": [DRILL]}, headers={"Idempotency-Key": "a"})
        assert problem_of(answer, 422, "WRONG_FIELD")["field"] == "Idempotency-Key"


async def test_fifty_at_once_over_two_gateways_are_one_job(
    gateways: tuple[str, str], http: httpx2.AsyncClient, desk: Desk
) -> None:
    answers = await asyncio.gather(
        *(http.post(f"{gateways[n % 2]}/api/jobs", json=DRILL, headers={"Idempotency-Key": "k"}) for n in range(50))
    )
    assert len({id_of(answer) for answer in answers}) == 1
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    assert len(await desk.line()) == 1


async def test_an_ended_job_still_answers_for_its_key(http: httpx2.AsyncClient, desk: Desk) -> None:
    headers = {"Idempotency-Key": "k"}
    first = await http.post("/api/jobs", json=DRILL, headers=headers)
    (held,) = await desk.claim()
    await desk.complete(held)
    again = await http.post("/api/jobs", json=DRILL, headers=headers)
    assert again.json() == {**first.json(), "status": "completed"}
    assert again.headers["idempotency-replayed"] == "true"


@pytest.mark.parametrize(("path", "case"), ROUTES.items(), ids=ROUTES)
async def test_another_body_under_an_id_of_ones_own_names_the_field_of_that_id(
    http: httpx2.AsyncClient, path: str, case: tuple[dict[str, Any], dict[str, Any], str]
) -> None:
    body, other, field = case
    assert (await http.post(path, json={**body, field: "mine"})).status_code == 202
    taken = problem_of(await http.post(path, json={**other, field: "mine"}), 409, "OTHER_BODY")
    assert taken["detail"].endswith(f"choose another {field}")


async def test_the_same_request_again_tells_the_status_as_it_is_now(http: httpx2.AsyncClient, desk: Desk) -> None:
    first = await http.post("/api/jobs", json={**DRILL, "id": "mine"})
    await desk.claim()
    again = await http.post("/api/jobs", json={**DRILL, "id": "mine"})
    assert again.json() == {**first.json(), "status": "active"}
    assert again.headers["idempotency-replayed"] == "true"
