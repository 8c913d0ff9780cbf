"""The kinds that come with Tailrace; short enough to copy from."""

from consumers.handlers.drill import handles as drill
from consumers.handlers.material import handles as material
from consumers.handlers.plan import handles as plan
from consumers.handlers.research import handles as research
from consumers.handlers.scan import handles as scan
from consumers.registry import Handlers

BUILT_IN = Handlers().under(research).under(scan).under(plan).under(material).under(drill)

__all__ = ["BUILT_IN"]
