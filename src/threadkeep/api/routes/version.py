"""The version of the hosted contract that is served, for its SDK probes for it, and what is served beyond it."""

from starlette.responses import Response

from threadkeep.api.errors import json_response
from threadkeep.api.routing import Call, Operation
from threadkeep.api.schemas import VersionOut
from threadkeep.contract.version import FEATURES

_VERSION = VersionOut(2, 49, "2.49.0", "2.49.0", FEATURES)


async def _get(call: Call) -> Response:
    return json_response(_VERSION)


OPERATIONS = [
    Operation(
        "GET",
        "/version/",
        "Get the version of the contract that is served",
        _get,
        gives=VersionOut,
        needs_token=False,
    )
]
