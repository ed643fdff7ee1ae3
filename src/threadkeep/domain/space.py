"""Memory spaces: the boundary that everything else lives in."""

from dataclasses import dataclass

from threadkeep.domain import limits


@dataclass(frozen=True, slots=True)
class Space:
    """A memory space as it is kept; `created_at` in microseconds since 1970."""

    id: str
    user_id: str
    tenant_id: str
    description: str | None
    llm_model_name: str | None
    llm_base_url: str | None
    custom_instructions: str | None
    deduplication_key: str | None
    created_at: int


@dataclass(frozen=True, slots=True)
class SpaceDraft:
    """What a caller says of a space that is to be made."""

    description: str | None = None
    llm_model_name: str | None = None
    llm_base_url: str | None = None
    custom_instructions: str | None = None
    deduplication_key: str | None = None


WIRE_NAMES = {
    "description": "description",
    "llm_model_name": "llmModelName",
    "llm_base_url": "llmBaseUrl",
    "custom_instructions": "customInstructions",
}
"""The four text fields that a caller may change, by their names on the wire."""


def check(fields: dict[str, str | None]) -> None:
    """Raise Invalid where a text field is over its limit."""
    for name, value in fields.items():
        limits.check_text(value, limits.SPACE_TEXT[name], WIRE_NAMES[name])


def check_draft(draft: SpaceDraft) -> None:
    """Raise Invalid where the draft breaks a limit."""
    check({name: getattr(draft, name) for name in WIRE_NAMES})
    limits.check_deduplication_key(draft.deduplication_key)
