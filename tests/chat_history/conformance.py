"""An independent judge of streams: `ag-ui-validate`, for the types that it knows."""

from collections.abc import Iterable, Mapping
from typing import Any

import ag_ui_validate


def errors_of(events: Iterable[Mapping[str, Any]]) -> set[tuple[str, int]]:
    """The rules that a stream breaks, each with the place of the event that breaks it (-1: the end)."""
    validator = ag_ui_validate.create_validator()
    for event in events:
        validator.feed(dict(event))
    validator.finalize()
    report = validator.report()
    assert report.internal_errors == []
    return {(found.rule, found.event_index) for found in report.diagnostics if found.severity == "error"}
