"""What a client of mem0 asks for besides memories: who is there, batches, events, and what is not offered here."""

from starlette.responses import Response

from threadkeep.api import mem0_answers as answers
from threadkeep.api import mem0_requests as requests
from threadkeep.api.errors import json_response
from threadkeep.api.mem0_answers import ENTITY_TYPES
from threadkeep.api.routes.mem0 import PAGE, PAGES, ROOT, operation
from threadkeep.api.routing import Call, Handler
from threadkeep.api.shell import path_part
from threadkeep.domain import limits
from threadkeep.errors import Invalid, NotOffered


async def _ping(call: Call) -> Response:
    await call.services.memories.check(call.principal, call.space_id)
    # Clients raise where one of them is empty.
    shown = answers.PingOut("ok", call.principal.tenant_id, call.space_id, call.principal.user_id)
    return json_response(shown)


async def _entities(call: Call) -> Response:
    found = await call.services.memories.entities(call.principal, call.space_id)
    return json_response(answers.entities_out(call.space_id, call.principal.user_id, found))


async def _delete_entity(call: Call) -> Response:
    memories = call.services.memories
    await memories.check(call.principal, call.space_id)
    type_, name = path_part(call.request, "entity_type"), path_part(call.request, "entity_name")
    if type_ not in ENTITY_TYPES:
        raise Invalid(f"{type_!r} is none of {', '.join(ENTITY_TYPES)}", ["path", "entity_type"])
    count = await memories.delete_all(call.principal, call.space_id, requests.of_ids({ENTITY_TYPES[type_]: name}))
    # Nobody there is no error: a client that resets deletes all it has listed, and some may go with others.
    return json_response(answers.MessageOut(f"Entity deleted successfully, and {count} memories with it"))


async def _update_batch(call: Call) -> Response:
    memories = call.services.memories
    await memories.check(call.principal, call.space_id)
    edits = [
        (call.reader.text(item.memory_id), requests.edit(requests.UpdateIn(item.text, item.metadata), call.reader))
        for item in call.body.memories
    ]
    changed = await memories.edit_many(call.principal, call.space_id, edits)
    return json_response(answers.MessageOut(f"Successfully updated {len(changed)} memories"))


async def _delete_batch(call: Call) -> Response:
    memories = call.services.memories
    await memories.check(call.principal, call.space_id)
    wanted = [call.reader.text(item.memory_id) for item in call.body.memories]
    await memories.delete_many(call.principal, call.space_id, wanted)
    return json_response(answers.MessageOut(f"Successfully deleted {len(wanted)} memories"))


async def _event(call: Call) -> Response:
    event_id = path_part(call.request, "event_id")
    found = await call.services.additions.get(call.principal, call.space_id, event_id)
    return json_response(answers.event_out(found))


async def _events(call: Call) -> Response:
    page, size = call.integer("page", 1), call.integer("page_size", requests.PAGE_SIZE)
    limits.check_range(page, 1, PAGES, "page")
    limits.check_range(size, 1, limits.MEMORY_PAGE, "page_size")
    additions = call.services.additions
    found, total = await additions.page(call.principal, call.space_id, offset=(page - 1) * size, limit=size)
    url = call.request.url
    following = str(url.include_query_params(page=page + 1, page_size=size)) if page * size < total else None
    previous = str(url.include_query_params(page=page - 1, page_size=size)) if page > 1 else None
    return json_response(answers.MemoryEventsOut(total, following, previous, list(map(answers.event_out, found))))


async def _memory_events(call: Call) -> Response:
    return await _events(call)


def _not_offered(name: str, sentence: str) -> Handler:
    async def refuse(call: Call) -> Response:
        await call.services.memories.check(call.principal, call.space_id)
        raise NotOffered(sentence)

    refuse.__name__ = name
    return refuse


_EXPORTS = "Exports by schema are not offered: `threadkeep export` writes a whole space, its memories included"
_PROFILES = "Profiles are not offered: search the memories of the user"
_PROJECTS = "Projects are not offered: the memory space is the project, and PATCH memory/{spaceId}/ changes it"
_WEBHOOKS = "Webhooks are not offered: ask for the event of an add"
_PROJECT = f"{ROOT}/api/v1/orgs/organizations/{{org_id}}/projects/{{project_id}}/"
_HOOKS = f"{ROOT}/api/v1/webhooks/"
NOT_OFFERED = [
    ("POST", f"{ROOT}/v1/exports/", "_export", _EXPORTS),
    ("POST", f"{ROOT}/v1/exports/get/", "_get_export", _EXPORTS),
    ("POST", f"{ROOT}/v1/summary/", "_summary", "Summaries are not offered: list or search the memories"),
    ("POST", f"{ROOT}/v1/feedback/", "_feedback", "Feedback is not offered: change or delete the memory"),
    ("GET", f"{ROOT}/v2/entities/user/{{entity_name}}/profile/", "_profile", _PROFILES),
    ("POST", f"{ROOT}/v2/profiles/jobs/", "_profile_job", _PROFILES),
    ("GET", f"{ROOT}/v2/profiles/jobs/{{job_id}}/", "_get_profile_job", _PROFILES),
    ("GET", f"{ROOT}/v2/profiles/settings/", "_profile_settings", _PROFILES),
    ("POST", f"{ROOT}/v2/profiles/settings/", "_set_profile_settings", _PROFILES),
    ("GET", _PROJECT, "_project", _PROJECTS),
    ("PATCH", _PROJECT, "_change_project", _PROJECTS),
    ("DELETE", _PROJECT, "_delete_project", _PROJECTS),
    *(
        (method, f"{_PROJECT}members/", f"_{method.lower()}_members", _PROJECTS)
        for method in ("GET", "POST", "PUT", "DELETE")
    ),
    ("GET", f"{_HOOKS}projects/{{project_id}}/", "_webhooks", _WEBHOOKS),
    ("POST", f"{_HOOKS}projects/{{project_id}}/", "_add_webhook", _WEBHOOKS),
    ("PUT", f"{_HOOKS}{{webhook_id}}/", "_change_webhook", _WEBHOOKS),
    ("DELETE", f"{_HOOKS}{{webhook_id}}/", "_delete_webhook", _WEBHOOKS),
]
_BATCH = f"{ROOT}/v1/batch/"
_EVENTS = "List how it went with adds, newest first"
_CALLER = "Who is calling"

OPERATIONS = [
    operation("GET", f"{ROOT}/v1/ping/", _CALLER, _ping, answers.PingOut),
    operation("GET", f"{ROOT}/v1/entities/", "List all that memories are about", _entities, answers.EntitiesOut),
    operation(
        "DELETE",
        # Older clients put a name into the path as it is, and it may hold a slash.
        f"{ROOT}/v2/entities/{{entity_type}}/{{entity_name:path}}/",
        "Delete the memories about somebody",
        _delete_entity,
        answers.MessageOut,
    ),
    operation("PUT", _BATCH, "Change memories, all or none", _update_batch, answers.MessageOut, takes=requests.BatchIn),
    operation(
        "DELETE", _BATCH, "Delete memories, all or none", _delete_batch, answers.MessageOut, takes=requests.BatchIn
    ),
    operation("GET", f"{ROOT}/v1/event/{{event_id}}/", "How it goes with an add", _event, answers.MemoryEventOut),
    operation("GET", f"{ROOT}/v1/events/", _EVENTS, _events, answers.MemoryEventsOut, query=PAGE),
    operation("GET", f"{ROOT}/v1/memories/events/", _EVENTS, _memory_events, answers.MemoryEventsOut, query=PAGE),
    *(
        operation(method, path, sentence, _not_offered(name, sentence), status=501)
        for method, path, name, sentence in NOT_OFFERED
    ),
]
# The asynchronous client joins its host and the path by hand: a host that ends in a slash gives two.
ALIASES = [operation("GET", f"{ROOT}//v1/ping/", _CALLER, _ping, answers.PingOut)]
