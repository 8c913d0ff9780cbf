"""The kinds that come with Tailrace; short enough to copy from."""

from tailrace.consumers.handlers.drill import handles as drill
from tailrace.consumers.handlers.material import handles as material
from tailrace.consumers.handlers.plan import handles as plan
from tailrace.consumers.handlers.research import handles as research
from tailrace.consumers.handlers.scan import handles as scan
from tailrace.consumers.registry import Handlers

BUILT_IN = Handlers().under(research).under(scan).under(plan).under(material).under(drill)

__all__ = ["BUILT_IN"]
