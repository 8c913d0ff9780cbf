"""`tailrace schedules`: as a person types it."""

import json
from typing import Any

import pytest

from tests.ops.commands import tailrace


def listed(url: str, *words: str) -> list[dict[str, Any]]:
    answer = tailrace("schedules", *words, "--json", REDIS_URL=url)
    assert answer.returncode == 0, answer.stderr
    found: list[dict[str, Any]] = json.loads(answer.stdout)
    return found


def test_a_schedule_is_set_shown_paused_resumed_and_removed(valkey_url: str) -> None:
    words = ("set", "kurly", "nightly", "scan", '{"workflow_id":"all"}', "--cron", "0 3 * * *", "--tz", "Asia/Seoul")
    (made,) = listed(valkey_url, *words, "--missed", "once", "--options", '{"priority":"low"}')
    assert (made["name"], made["cron"], made["tz"], made["missed"]) == ("nightly", "0 3 * * *", "Asia/Seoul", "once")
    assert (made["args"], made["options"]) == ({"workflow_id": "all"}, {"priority": "low"})
    assert made["nextTick"].endswith("T18:00:00.000Z")
    assert listed(valkey_url) == listed(valkey_url, "kurly") == [made]
    assert listed(valkey_url, "ably") == []
    table = tailrace("schedules", REDIS_URL=valkey_url).stdout
    assert "nightly" in table
    assert "0 3 * * * Asia/Seoul" in table
    (paused,) = listed(valkey_url, "pause", "kurly", "nightly")
    assert (paused["paused"], paused["nextTick"]) == (True, None)
    assert "paused" in tailrace("schedules", REDIS_URL=valkey_url).stdout
    assert listed(valkey_url, "resume", "kurly", "nightly") == [made]
    assert listed(valkey_url, "remove", "kurly", "nightly") == []
    assert tailrace("schedules", REDIS_URL=valkey_url).stdout == "no schedules\n"


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (("set", "kurly", "n", "drill"), "cron", 2),
        (("set", "kurly", "n", "drill", "--every", "0"), "every_seconds", 2),
        (("set", "kurly", "n", "drill", "--every", "often"), "--every", 2),
        (("set", "kurly", "n", "drill", "--every", "5", "--missed", "some"), "missed", 2),
        (("set", "kurly", "n", "drill", '{"steps":-1}', "--every", "5"), "args.steps", 2),
        (("set", "kurly", "n", "drill", "--every", "5", "--options", '{"attempts":0}'), "options.attempts", 2),
        (("set", "amazon", "n", "drill", "--every", "5"), "platform", 2),
        (("set", "kurly"), "set PLATFORM NAME KIND", 2),
        (("pause",), "pause PLATFORM NAME", 2),
        (("pause", "kurly", "nothing"), "no schedule nothing", 1),
    ],
)
def test_a_wrong_line_says_what_is_wrong(valkey_url: str, words: tuple[str, ...], said: str, code: int) -> None:
    answer = tailrace("schedules", *words, REDIS_URL=valkey_url)
    assert (answer.returncode, answer.stdout) == (code, "")
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr
