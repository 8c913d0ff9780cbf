"""The narrow waist: what is in the store, and the only ways it may change."""

from tailrace.streams.keys import PlatformKeys
from tailrace.streams.policies import Platforms, Policy
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Transitions

__all__ = ["PlatformKeys", "Platforms", "Policy", "Store", "Transitions"]
