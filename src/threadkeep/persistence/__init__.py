"""The async typed ORM over the Memory Service. Knows nothing of AG-UI."""

from threadkeep.persistence.client import DRMemoryServiceClient
from threadkeep.persistence.errors import (
    DRMemoryBadRequestError,
    DRMemoryConflictError,
    DRMemoryNotFoundError,
    DRMemoryRateLimitError,
    DRMemoryServiceError,
    DRMemoryUnavailableError,
    DRMemoryValidationError,
    DRMemoryVersionConflictError,
)
from threadkeep.persistence.event import DREvent
from threadkeep.persistence.markers import DRConcurrencyField, DRDeduplicationKey, DRRangeKey
from threadkeep.persistence.session import DEFAULT_SESSION_TTL_SECONDS, SYSTEM_PARTICIPANT, DRSession
from threadkeep.persistence.space import DRMemorySpace

__all__ = [
    "DEFAULT_SESSION_TTL_SECONDS",
    "SYSTEM_PARTICIPANT",
    "DRConcurrencyField",
    "DRDeduplicationKey",
    "DREvent",
    "DRMemoryBadRequestError",
    "DRMemoryConflictError",
    "DRMemoryNotFoundError",
    "DRMemoryRateLimitError",
    "DRMemoryServiceClient",
    "DRMemoryServiceError",
    "DRMemorySpace",
    "DRMemoryUnavailableError",
    "DRMemoryValidationError",
    "DRMemoryVersionConflictError",
    "DRRangeKey",
    "DRSession",
]
