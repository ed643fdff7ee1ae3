"""Events of a run as bytes, a few of them together: packed as they came, or deflated. Lossless, whatever they hold."""

import struct
import zlib
from collections.abc import Sequence

PLAIN, DEFLATED = 0, 1
_LENGTH = 4


def pack(events: Sequence[bytes]) -> bytes:
    """The lengths of the events, four bytes each, and then the events."""
    return b"".join((struct.pack(f">{len(events)}I", *map(len, events)), *events))


def unpack(payload: bytes, count: int) -> list[bytes]:
    """The events that were packed. Raises ValueError where they are not so many."""
    start = _LENGTH * count
    if len(payload) < start:
        raise ValueError(f"{len(payload)} bytes are too few for {count} events")
    events = []
    for length in struct.unpack_from(f">{count}I", payload):
        events.append(payload[start : start + length])
        start += length
    if start != len(payload):
        raise ValueError(f"{len(payload)} bytes for {count} events; their lengths say {start}")
    return events


def shortest(payload: bytes) -> tuple[int, bytes]:
    """The form in which a packed group is shorter, and the group in it."""
    deflated = zlib.compress(payload, 6)
    return (DEFLATED, deflated) if len(deflated) < len(payload) else (PLAIN, payload)


def read(payload: bytes, form: int, count: int, size: int) -> list[bytes]:
    """The events of a group in either form, of which `size` is the length as packed. Raises ValueError if damaged."""
    if form == DEFLATED:
        try:
            # No more than it says it is: a few bytes can be made to fill the memory.
            payload = zlib.decompressobj().decompress(payload, size + 1)
        except zlib.error as error:
            raise ValueError(f"a group of events cannot be inflated: {error}") from error
    elif form != PLAIN:
        raise ValueError(f"a group of events has the form {form}; 0 and 1 are known")
    if len(payload) != size:
        raise ValueError(f"a group of events is not of {size} bytes")
    return unpack(payload, count)


def cut(events: Sequence[bytes], most_bytes: int) -> list[Sequence[bytes]]:
    """The events in groups of at most so many bytes; an event that is larger is a group by itself."""
    groups: list[Sequence[bytes]] = []
    start = size = 0
    for place, event in enumerate(events):
        if place > start and size + len(event) > most_bytes:
            groups.append(events[start:place])
            start, size = place, 0
        size += len(event)
    if start < len(events):
        groups.append(events[start:])
    return groups
