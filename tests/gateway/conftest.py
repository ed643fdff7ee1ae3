"""What all tests of the gateway count on."""

import pytest


@pytest.fixture(autouse=True)
def patient_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is no store that does not answer: readers wait for the ids of events, and for the end."""
    monkeypatch.setattr("threadkeep.chat_history.logged_stream.LATE_SECONDS", 3_600)
    monkeypatch.setattr("threadkeep.chat_history.logged_stream.SETTLE_SECONDS", 3_600)
