"""`tailrace schedules`: as a person types it."""

import json
from typing import Any

import pytest

from tests.ops.commands import Here, tailrace


def test_a_schedule_is_set_shown_paused_resumed_and_removed(valkey_url: str, here: Here) -> None:
    def listed(*words: str) -> list[dict[str, Any]]:
        code, out, err = here("schedules", *words, "--json", REDIS_URL=valkey_url)
        assert code == 0, err
        found: list[dict[str, Any]] = json.loads(out)
        return found

    words = ("set", "kurly", "nightly", "scan", '{"workflow_id":"all"}', "--cron", "0 3 * * *", "--tz", "Asia/Seoul")
    (made,) = listed(*words, "--missed", "once", "--options", '{"priority":"low"}')
    assert (made["name"], made["cron"], made["tz"], made["missed"]) == ("nightly", "0 3 * * *", "Asia/Seoul", "once")
    assert (made["args"], made["options"]) == ({"workflow_id": "all"}, {"priority": "low"})
    assert made["nextTick"].endswith("T18:00:00.000Z")
    assert listed() == listed("kurly") == [made]
    assert listed("ably") == []
    table = tailrace("schedules", REDIS_URL=valkey_url).stdout
    assert "nightly" in table
    assert "0 3 * * * Asia/Seoul" in table
    (paused,) = listed("pause", "kurly", "nightly")
    assert (paused["paused"], paused["nextTick"]) == (True, None)
    assert "paused" in here("schedules", REDIS_URL=valkey_url)[1]
    assert listed("resume", "kurly", "nightly") == [made]
    assert listed("remove", "kurly", "nightly") == []
    assert here("schedules", REDIS_URL=valkey_url)[1] == "no schedules\n"


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (("set", "kurly", "n", "drill"), "--cron: set exactly one of cron and --every", 2),
        (("set", "kurly", "n", "drill", "--every", "0"), "--every", 2),
        (("set", "kurly", "n", "drill", "--every", "often"), "--every", 2),
        (
            ("set", "kurly", "n", "drill", "--every", "5", "--missed", "some"),
            "--missed: must be one of all, once, skip, not 'some'",
            2,
        ),
        (("set", "kurly", "n", "drill", "--every", "5", "--options", "{"), "--options: is not JSON", 2),
        (("set", "kurly", "n", "drill", '{"steps":-1}', "--every", "5"), "args.steps", 2),
        (("set", "kurly", "n", "drill", "--every", "5", "--options", '{"attempts":0}'), "options.attempts", 2),
        (("set", "amazon", "n", "drill", "--every", "5"), "platform", 2),
        (("set", "kurly"), "set PLATFORM NAME KIND", 2),
        (("pause",), "pause PLATFORM NAME", 2),
        (("stop", "kurly", "n"), "there is no action 'stop'; choose among set, pause, resume, remove", 2),
        (("pause", "kurly", "nothing"), "no schedule nothing", 1),
    ],
)
def test_a_wrong_line_says_what_is_wrong(
    valkey_url: str, here: Here, words: tuple[str, ...], said: str, code: int
) -> None:
    ended, out, err = here("schedules", *words, REDIS_URL=valkey_url)
    assert (ended, out) == (code, "")
    assert said in err
    assert "Traceback" not in err
