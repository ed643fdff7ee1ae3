"""What the OpenAPI document says of single values. The rules themselves are the domain's; nothing is checked here."""

from typing import Annotated, Any

from msgspec import Meta, Raw

from threadkeep.domain import limits
from threadkeep.domain.event import EMITTERS
from threadkeep.domain.lifecycle import TRIGGERS, TYPES


def _says(**keywords: Any) -> Meta:
    return Meta(extra_json_schema=keywords)


def _text(longest: int, shortest: int = 0) -> Meta:
    return _says(maxLength=longest, **({"minLength": shortest} if shortest else {}))


ID: dict[str, Any] = {"type": "string", "format": "uuid"}
SEQUENCE_ID: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": limits.INTEGER}
LOOKUP_KEY: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": limits.LOOKUP_KEY}
TIMESTAMP: dict[str, Any] = {"type": "string", "format": "date-time"}
VERSION_PRECONDITION: dict[str, Any] = {"type": "string", "pattern": r'^(\*|[0-9]{1,18}|"[0-9]{1,18}")$'}

Id = Annotated[str, _says(format="uuid")]
UserId = Annotated[str, _says(pattern="^[0-9a-f]{24}$")]
Timestamp = Annotated[str, _says(format="date-time")]
SequenceId = Annotated[int, _says(minimum=1)]
Version = Annotated[int, _says(minimum=1)]
Total = Annotated[int, _says(minimum=0)]
Limit = Annotated[int, _says(minimum=1, maximum=limits.PAGE)]

Description = Annotated[str, _text(limits.DESCRIPTION)]
LlmModelName = Annotated[str, _text(limits.SPACE_TEXT["llm_model_name"])]
LlmBaseUrl = Annotated[str, _text(limits.SPACE_TEXT["llm_base_url"])]
CustomInstructions = Annotated[str, _text(limits.SPACE_TEXT["custom_instructions"])]
DeduplicationKey = Annotated[str, _text(limits.DEDUPLICATION_KEY, 1)]
LookupKey = Annotated[str, _text(limits.LOOKUP_KEY, 1)]
LOOKUP_KEYS = _says(
    maxItems=limits.LOOKUP_KEYS,
    description="What the event is found by in its space; no other event of its type there may have one of them.",
)
EventType = Annotated[str, _text(limits.EVENT_TYPE, 1)]
EmitterType = Annotated[str, _says(enum=list(EMITTERS))]
EmitterId = Annotated[str, _text(limits.PARTICIPANT)]
Participant = Annotated[str, _text(limits.PARTICIPANT, 1)]
PARTICIPANTS = _says(minItems=1, maxItems=limits.PARTICIPANTS)
BATCH = _says(minItems=1, maxItems=limits.BATCH)
STRATEGIES = _says(maxItems=limits.STRATEGIES)
STRATEGIES_KEPT = _says(minItems=1, maxItems=limits.STRATEGIES)

StrategyType = Annotated[str, _says(enum=list(TYPES))]
_TRIGGER: dict[str, Any] = {
    "type": "object",
    "description": "Exactly one: seconds since the creation (ttl) or the last event (idle), a count, or never.",
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
    "properties": {
        **{kind: {"type": "integer", "minimum": 1, "maximum": most} for kind, most in TRIGGERS.items()},
        "never": {"const": True},
    },
}
_OPTIONS: dict[str, Any] = {
    "type": ["object", "null"],
    "description": f"For extract_memories only; {limits.METADATA_BYTES:,} bytes at most.",
    "additionalProperties": False,
    "properties": {
        "softDelete": {"type": "boolean", "default": True},
        "agentId": {"type": ["string", "null"]},
        "metadata": {"type": ["object", "null"]},
    },
}
Trigger = Annotated[dict[str, Any], _says(**_TRIGGER)]
Options = Annotated[Raw, _says(**_OPTIONS)]
Strategies = Annotated[
    Raw,
    _says(
        type="array",
        minItems=1,
        maxItems=limits.STRATEGIES,
        items={
            "type": "object",
            "required": ["type", "trigger", "opts"],
            "additionalProperties": False,
            "properties": {"type": {"enum": list(TYPES)}, "trigger": _TRIGGER, "opts": _OPTIONS},
        },
    ),
]

Metadata = Annotated[
    Raw, _says(type=["object", "null"], description=f"Kept as it is sent; {limits.METADATA_BYTES:,} bytes at most.")
]
_BODY: dict[str, Any] = {
    "description": f"Kept as it is sent; {limits.BODY_BYTES:,} bytes at most.",
    "properties": {
        "content": {
            "type": "string",
            "minLength": 1,
            "description": f"{limits.CONTENT:,} characters at most, unless the operator has set another number.",
        }
    },
}
Body = Annotated[Raw, _says(type="object", **_BODY)]
BodyOrNull = Annotated[Raw, _says(type=["object", "null"], **_BODY)]
