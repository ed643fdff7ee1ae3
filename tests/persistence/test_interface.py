"""The interface of the ORM: names, arguments and defaults that applications rely on."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from threadkeep import persistence
from threadkeep.persistence import DREvent, DRMemoryServiceClient, DRMemoryServiceError, DRMemorySpace, DRSession


def test_every_name_is_exported() -> None:
    assert set(persistence.__all__) == {
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
    }
    assert all(hasattr(persistence, name) for name in persistence.__all__)


def test_every_error_is_a_service_error() -> None:
    errors = [getattr(persistence, name) for name in persistence.__all__ if name.endswith("Error")]
    assert len(errors) == 8
    assert all(issubclass(error, DRMemoryServiceError) for error in errors)


@pytest.mark.parametrize(
    ("function", "signature"),
    [
        (
            DRMemoryServiceClient,
            "*, endpoint=None, api_token=None, base_path='memory', http_client=None, timeout=30.0",
        ),
        (DRMemoryServiceClient.request, "self, method, path, *, params=None, json=None, extra_headers=None"),
        (DRMemoryServiceClient.aclose, "self"),
        (
            DRMemorySpace.post,
            "client, *, description=None, deduplication_key=None, llm_model_name=None, llm_base_url=None, "
            "custom_instructions=None",
        ),
        (DRMemorySpace.get, "client, space_id"),
        (DRMemorySpace.list, "client, *, deduplication_key=None, offset=0, limit=100"),
        (
            DRMemorySpace.patch,
            "self, *, description=NOT_GIVEN, llm_model_name=NOT_GIVEN, llm_base_url=NOT_GIVEN, "
            "custom_instructions=NOT_GIVEN",
        ),
        (DRMemorySpace.delete, "self"),
        (DRSession.post, "space, **fields"),
        (DRSession.get, "space, id=None, **key"),
        (DRSession.list, "space, *, participant=None, **leading_range_keys"),
        (DRSession.patch, "self, **fields"),
        (DRSession.patch_lifecycle_strategies, "self, strategies"),
        (DRSession.delete, "self"),
        (DREvent.post, "session, *, content, emitter_type='agent', emitter_id=None, **body"),
        (DREvent.post_batch, "session, events"),
        (DREvent.list, "session, *, type=None, offset=0, limit=100"),
        (DREvent.last, "session, *, n=1, type=None"),
        (DREvent.patch, "self, **fields"),
        (DREvent.patch_batch, "session, updates"),
        (DREvent.delete, "self"),
    ],
)
def test_arguments_and_defaults_stay_as_they_are(function: Callable[..., Any], signature: str) -> None:
    parameters = inspect.signature(function).parameters.values()
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    assert str(inspect.Signature(bare))[1:-1] == signature
