"""Any AG-UI agent behind one endpoint, with history. Stands on both towers."""

from threadkeep.gateway.app import create_app, open_gateway

__all__ = ["create_app", "open_gateway"]
