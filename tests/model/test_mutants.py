"""A check that cannot fail is no check: the model catches scripts that were broken on purpose."""

import inspect
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, settings

from tailrace.streams.functions import Function, functions
from tailrace.streams.history import fold
from tests.model.flow_machine import perform_flows
from tests.model.machine import perform
from tests.model.play import Play, Show

pytestmark = pytest.mark.timeout(240)  # a hunt computes: on a busy machine it takes a minute

HUNT = settings(
    max_examples=200,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],  # one example of the breach is enough, it need not be the shortest
    report_multiple_bugs=False,
)

UNFENCED = """
local lease = setmetatable({}, { __index = lease })
function lease.fence(key)
  for _, text in ipairs(redis.call('HVALS', keys.leases)) do
    local held_key, job = lease.read(text, nonce)
    if held_key == key then
      return job
    end
  end
end
function lease.stands() return true end
function lease.own(_, key) return lease.fence(key), 'lost' end
lease.at_work = lease.own
local job"""

UNFENCED_REPORT = f"""
{UNFENCED}
function lease.glance(key)
  for _, text in ipairs(redis.call('HVALS', keys.leases)) do
    local reported, seq, holds, started, rest = match(text, '^(%d+) (%d+) (%S+) (%S+) (.*)$')
    if holds == key then
      return reported, seq, started, rest
    end
  end
end
local reported"""

MUTANTS: dict[str, tuple[str, str, str]] = {
    "a report without the fence": ("report", "local reported", UNFENCED_REPORT),
    "a completion without the fence": ("complete", "local job", UNFENCED),
    "a release without the fence": ("release", "local job", UNFENCED),
    "a reclaim that does not compare the beat counter": (
        "reclaim",
        "(call('HGET', keys.beats, owner) or '') ~= counter",
        "false",
    ),
    "a reclaim that leaves the old fence in place": ("reclaim", "'nonce', '', ", ""),
    "a claim that ignores how many may run": ("claim", "if tonumber(max_running) > 0 then", "if false then"),
    "a claim that gives one nonce to two jobs": (
        "claim",
        "if #wanted > 0 and (vacated > 0 or call('EXISTS', keys.leases) == 1) then",
        "if false then",
    ),
    "a claim in strict order that lets others pass": ("claim", "if blocked then", "if false then"),
    "a completion that rings before it looks": ("complete", "local job", "call_idle(1)\nlocal job"),
    "a completion that does not obey a cancel": ("complete", "ends.obeyed(record, key, job)", "false"),
    "a failure that is not counted": ("fail", "call('HSET', record, 'failures', failures)", ""),
    "a reopening of a running job": ("reopen", "state ~= 'failed' and", "state ~= 'running' and state ~= 'failed' and"),
    "a delay that forgets the time": ("delay", "format('%.0f', until_ms), history.body", "1, history.body"),
    "reports together that are not counted": ("report", "format('%d', number - left)", "reported"),
    "reports together that are counted as one": ("report", "format('%d', number - left)", "reported + 1"),
    "a wake that wakes nobody": (
        "wake",
        "local count = waking.bring_due(max_running_per_key, key_rate, key_rate_ms)",
        "local count = 0",
    ),
}


def broken(name: str, right: str, wrong: str) -> Function:
    """A transition with one piece of its text replaced."""
    function = functions()[name]
    assert function.body.count(right) == 1, f"{name}.lua does not contain {right!r} once: this mutant is out of date"
    return msgspec.structs.replace(function, body=function.body.replace(right, wrong))


def broken_fold(right: str, wrong: str) -> Show:
    """The fold with one piece of its text replaced."""
    text = inspect.getsource(fold)
    assert text.count(right) == 1, f"fold.py does not contain {right!r} once: this mutant is out of date"
    names: dict[str, Any] = {"__name__": "broken_fold"}
    exec(text.replace(right, wrong), names)
    show: Show = names["visible"]
    return show


def hunt(play: Play) -> None:
    with pytest.raises(AssertionError):
        perform(play, HUNT)


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(name, marks=[] if number < 5 else pytest.mark.chaos) for number, name in enumerate(MUTANTS)],
)
def test_the_model_catches(mutant: str, valkey_url: str) -> None:
    name, right, wrong = MUTANTS[mutant]
    hunt(Play(valkey_url, {name: broken(name, right, wrong)}))


SHARED_MUTANTS: dict[str, tuple[str, str]] = {
    "a call that takes a consumer off the list and forgets to ring": ("call('RPUSH', bell, 1)", ""),
    "a call that is not noted": (
        "call('PEXPIRE', bell, BELL_MS)\n    call('ZADD', keys.called, before or now_us, owners[i])",
        "call('PEXPIRE', bell, BELL_MS)",
    ),
    "a job that comes back before every priority": (
        "suspect and keys.suspects or keys.fronts[job.band]",
        "suspect and keys.suspects or keys.fronts.urgent",
    ),
    "a claim that gives up on an entry that is not pending": ("if now or held_back then", "if now then"),
    "work that calls nobody": ("call_idle(count)\n", "\n"),
}


@pytest.mark.parametrize("mutant", SHARED_MUTANTS)
def test_the_model_catches_in_shared_lines(mutant: str, valkey_url: str) -> None:
    play = Play(valkey_url, shared=SHARED_MUTANTS[mutant])
    hunt(play)
    assert play.is_broken, "no script contains the line: this mutant is out of date"


def test_the_model_catches_a_fold_that_shows_duplicates(valkey_url: str) -> None:
    known = "if head.id in self._seen or head.seq in self._seen or what in self._seen:"
    hunt(Play(valkey_url, show=broken_fold(known, "if False:")))


QUICK = {"a spawn without the fence", "an outbox that forgets a job", "an end that wakes its parent twice"}
FLOW_MUTANTS: dict[str, tuple[str, str, str]] = {
    "a spawn without the fence": ("spawn", "local job", UNFENCED),
    "a checkpoint without the fence": ("checkpoint", "local job", UNFENCED),
    "an outbox that forgets a job": ("spawn", "call('XADD', keys.outbox, ", "tostring("),
    "an outbox that keeps what was delivered": ("delivered", "call('XDEL', keys.outbox, unpack(gone))", "#gone"),
    "a wait that misses the last end": ("wait", "pending <= 0 or ", ""),
    "a join that counts a child twice": ("join", "if news ~= '!' .. number and not marked[id] then", "if true then"),
    "a retried parent that asks no failed child again": (
        "spawn",
        "if ended and ended ~= 'completed' then",
        "if false then",
    ),
    "a signal that wakes nobody": ("signal", "places.go_on(record, key, job)", ""),
}


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(name, marks=[] if name in QUICK else pytest.mark.chaos) for name in FLOW_MUTANTS],
)
def test_the_model_of_flows_catches(mutant: str, valkey_url: str) -> None:
    name, right, wrong = FLOW_MUTANTS[mutant]
    with pytest.raises(AssertionError):
        perform_flows(Play(valkey_url, {name: broken(name, right, wrong)}), HUNT)


SHARED_FLOW_MUTANTS: dict[str, tuple[str, str]] = {
    "an end that counts whenever it is delivered": ("elseif known ~= '' and not number then", "elseif false then"),
    "an end that wakes its parent twice": ("if state == 'awaiting' and job.awaits == 'join' then", "if true then"),
    "an outbox that forgets an end": ("redis.pcall('XADD', keys.outbox, '*', 'do', 'arrive', ", "tostring("),
    "a cancel that leaves the children alone": ("redis.pcall('XADD', keys.outbox, '*', 'do', 'cancel', ", "tostring("),
    "a sleep that is not over when it is over": ("call('HSET', key_of('steps', key), place, 'true')", ""),
}


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(name, marks=[] if name in QUICK else pytest.mark.chaos) for name in SHARED_FLOW_MUTANTS],
)
def test_the_model_of_flows_catches_in_shared_lines(mutant: str, valkey_url: str) -> None:
    play = Play(valkey_url, shared=SHARED_FLOW_MUTANTS[mutant])
    with pytest.raises(AssertionError):
        perform_flows(play, HUNT)
    assert play.is_broken, "no script contains the line: this mutant is out of date"
