"""Settings of the server, described as data: each is an option of `threadkeep serve` and a THREADKEEP_* variable."""

from dataclasses import dataclass, field, fields
from typing import Any

CLIENT_MESSAGES = ("any", "whole", "new", "strict")
OPEN_INTERRUPTS = ("auto", "block", "cancel")
RUN_POLICIES = (REJECT, SUPERSEDE, ENQUEUE) = ("reject", "supersede", "enqueue")


def _setting(default: Any, help_text: str) -> Any:
    return field(default=default, metadata={"help": help_text})


def _secret(help_text: str) -> Any:
    """A setting that is shown nowhere, not even where all settings are."""
    return field(default=None, repr=False, metadata={"help": help_text})


@dataclass(frozen=True, slots=True)
class Settings:
    """What an operator may set. Numbers are checked where they are used."""

    host: str = _setting("127.0.0.1", "The address to listen on.")
    port: int = _setting(8421, "The port to listen on.")
    database: str = _setting(
        "sqlite:///threadkeep.db", "Where everything is kept: sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME."
    )
    database_connections: int = _setting(10, "Connections to PostgreSQL at most, in this process.")
    valkey: str | None = _setting(
        None,
        "The Valkey server that wakes readers in other processes at once, such as valkey://127.0.0.1:6379. "
        "Needs threadkeep[valkey].",
    )
    token: str | None = _setting(None, "A token of your own choice, made at the start where it is unknown.")
    agent: str | None = _setting(None, "The agent behind the gateway: MODULE:ATTRIBUTE.")
    upstream: str | None = _setting(None, "The URL of an AG-UI server to put behind the gateway.")
    cors_origins: str | None = _setting(
        None, "Origins whose pages may call this server, with commas between: https://app.example.com; or * for all."
    )
    max_content: int = _setting(1_000_000, "Characters of an event's body.content at most.")
    max_request_bytes: int = _setting(16 * 1024 * 1024, "Bytes of one request at most.")
    rate_limit: int = _setting(0, "Requests per second and token that each process answers at most; 0 is no limit.")
    workers: int = _setting(1, "Processes that serve; more than one needs PostgreSQL.")
    stop_delay: int = _setting(
        0, "Seconds after a signal to stop in which requests are still taken, while /readyz says no."
    )
    log_level: str = _setting("info", "What is logged: debug, info, warning or error, and all that is worse.")
    log_format: str = _setting("json", "How it is logged, on standard error: json or text, a line each.")
    access_log: bool = _setting(True, "Log a line for each request.")
    otel_endpoint: str | None = _setting(
        None, "Where traces go: an OTLP/HTTP collector, such as http://127.0.0.1:4318. Needs threadkeep[otel]."
    )
    work: bool = _setting(True, "Run lifecycle strategies and the purge in this process too.")
    purge_after: int = _setting(30, "Days after which what was deleted is removed for good; 0 keeps it for ever.")
    final_extraction: str = _setting(
        "always",
        "Extract the memories of a session that ends before it was due: always, expired (unless a caller deleted it), "
        "never.",
    )
    delete_memories_along: bool = _setting(
        False,
        "Delete the memories that came from a session or an event when a caller deletes it. "
        "What is erased always takes them along.",
    )
    llm_base_url: str | None = _setting(
        None, "The OpenAI-compatible endpoint that memories are extracted with, such as https://api.openai.com/v1."
    )
    llm_model: str | None = _setting(None, "The model that memories are extracted with, where a space names no other.")
    llm_api_key: str | None = _secret("The key for that endpoint; it goes nowhere else.")
    llm_allowed_hosts: str | None = _setting(
        None, "Hosts that spaces may name in llmBaseUrl, with commas between: api.example.com, *.example.com, *."
    )
    llm_allowed_networks: str | None = _setting(
        None, "Networks that are not public and that such hosts may be in all the same: 10.0.0.0/8, 127.0.0.0/8."
    )
    llm_host_keys: str | None = _secret("Keys for hosts that spaces name: api.example.com=KEY, with commas between.")
    llm_timeout: int = _setting(60, "Seconds that one request to a language model may take.")
    llm_at_once: int = _setting(4, "Extractions that run at the same time in each process that works.")
    llm_attempts: int = _setting(10, "Attempts at an extraction, each later than the last, before it has failed.")
    embedding_model: str | None = _setting(
        None, "The model that searches memories by meaning: offline, or one of the endpoint's. Without it: by keywords."
    )
    embedding_base_url: str | None = _setting(
        None, "The OpenAI-compatible endpoint of that model, where it is not the language model's."
    )
    embedding_api_key: str | None = _secret("The key for that endpoint.")
    run_lease: int = _setting(15, "Seconds after which the run of a process that has died is ended.")
    run_bytes: int = _setting(
        32 * 1024 * 1024, "Bytes of a run that may wait for the store; with more its agent has to wait too."
    )
    run_policy: str = _setting(
        REJECT,
        "What becomes of a run on a thread that is busy: reject (it is refused), supersede (the active one is "
        "cancelled), enqueue (it waits in line).",
    )
    open_interrupts: str = _setting(
        "auto",
        "What an input that answers none of the open interrupts of its thread does: block (it is refused), cancel "
        "(they are cancelled, and the agent is told), auto (block where the client speaks AG-UI 1.x, else cancel).",
    )
    client_messages: str = _setting(
        "any",
        "How the messages that clients send are read: any (by what comes), whole (they send all that they show), new "
        "(they send only what is new), strict (only ids count, and only user messages may be new).",
    )
    copilotkit_agent: str = _setting("default", "The name under which CopilotKit's frontends ask for the agent.")
    repair: bool = _setting(True, "Repair the history that the agent is given, so that model providers accept it.")
    keep_unsigned: bool = _setting(
        False, "Leave reasonings without a signature in a history that is repaired, for models that want them back."
    )


def help_of(name: str) -> str:
    """What a setting is for."""
    return str(next(item.metadata["help"] for item in fields(Settings) if item.name == name))
