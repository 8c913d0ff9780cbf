"""The narrow waist: what is in the store, and the only ways it may change."""

from importlib.util import find_spec
from pathlib import Path

from streams.connection import Store
from streams.keys import PlatformKeys
from streams.policies import Platforms, Policy
from streams.transitions import Transitions

__all__ = ["PlatformKeys", "Platforms", "Policy", "Store", "Transitions"]


def _guard_names() -> None:
    """Our package names are plain words: say so at once when a module of the user's stands in front of one."""
    for name in ("producers", "consumers", "gateway", "ops"):
        spec = find_spec(name)
        if spec and spec.origin and Path(spec.origin).parents[1] != Path(__file__).parents[1]:
            raise ImportError(f"{spec.origin} hides Tailrace's own package {name!r}: rename that file or folder")


_guard_names()
