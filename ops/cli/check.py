"""`check`: format, lint, types and imports, one line each."""

import argparse
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from tailrace.ops.bootstrap import require_checkout

CHECKS = {
    "format": [sys.executable, "-m", "ruff", "format", "--check", "--output-format", "concise", "."],
    "lint": [sys.executable, "-m", "ruff", "check", "--output-format", "concise", "."],
    "types": [sys.executable, "-m", "mypy"],
    "imports": [str(Path(sysconfig.get_path("scripts")) / "lint-imports")],
}


def run(options: argparse.Namespace) -> int:
    checkout = require_checkout()
    results = [passes(name, command, checkout) for name, command in CHECKS.items()]
    return 0 if all(results) else 1


def passes(name: str, command: list[str], checkout: Path) -> bool:
    started = time.monotonic()
    result = subprocess.run(
        command, cwd=checkout, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    good = result.returncode == 0
    print(f"{name:8}{'ok' if good else 'FAILED':8}{time.monotonic() - started:.1f} s", flush=True)
    if not good:
        print(result.stdout.rstrip(), flush=True)
    return good
