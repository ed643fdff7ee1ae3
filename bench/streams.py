"""Streams: what the storage agent adds to each event, beside the bare agent."""


async def storage_agent(engine: str) -> None:
    raise SystemExit("later")
