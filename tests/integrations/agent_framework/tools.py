"""Tools for agents in tests."""

from agent_framework import tool


@tool(approval_mode="never_require")
def f() -> str:
    """Say r."""
    return "r"


@tool(approval_mode="always_require")
def guarded() -> str:
    """Say g, if somebody allows it."""
    return "g"


@tool(approval_mode="never_require")
def failing() -> str:
    """Fail."""
    raise RuntimeError("the tool is broken")
