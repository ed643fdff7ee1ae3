"""The servers that `python -m interop` has started."""

import os
from collections.abc import Iterator

import pytest

from interop.rows import Account

pytest.register_assert_rewrite("interop.scenarios")


@pytest.fixture(params=("sqlite", "postgresql"))
def account(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    """An account with nothing in it, on each engine, and the variables that an application sets to use it.

    Its spaces are shared: the published package finds by locators only, so ours is told to write them all.
    """
    opened = Account(f"{os.environ[f'INTEROP_{request.param.upper()}']}/api/v2", os.environ["INTEROP_TOKEN"])
    monkeypatch.setenv("DATAROBOT_ENDPOINT", opened.endpoint)
    monkeypatch.setenv("DATAROBOT_API_TOKEN", opened.token)
    monkeypatch.setenv("THREADKEEP_LOCATORS", "always")
    with opened.http:
        yield opened
