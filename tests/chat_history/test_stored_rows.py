"""What is known of the rows that are stored."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from threadkeep.chat_history.ag_ui.records import Call, Row, Text
from threadkeep.chat_history.ag_ui.stored_rows import StoredRows
from threadkeep.chat_history.constants import Role

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def test_what_a_write_sends_again_is_all_that_is_in_a_row() -> None:
    nothing: Any = None
    stored = StoredRows(nothing, nothing)
    row = Row("m1", Role.ASSISTANT, NOW, content=Text("12345"))
    call = Call("c1", "f", NOW, row, arguments=Text("{}"), content="a long result")
    row.calls.append(call)
    assert stored.length(row) == 0
    stored.adopt(row, uuid4())
    assert stored.length(row) == 5
    stored.adopt(call, uuid4())
    assert stored.length(row) == 5 + 2 + 13
