"""Any AG-UI agent behind one endpoint, with history. Stands on both towers."""

from threadkeep.gateway.app import open_gateway
from threadkeep.gateway.mounting import Authenticate, Gateway, create_app

__all__ = ["Authenticate", "Gateway", "create_app", "open_gateway"]
