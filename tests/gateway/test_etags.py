"""Entity tags: what a client has already is not sent again, and nothing old is taken for new."""

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.gateway.etags import asked_for, etag_of, is_known
from tests.gateway.histories import race
from tests.support.builders import Desk, forge
from tests.support.eventually import eventually

TAG = b'"a,b"'
WAYS = ("/research/history/research.{}", "/research/history/research.{}?limit=2", "/api/jobs/research.{}")


@pytest.mark.parametrize(
    ("asked", "known"),
    [
        (b'"a,b"', True),
        (b'W/"a,b"', True),
        (b'"x", W/"y" ,"a,b"', True),
        (b', ,"a,b",', True),
        (b"*", True),
        (b" * ", True),
        (b'"a"', False),
        (b'"b"', False),
        (b"a,b", False),
        (b'w/"a,b"', False),
        (b'"a,b', False),
        (b'"x" "a,b"', False),
        (b'"a,b", *', False),
        (b"", False),
        (b'"\xff","a,b"', True),
    ],
    ids=repr,
)
def test_a_list_of_tags_is_compared_weakly(asked: bytes, known: bool) -> None:
    assert is_known(asked, TAG) is known


def test_what_has_no_tag_is_known_only_to_whoever_has_anything_at_all() -> None:
    assert not is_known(TAG, None)
    assert is_known(b"*", None)
    assert not is_known(None, TAG)


def test_several_headers_are_one_list() -> None:
    assert asked_for([(b"host", b"x"), (b"if-none-match", b'"a"'), (b"if-none-match", b'"b"')]) == b'"a","b"'
    assert asked_for([(b"host", b"x")]) is None


@given(st.binary(max_size=200))
def test_whatever_is_asked_is_answered(asked: bytes) -> None:
    assert is_known(asked, etag_of(b"x")) in {True, False}


def test_hostile_lists_are_read_in_no_time() -> None:
    for asked in (b'"a",' * 4000 + b"!", b", " * 8000 + b"x", b'"' * 16000, b'W/"' * 5000):
        assert not is_known(asked, TAG)


@pytest.mark.parametrize("path", WAYS)
async def test_what_a_client_has_is_not_sent_again(http: httpx2.AsyncClient, desk: Desk, path: str) -> None:
    key = f"tagged{WAYS.index(path)}"
    path = path.format(key)
    end = await race(desk, key)
    going_on = await http.get(path)
    assert "etag" not in going_on.headers
    assert going_on.headers["cache-control"] == "no-store"
    await end()
    told = await http.get(path)
    assert told.status_code == 200
    etag = told.headers["etag"]
    assert etag.startswith('"')
    assert told.headers["cache-control"] == "private, no-cache"
    for asked in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        again = await http.get(path, headers={"If-None-Match": asked})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == etag
        assert again.headers["cache-control"] == "private, no-cache"
        assert "content-type" not in again.headers
    for asked in ('"other"', etag.strip('"'), ""):
        again = await http.get(path, headers={"If-None-Match": asked})
        assert (again.status_code, again.content) == (200, told.content)
    two = await http.get(path, headers=[("If-None-Match", '"other"'), ("If-None-Match", etag)])
    assert two.status_code == 304
    head = await http.head(path)
    assert (head.status_code, head.headers["etag"]) == (200, etag)


async def test_each_form_of_a_history_has_a_tag_of_its_own(http: httpx2.AsyncClient, desk: Desk) -> None:
    await (await race(desk, "forms"))()
    path = "/research/history/research.forms"
    after = (await http.get(path)).json()[2]["id"]
    forms = ("", "?limit=3", "?attempt=current", f"?after={after}")
    assert len({(await http.get(path + form)).headers["etag"] for form in forms}) == len(forms)
    assert (await http.get(f"{path}?limit=1000")).headers["etag"] == (await http.get(path)).headers["etag"]


@pytest.mark.parametrize("path", WAYS)
async def test_a_reopened_job_is_told_anew(http: httpx2.AsyncClient, desk: Desk, path: str) -> None:
    key = f"reopened{WAYS.index(path)}"
    path = path.format(key)
    await desk.fail(await desk.start(key))
    etag = (await http.get(path)).headers["etag"]
    assert (await http.post(f"/api/jobs/research.{key}/retry")).status_code == 202

    async def asked() -> httpx2.Response:
        return await http.get(path, headers={"If-None-Match": etag})

    async def is_told() -> httpx2.Response | None:
        answer = await asked()  # the answer about an ended job is kept for a second
        return answer if answer.status_code == 200 else None

    going_on = await eventually("the answer says that it goes on", is_told)
    assert going_on is not None
    assert "etag" not in going_on.headers
    (held,) = await desk.claim()
    await desk.complete(held)
    if "limit" in path:
        assert (await asked()).status_code == 304, "its first two events are what they were"
    else:
        assert (await asked()).headers["etag"] != etag


async def test_what_somebody_writes_into_an_ended_log_changes_nothing(http: httpx2.AsyncClient, desk: Desk) -> None:
    await (await race(desk, "corrupt"))()
    path = "/research/history/research.corrupt?limit=100"
    etag = (await http.get(path)).headers["etag"]
    await desk.store.command("RPUSH", desk.keys.log("corrupt"), forge("research.corrupt", 99, 2, "completed"))
    assert (await http.get(path, headers={"If-None-Match": etag})).status_code == 304


async def test_a_job_that_is_not_there_is_not_found_whatever_the_client_has(http: httpx2.AsyncClient) -> None:
    for path in WAYS:
        assert (await http.get(path.format("none"), headers={"If-None-Match": "*"})).status_code == 404
