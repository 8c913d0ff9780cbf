"""What is seen: HTTP, live streams and the one visible history of each job."""

from gateway.fold import Fold, visible
from gateway.settings import GatewaySettings

__all__ = ["Fold", "GatewaySettings", "visible"]
