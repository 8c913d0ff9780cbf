"""`python -m tailrace.ops.monitoring.rule_file` writes the rules for Prometheus; a test holds the file to the table."""

import json
from collections.abc import Iterator
from pathlib import Path

from tailrace.ops.monitoring.rules import RULES, Rule

FILE = Path(__file__).resolve().parents[1] / "deploy" / "prometheus" / "rules.yml"
RUNBOOK = "ops/runbook.md"

HEAD = """\
# Made by ops/monitoring/rule_file.py from the table in rules.py, which `tailrace alerts` goes by too.
groups:
  - name: tailrace
    rules:
"""


def rule_file() -> str:
    return HEAD + "".join(line for rule in RULES for line in lines_of(rule))


def lines_of(rule: Rule) -> Iterator[str]:
    """JSON strings are YAML strings."""
    yield f"      - alert: {rule.name}\n"
    yield f"        expr: {json.dumps(rule.promql)}\n"
    if rule.for_seconds:
        yield f"        for: {rule.for_seconds:g}s\n"
    yield f"        labels:\n          severity: {rule.severity}\n"
    subject = "{{ with $labels.platform }}{{ . }}: {{ end }}"
    yield "        annotations:\n"
    yield f"          summary: {json.dumps(rule.says)}\n"
    yield f"          description: {json.dumps(subject + rule.number)}\n"
    yield f"          runbook: {RUNBOOK}#{rule.anchor}\n"


if __name__ == "__main__":
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(rule_file(), encoding="utf-8")
