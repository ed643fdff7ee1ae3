"""A scripted model behind a real HTTP server that speaks OpenAI's chat completions, responses and embeddings.

    with OpenAIServer([Reply(text=["Hel", "lo"])]) as server:
        client = openai.OpenAI(base_url=server.url, api_key="any")

It fakes the model only: sockets, chunks and errors are real. It runs in threads of its own, so a test of any kind
(blocking, asyncio, a subprocess) can talk to it.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from threadkeep.testing.embedder import vector_of
from threadkeep.testing.openai_responses import Conversations, events_of

Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One call of a tool that the model asks for; the pieces of `arguments` are streamed one by one."""

    name: str
    arguments: Sequence[str]
    id: str = "call_1"


@dataclass(frozen=True)
class Reply:
    """What the model says to one request. Pieces are streamed one by one.

    `cut` closes the connection in the middle: after the pieces, before the end of the stream.
    `streams` sends a stream to one who asked for the whole. `refusal` is what a model says that will not answer.
    """

    text: Sequence[str] = ()
    reasoning: Sequence[str] = ()
    calls: Sequence[Call] = ()
    usage: Mapping[str, int] = field(
        default_factory=lambda: {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    )
    cut: bool = False
    streams: bool = False
    refusal: str | None = None
    finish_reason: str | None = None


@dataclass(frozen=True)
class Raw:
    """An answer whose body is sent as it is."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})


@dataclass(frozen=True)
class Silence:
    """No answer, for as long as the server runs."""


@dataclass(frozen=True)
class HangUp:
    """No answer: the connection is closed."""


@dataclass(frozen=True)
class Refusal:
    """An HTTP error in OpenAI's shape. `headers` are sent with it; by default they tell clients not to try again."""

    status: int
    message: str
    headers: Mapping[str, str] = field(default_factory=lambda: {"x-should-retry": "false"})


Made = Reply | Refusal | Raw | Silence | HangUp
Answer = Made | Callable[[Json], Made]
"""A callable gets the request's body and makes the answer."""


class OpenAIServer:
    """Answers the first request with the first answer, and so on; what it was asked is in `requests` and `headers`.

    A request beyond the script is refused with 500 and says so; `always` answers those beyond it instead.
    Embeddings are those of `testing.embedder`, after the answers of `embeddings`.
    """

    def __init__(
        self,
        answers: Sequence[Answer],
        model: str = "scripted",
        *,
        always: Answer | None = None,
        embeddings: Sequence[Made] = (),
    ) -> None:
        self.model = model
        self.embedded: list[list[str]] = []
        """The texts of each request for embeddings."""
        self.closing = threading.Event()
        """Set when the server stops."""
        self.requests: list[Json] = []
        """The bodies of the requests, in order."""
        self.headers: list[dict[str, str]] = []
        """Their headers, names in lower case."""
        self.conversations = Conversations()
        """What the responses are that it keeps."""
        self._answers = list(answers)
        self._always = always
        self._embeddings = list(embeddings)
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"script": self}))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        """The base URL that a client is given; ends in `/v1`."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def answer(self, body: Json, headers: Mapping[str, str]) -> Made:
        """The next answer of the script."""
        with self._lock:
            self.requests.append(body)
            self.headers.append({name.lower(): value for name, value in headers.items()})
            answer = self._answers.pop(0) if self._answers else self._always
            if answer is None:
                return Refusal(500, f"No answer is scripted for request {len(self.requests)}")
        return answer(body) if callable(answer) else answer

    def embeddings(self, body: Json) -> Made:
        """The next scripted answer to a request for embeddings, else the embeddings."""
        texts = [body["input"]] if isinstance(body["input"], str) else list(body["input"])
        with self._lock:
            self.embedded.append(texts)
            if self._embeddings:
                return self._embeddings.pop(0)
        data = [
            {"object": "embedding", "index": index, "embedding": vector_of(text).tolist()}
            for index, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
        answer = {"object": "list", "model": self.model, "data": data, "usage": usage}
        return Raw(json.dumps(answer).encode())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: OpenAIServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path in ("/v1/chat/completions", "/v1/responses"):
            answer = self.script.answer(body, dict(self.headers.items()))
        elif self.path == "/v1/embeddings":
            answer = self.script.embeddings(body)
        else:
            answer = Raw(
                json.dumps(
                    {"error": {"message": f"No such path: {self.path}", "type": "invalid_request_error"}}
                ).encode(),
                404,
            )
        if isinstance(answer, Refusal):
            error = {"message": answer.message, "type": "scripted", "code": None}
            self._send_json(answer.status, {"error": error}, answer.headers)
        elif isinstance(answer, Raw):
            self._send(answer.status, answer.body, answer.headers)
        elif isinstance(answer, Silence | HangUp):
            if isinstance(answer, Silence):
                self.script.closing.wait()
            self.close_connection = True
        elif self.path == "/v1/responses":
            self._respond(body, answer)
        elif answer.streams or body.get("stream"):
            self._stream(answer, include_usage=bool((body.get("stream_options") or {}).get("include_usage")))
        else:
            self._send_json(200, whole(answer, self.script.model))

    def log_message(self, *_: object) -> None:
        """Say nothing on standard error."""

    def _respond(self, body: Json, reply: Reply) -> None:
        refusal = self.script.conversations.refusal(body)
        if refusal is not None:
            self._send_json(400, {"error": {"message": refusal, "type": "invalid_request_error", "code": None}})
            return
        response = self.script.conversations.answer(body, reply, self.script.model)
        if not body.get("stream"):
            self._send_json(200, response)
            return
        self._begin_stream()
        for event in events_of(response, reply):
            self._write_chunk(b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(event).encode()))
        if reply.cut:
            self.close_connection = True
        else:
            self._write_chunk(b"")

    def _begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _stream(self, reply: Reply, *, include_usage: bool) -> None:
        self._begin_stream()
        for chunk in chunks(reply, self.script.model, include_usage=include_usage):
            self._write_chunk(b"data: %b\n\n" % json.dumps(chunk).encode())
        if reply.cut:
            self.close_connection = True
            return
        self._write_chunk(b"data: [DONE]\n\n")
        self._write_chunk(b"")

    def _write_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _send_json(self, status: int, body: Json, headers: Mapping[str, str] | None = None) -> None:
        self._send(status, json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _send(self, status: int, data: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def chunks(reply: Reply, model: str, *, include_usage: bool) -> Iterator[Json]:
    """The reply as the chunks of a stream. A reply that is cut has no finish reason."""

    def chunk(delta: Json, finish: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {**_head(model, "chat.completion.chunk"), "choices": [choice]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in reply.reasoning:
        yield chunk({"reasoning_content": piece})
    for piece in reply.text:
        yield chunk({"content": piece})
    if reply.refusal is not None:
        yield chunk({"refusal": reply.refusal})
    for index, call in enumerate(reply.calls):
        function = {"name": call.name, "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]})
        for piece in call.arguments:
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    if reply.cut:
        return
    yield chunk({}, _finish_reason(reply))
    if include_usage:
        yield {**_head(model, "chat.completion.chunk"), "choices": [], "usage": dict(reply.usage)}


def whole(reply: Reply, model: str) -> Json:
    """The reply as one completion."""
    message: Json = {"role": "assistant", "content": "".join(reply.text) or None}
    if reply.refusal is not None:
        message["refusal"] = reply.refusal
    if reply.reasoning:
        message["reasoning_content"] = "".join(reply.reasoning)
    if reply.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": "".join(call.arguments)}}
            for call in reply.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(reply)}
    return {**_head(model, "chat.completion"), "choices": [choice], "usage": dict(reply.usage)}


def _head(model: str, kind: str) -> Json:
    return {"id": "chatcmpl-scripted", "object": kind, "created": 0, "model": model}


def _finish_reason(reply: Reply) -> str:
    return reply.finish_reason or ("tool_calls" if reply.calls else "stop")
