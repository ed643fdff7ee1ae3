"""What a chat store must do to be used by the storage agent, as tests that you run against your own repositories.

```python
class TestMyStore(RepositoryConformance):
    @asynccontextmanager
    async def open_store(self):
        async with my_database() as database:
            yield Repositories(MyChats(database), MyMessages(database))
```

Needs pytest and pytest-asyncio.
"""

import pytest

# Before they are imported, so that a failed assertion shows its values.
pytest.register_assert_rewrite(
    *(f"threadkeep.testing.conformance.{name}" for name in ("chats", "faults", "messages", "nested", "runs", "store"))
)

from threadkeep.testing.conformance.chats import ChatConformance  # noqa: E402
from threadkeep.testing.conformance.messages import MessageConformance  # noqa: E402
from threadkeep.testing.conformance.nested import NestedConformance  # noqa: E402
from threadkeep.testing.conformance.runs import RunConformance  # noqa: E402
from threadkeep.testing.conformance.store import Repositories, StoreUnderTest  # noqa: E402


class RepositoryConformance(ChatConformance, MessageConformance, NestedConformance, RunConformance):
    """All of it: chats, messages, what is nested in messages, and recorded runs on a store that fails now and then."""


__all__ = [
    "ChatConformance",
    "MessageConformance",
    "NestedConformance",
    "Repositories",
    "RepositoryConformance",
    "RunConformance",
    "StoreUnderTest",
]
