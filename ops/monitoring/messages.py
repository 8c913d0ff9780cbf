"""The text of alerts in Slack and in Discord. No name of a worker or platform in it can mention a person."""

import re
from typing import Final

import msgspec

from tailrace.ops.monitoring.rule_file import RUNBOOK
from tailrace.ops.monitoring.rules import STORE, Rule
from tailrace.ops.terminal import span

LONGEST: Final = 1900  # characters; Discord takes 2,000
ZERO_WIDTH: Final = "\u200b"


def firing(rule: Rule, subject: str, facts: str) -> str:
    return f"FIRING ({rule.severity}) {short(rule)}: {of(subject)}{facts}. {rule.says} {see(rule)}"


def still(rule: Rule, subject: str, facts: str, seconds: float) -> str:
    return f"STILL FIRING, for {span(seconds)}, {short(rule)}: {of(subject)}{facts}. {see(rule)}"


def resolved(name: str, subject: str, seconds: float) -> str:
    return f"RESOLVED {name.removeprefix('Tailrace')}: {of(subject)}after {span(seconds)}."


def short(rule: Rule) -> str:
    return rule.name.removeprefix("Tailrace")


def of(subject: str) -> str:
    return "" if subject == STORE else f"{subject}: "


def see(rule: Rule) -> str:
    return f"See {RUNBOOK}#{rule.anchor}"


def quietened(text: str) -> str:
    """Without anything that a chat takes for a mention: @everyone, <!channel>, <@U1>."""
    return re.sub("@", f"@{ZERO_WIDTH}", text[:LONGEST])


def slack(text: str) -> bytes:
    escaped = quietened(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return msgspec.json.encode({"text": escaped, "link_names": False, "unfurl_links": False})


def discord(text: str) -> bytes:
    return msgspec.json.encode({"content": quietened(text), "allowed_mentions": {"parse": []}})
