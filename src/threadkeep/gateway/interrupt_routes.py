"""The routes of interrupts: list those of a thread, cancel one without a run."""

import json

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from threadkeep import clock
from threadkeep.api.errors import json_response
from threadkeep.api.shell import path_part
from threadkeep.contract.threads import InterruptPage, ThreadInterrupt
from threadkeep.domain.interrupt import Interrupt
from threadkeep.errors import NotFound
from threadkeep.gateway.endpoints import Endpoints, page_limit, page_offset
from threadkeep.gateway.histories import History, find_session
from threadkeep.services.container import Container


def interrupt_routes(endpoints: Endpoints, container: Container) -> list[Route]:
    """The routes of the interrupts of the user's threads."""

    async def session_of(request: Request, history: History) -> str:
        thread_id = path_part(request, "thread_id")
        session = await find_session(container.sessions, history, thread_id)
        if session is None:
            raise NotFound(f"There is no thread {thread_id!r}")
        return session.id

    async def list_(request: Request, history: History) -> Response:
        limit, offset = page_limit(request), page_offset(request)
        found = await container.interrupts.page(
            history.principal, history.space_id, await session_of(request, history), offset=offset, limit=limit
        )
        now = clock.now()
        page: InterruptPage = {
            "items": [interrupt_answer(each, now) for each in found],
            "cursor": str(offset + limit) if len(found) == limit else None,
        }
        return json_response(page)

    async def cancel(request: Request, history: History) -> Response:
        session_id = await session_of(request, history)
        interrupt_id = path_part(request, "interrupt_id")
        cancelled = await container.interrupts.cancel(history.principal, history.space_id, session_id, interrupt_id)
        return json_response({"cancelled": cancelled})

    return [
        endpoints.route("/threads/{thread_id}/interrupts/", GET=list_),
        endpoints.route("/threads/{thread_id}/interrupts/{interrupt_id}/cancel/", POST=cancel),
    ]


def interrupt_answer(interrupt: Interrupt, now: int) -> ThreadInterrupt:
    """An interrupt."""
    return {
        "interruptId": interrupt.interrupt_id,
        "runId": interrupt.run_id,
        "state": interrupt.state(now),
        "expiresAt": _time(interrupt.expires_at),
        "createdAt": clock.format_timestamp(interrupt.created_at),
        "endedAt": _time(interrupt.ended_at),
        "endedBy": interrupt.ended_by,
        "interrupt": json.loads(interrupt.payload),
    }


def _time(moment: int | None) -> str | None:
    return None if moment is None else clock.format_timestamp(moment)
