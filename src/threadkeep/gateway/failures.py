"""Why an agent broke off, in words for the client, with a code that a program can tell apart."""

from enum import StrEnum

from threadkeep.errors import ThreadkeepError


class FailureCode(StrEnum):
    """The codes of the RUN_ERRORs that the gateway writes for an agent; those of a run come from chat history."""

    UNREACHABLE = "AGENT_UNREACHABLE"
    REFUSED = "AGENT_REFUSED"
    BAD_STREAM = "AGENT_BAD_STREAM"
    STREAM_CUT = "AGENT_STREAM_CUT"
    INCOMPLETE = "AGENT_INCOMPLETE"
    RAISED = "AGENT_ERROR"
    STOPPED = "SERVER_STOPPED"
    INTERRUPTS_OPEN = "INTERRUPTS_OPEN"


class AgentFailure(ThreadkeepError):
    """The agent broke off. The message is meant for the client."""

    def __init__(self, message: str, code: FailureCode) -> None:
        super().__init__(message)
        self.code = code
