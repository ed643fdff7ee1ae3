"""Where the gateway's agents come from: a source prepares each run. Here is the one for agents in this process."""

import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from ag_ui.core import RunAgentInput
from pydantic import ValidationError

from threadkeep.chat_history import AGUIAgent
from threadkeep.chat_history.ag_ui.wire import WireInput
from threadkeep.errors import Invalid, ThreadkeepError
from threadkeep.gateway.inputs import RunBody

_OPTIONAL_SINCE_1_0: dict[str, Any] = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}


class BadAgent(ThreadkeepError):
    """What was named as the agent is none; the message says why."""


class AgentSource(Protocol):
    """What stands behind the gateway."""

    def prepare(self, body: RunBody) -> tuple[RunAgentInput | WireInput, AGUIAgent]:
        """The input of a run as the agent takes it, and the agent to run. Raises Invalid."""

    async def aclose(self) -> None:
        """Let go of what the source holds."""


class LocalAgents:
    """Agents of this process: one agent for all runs, or a fresh one for each from a callable."""

    def __init__(self, make: Callable[[], AGUIAgent]) -> None:
        self._make = make

    def prepare(self, body: RunBody) -> tuple[RunAgentInput, AGUIAgent]:
        """Raises Invalid where the installed `ag-ui-protocol` cannot read the input."""
        given = {name: value for name, value in body.fields.items() if value is not None}
        messages, binaries = _without_binaries(given["messages"])
        try:
            checked = RunAgentInput.model_validate({**_OPTIONAL_SINCE_1_0, **given, "messages": messages})
            for at, content in binaries.items():
                checked.messages[at].content = content
        except ValidationError as error:
            # Where a value may be of several kinds each of them complains; the one that got furthest is meant.
            complaints = error.errors(include_url=False, include_context=False, include_input=False)
            places = [_place(body.fields, complaint["loc"]) for complaint in complaints]
            place, complaint = max(zip(places, complaints, strict=True), key=lambda pair: len(pair[0]))
            raise Invalid(complaint["msg"], place, complaint["type"]) from error
        return checked, self._make()

    async def aclose(self) -> None:
        """Nothing is held."""


def load_agent(name: str) -> LocalAgents:
    """The agent that `module:attribute` names: an AGUIAgent, or a class or callable that makes one without arguments.

    Modules are looked for in the working directory too. Raises BadAgent that says what is wrong.
    """
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise BadAgent(f"{name!r} names no agent; write MODULE:ATTRIBUTE, for example my_app.agents:weather")
    found: Any = _load_module(module_name)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise BadAgent(f"The module {module_name!r} has no attribute {attribute!r}")
        found = getattr(found, part)
    return agents_of(found, name)


def agents_of(found: Any, name: str = "The agent") -> LocalAgents:
    """The source for an AGUIAgent, or for what makes one. Raises BadAgent, where `name` says which one is meant."""
    if isinstance(found, AGUIAgent):
        return LocalAgents(lambda: found)
    if not callable(found):
        raise BadAgent(f"{name} is a {type(found).__name__}; it must be an AGUIAgent or make one")
    if inspect.iscoroutinefunction(found):
        raise BadAgent(f"{name} is an async function; what makes an agent is a plain one")
    try:
        made = found()
    except Exception as error:
        raise BadAgent(f"{name} made no agent when it was called: {type(error).__name__}: {error}") from error
    if not isinstance(made, AGUIAgent):
        raise BadAgent(f"{name} made a {type(made).__name__}; it must make an AGUIAgent")
    return LocalAgents(found)


def _load_module(name: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise BadAgent(f"There is no module {name!r} (looked in {here} and in the installed packages)") from error
        raise BadAgent(f"The module {name!r} cannot be imported: {error}") from error
    except Exception as error:
        raise BadAgent(f"The module {name!r} cannot be imported: {type(error).__name__}: {error}") from error


def _without_binaries(messages: Sequence[Any]) -> tuple[list[Any], dict[int, list[Any]]]:
    """The messages with their `binary` parts left out, and the whole contents of those that have some, by place.

    Clients of the 0.1 line send such parts, and releases since 1.0 refuse them; they are stored as they came.
    """
    checked, contents = [*messages], {}
    for place, message in enumerate(messages):
        content = message.get("content")
        if isinstance(content, list) and any(part.get("type") == "binary" for part in content):
            contents[place] = content
            checked[place] = {**message, "content": [part for part in content if part.get("type") != "binary"]}
    return checked, contents


def _place(document: Any, path: Sequence[str | int]) -> list[str | int]:
    """The part of a pydantic path that the document has; the names of union members in between are left out."""
    place: list[str | int] = []
    for index, step in enumerate(path):
        try:
            document = document[step]
        except (LookupError, TypeError):
            if index < len(path) - 1 or not isinstance(document, dict):
                continue
        place.append(step)
    return place
