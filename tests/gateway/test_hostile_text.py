"""Text that tries to be something else: on every way to a client it is one event with exactly that text."""

import asyncio
from typing import Any

import httpx2
import msgspec
import pytest

from tailrace.streams.history.events import event_body
from tailrace.streams.messages import Claim
from tests.gateway.event_source import EventSource, all_jobs, live
from tests.support.builders import Desk
from tests.support.deployment import Deployment

TEXTS = {
    "lines": "one\ntwo\n\nthree",
    "an event": "x\n\nevent: end\ndata: {}\n\n",
    "an id and a retry": "x\nid: 99-1\nretry: 1\n\n",
    "a comment": "\n: ping\n\n",
    "CR": "one\rtwo\r\r\ndata: x\r",
    "NUL": "a\0b\0",
    "every control": "".join(map(chr, range(32))) + "\x7f\x80\x85\x9f",
    "line ends of others": "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg",
    "a script": "</script><script>alert(1)</script><!--]]>",
    "a byte order mark": "\ufeffx\ufeff",
    "no characters": "\ufffe\uffff\U0010ffff",
    "right to left": "\u202eevil\u202c\u200b\u2066",
    "JSON": '"},{"id":"9-9","seq":9,"status":"completed"}]',
    "backslashes": "\\u0000 \\n \\\\ \" '",
    "many scripts": "한국어 日本語 عربى 🧪👩‍👩‍👧 é e\u0301",
    "a chunk": "0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    "empty": "",
    "spaces": "  leading and trailing  ",
    "64 KB": "\n\u2028</script>" * 5_000,
    "64 KB in one line": "x" * 65_536,
}


async def report(desk: Desk, held: Claim, number: int, text: str) -> None:
    event = event_body(held.number, "progress", "ann", number, message=text, data={"text": text, text[:64]: 1})
    assert await desk.transitions.report(desk.keys, held.key, held.nonce, number, event) != "lost"


def shown(event: dict[str, Any], text: str) -> bool:
    return (event["status"], event["message"], event["data"]["text"]) == ("progress", text, text)


async def test_each_text_is_one_event_on_stream_history_and_the_stream_of_many_jobs(
    http: httpx2.AsyncClient, gateway: str, desk: Desk
) -> None:
    async with all_jobs(gateway, "?platform=research") as many, many.open() as hearing:
        await live(desk, hearing)
        held = await desk.start("hostile")
        async with EventSource(gateway, "research.hostile") as source, source.open() as reading:
            assert [message.told.status for message in await reading.take(2)] == ["queued", "started"]
            for number, (name, text) in enumerate(TEXTS.items(), 1):
                await report(desk, held, number, text)
                (message,) = await asyncio.wait_for(reading.take(1), 20)
                event = msgspec.json.decode(message.data)
                assert shown(event, text), f"{name} on the stream"
                assert (event["seq"], message.id) == (number + 2, event["id"]), name
            await desk.complete(held)
            assert [message.event for message in await reading.rest()] == ["message", "end"]
        heard: list[dict[str, Any]] = []
        while not heard or heard[-1]["status"] != "completed" or heard[-1]["jobId"] != "research.hostile":
            (message,) = await asyncio.wait_for(hearing.take(1), 20)
            heard += [msgspec.json.decode(message.data)]
    told = {event["seq"]: event for event in heard if event["jobId"] == "research.hostile"}
    history = (await http.get("/research/history/research.hostile")).json()
    assert len(history) == len(TEXTS) + 3
    for event, (name, text) in zip(history[2:-1], TEXTS.items(), strict=True):
        assert shown(event, text), f"{name} in the history"
        many_jobs = told[event["seq"]]
        if many_jobs["status"] == "large":
            assert len(text) > 4_000, name
        else:
            assert many_jobs == event, f"{name} on the stream of many jobs"
    async with EventSource(gateway, "research.hostile") as source, source.open() as reading:
        again = [msgspec.json.decode(message.data) for message in (await reading.rest())[:-1]]
    assert again == history, "the past in one piece is the same"


async def test_a_text_that_a_client_brings_is_reported_as_it_is(deployment: Deployment) -> None:
    """The whole way: asked for over HTTP, reported by a real consumer, read again over HTTP."""
    gateway, _ = await asyncio.gather(deployment.gateway(), deployment.consumer("research"))
    jobs = {}
    for name, text in TEXTS.items():
        args = {"steps": 1, "seconds": 0, "text": text}
        body = {"platform": "research", "kind": "drill", "args": args}
        answer = await deployment.http.post(f"{gateway.url}/api/jobs", json=body)
        assert answer.status_code == 202, f"{name}: {answer.text}"
        jobs[name] = answer.json()["jobId"]
    for name, job_id in jobs.items():
        async with EventSource(gateway.url, job_id) as source, source.open() as reading:
            messages = await asyncio.wait_for(reading.rest(), 20)
        texts = [msgspec.json.decode(message.data).get("message") for message in messages if message.id]
        assert texts == [None, None, TEXTS[name], None], name


@pytest.mark.parametrize("half", [r"\ud800", r"\udfff", r"x\ud83dx"])
async def test_half_a_character_is_refused_at_the_door(http: httpx2.AsyncClient, half: str) -> None:
    """No browser could be sent it: it has no form in UTF-8."""
    body = f'{{"platform":"research","kind":"drill","args":{{"text":"{half}"}}}}'
    answer = await http.post("/api/jobs", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"
