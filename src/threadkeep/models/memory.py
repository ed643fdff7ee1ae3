"""Memory spaces, sessions and events of the synchronous SDK, under the one name that applications import."""

from threadkeep.models.event import Emitter, Event, EventUpdate, NewEvent
from threadkeep.models.session import Session
from threadkeep.models.space import MemorySpace

__all__ = ["Emitter", "Event", "EventUpdate", "MemorySpace", "NewEvent", "Session"]
