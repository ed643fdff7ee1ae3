"""The description codec: a prefix and range keys as one string, such that leading keys are a leading substring.

`"//" + prefix + "/" + key + "/" ...`, with `%` and `/` inside them escaped as `%25` and `%2F`. Pure.
"""

from collections.abc import Sequence

MAX_DESCRIPTION_CHARACTERS = 1_000


def encode_description(prefix: str, keys: Sequence[str] = ()) -> str:
    """The description of a session, or the query for all that start with these keys.

    Raises ValueError where the prefix or a key is empty, or where the whole is too long for the service.
    """
    for place, part in enumerate((prefix, *keys)):
        if not part:
            raise ValueError("The description prefix is empty" if place == 0 else f"Range key {place} is empty")
    text = "//" + "".join(f"{_escape(part)}/" for part in (prefix, *keys))
    if len(text) > MAX_DESCRIPTION_CHARACTERS:
        raise ValueError(
            f"The description of prefix and range keys has {len(text)} characters; "
            f"the limit is {MAX_DESCRIPTION_CHARACTERS}"
        )
    return text


def decode_description(text: str) -> tuple[str, tuple[str, ...]]:
    """The prefix and the keys.

    Raises ValueError where `text` was not made by `encode_description`.
    """
    parts = text[2:-1].split("/")
    if not (text.startswith("//") and text.endswith("/") and all(parts)):
        raise ValueError(f"{text!r} is not of the form //prefix/key/")
    prefix, *keys = map(_unescape, parts)
    return prefix, tuple(keys)


def _escape(part: str) -> str:
    return part.replace("%", "%25").replace("/", "%2F")


def _unescape(part: str) -> str:
    return part.replace("%2F", "/").replace("%25", "%")
