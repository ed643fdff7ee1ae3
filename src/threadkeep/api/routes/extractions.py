"""The extraction of a session's memories: asked for, and how it stands."""

import json
from typing import Annotated

from msgspec import Meta, Raw, Struct, field
from starlette.responses import Response

from threadkeep import clock
from threadkeep.api.constraints import Metadata, Timestamp, Total
from threadkeep.api.errors import json_response
from threadkeep.api.json import Reader
from threadkeep.api.routing import IDEMPOTENCY_KEY, Call, Operation
from threadkeep.domain import extraction, limits
from threadkeep.domain.extraction import Extraction
from threadkeep.errors import Invalid

_STATES = ["none", "pending", "running", "extracted", "nothing found", "failed"]


def _null() -> Raw:
    return Raw(b"null")


class ExtractionIn(Struct, rename="camel"):
    """What is to become of the session, and what each memory gets."""

    soft_delete: bool = False
    agent_id: Annotated[str, Meta(extra_json_schema={"maxLength": limits.SCOPE_ID})] | None = None
    metadata: Metadata = field(default_factory=_null)


class ExtractionOut(Struct, rename="camel"):
    """How the extraction of a session stands."""

    state: Annotated[str, Meta(extra_json_schema={"enum": _STATES})]
    summary: str
    memories: Total
    attempts: Total
    error: str | None
    last_sequence_id: Total
    requested_at: Timestamp | None
    updated_at: Timestamp | None


async def _request(call: Call) -> Response:
    opts = _opts(call.body, call.reader)
    stands = await call.services.extractions.request(
        call.principal,
        call.space_id,
        call.session_id,
        opts,
        soft_delete=call.body.soft_delete,
        once=call.once(_accepted),
    )
    return _accepted(stands)


async def _get(call: Call) -> Response:
    stands = await call.services.extractions.state(call.principal, call.space_id, call.session_id)
    return json_response(_out(stands))


def _accepted(stands: Extraction) -> Response:
    return json_response(_out(stands), 202)


def _opts(body: ExtractionIn, reader: Reader) -> str:
    """The options as JSON, the metadata as it came. Raises Invalid."""
    agent_id = reader.optional_text(body.agent_id)
    limits.check_text(agent_id, limits.SCOPE_ID, "agentId")
    metadata = reader.raw(body.metadata)
    if not metadata.startswith("{") and metadata != "null":
        raise Invalid("metadata is an object or null", ["metadata"], "dict_type")
    limits.check_bytes(limits.byte_length(metadata), limits.METADATA_BYTES, "metadata")
    return f'{{"agentId":{json.dumps(agent_id)},"metadata":{metadata}}}'


def _out(stands: Extraction) -> ExtractionOut:
    times = [None if at is None else clock.format_timestamp(at) for at in (stands.requested_at, stands.updated_at)]
    return ExtractionOut(
        stands.state,
        extraction.summary(stands),
        stands.found,
        stands.attempts,
        stands.error,
        stands.read_to,
        *times,
    )


_THIS = "/memory/{space_id}/sessions/{session_id}/extract/"

OPERATIONS = [
    Operation(
        "POST",
        _THIS,
        "Extract the memories of what was said since the last time, or try again what failed",
        _request,
        takes=ExtractionIn,
        gives=ExtractionOut,
        status=202,
        headers=(IDEMPOTENCY_KEY,),
        fails=(404,),
    ),
    Operation("GET", _THIS, "How the extraction of a session stands", _get, gives=ExtractionOut, fails=(404,)),
]
