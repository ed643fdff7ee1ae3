"""Which request the code runs for: known to everything that a request calls, and to the lines that it logs."""

from contextvars import ContextVar

request_id: ContextVar[str] = ContextVar("threadkeep_request_id", default="")
"""The id in `X-Request-ID`; '' where no request is behind the work."""
