"""Folds for tests, and what to look at of them."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from threadkeep.chat_history.ag_ui.fold import Fold

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def fold(events: Iterable[Mapping[str, Any]], **options: Any) -> Fold:
    """A fold that has taken these events, a millisecond apart."""
    folded = Fold(NOW, **options)
    for place, event in enumerate(events):
        folded.apply(event["type"], event, NOW + timedelta(milliseconds=place))
    return folded


def rows(folded: Fold) -> list[dict[str, Any]]:
    """What a test looks at of each row."""
    return [
        {
            "id": row.agui_id,
            "text": str(row.content),
            "status": row.status.value,
            "calls": [(call.agui_id, str(call.arguments), call.content, call.status.value) for call in row.calls],
            "reasonings": [(str(each.content), each.status.value) for each in row.reasonings],
        }
        for row in folded.rows
    ]


def row(agui_id: str | None, text: str, status: str = "complete", **parts: Any) -> dict[str, Any]:
    """What `rows` says of such a row."""
    return {"id": agui_id, "text": text, "status": status, "calls": [], "reasonings": [], **parts}
