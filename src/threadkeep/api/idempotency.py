"""`Idempotency-Key` on the wire: read from a POST, and the first answer given again."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from msgspec import Raw
from starlette.requests import Request
from starlette.responses import Response

from threadkeep.api.errors import json_response
from threadkeep.domain.principal import Principal
from threadkeep.errors import Invalid
from threadkeep.services.idempotency import Answered, Once

T = TypeVar("T")

PATTERN = "^[ -~]{1,255}$"
REPLAYED = "Idempotency-Replayed"
_NAME = b"idempotency-key"
_KEY = re.compile(PATTERN)


@dataclass(frozen=True, slots=True)
class RequestKey:
    """The key of a request, and what it stands for."""

    key: str
    fingerprint: str
    space_id: str

    def once(self, principal: Principal, answer: Callable[[T], Response]) -> Once[T]:
        return Once(
            self.space_id, principal.user_id, self.key, self.fingerprint, lambda result: _encode(answer(result))
        )


def read(request: Request, document: bytes) -> RequestKey | None:
    """The key of a POST with this body, in quotes or not, if it has one. Raises Invalid."""
    for name, value in request.scope["headers"]:
        if name == _NAME:
            key = value.decode("latin-1").strip()
            break
    else:
        return None
    if len(key) > 1 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if not _KEY.fullmatch(key):
        raise Invalid("A key has 1 to 255 printable ASCII characters", ["header", "Idempotency-Key"])
    what = f"{request.method} {request.scope['path']}\n".encode()
    fingerprint = hashlib.sha256(what + document).hexdigest()
    return RequestKey(key, fingerprint, request.path_params.get("space_id", ""))


def again(first: Answered) -> Response:
    """The first answer, once more."""
    status, _, body = first.answer.partition(" ")
    return json_response(Raw(body.encode()), int(status), {REPLAYED: "true"})


def _encode(response: Response) -> str:
    return f"{response.status_code} {bytes(response.body).decode()}"
