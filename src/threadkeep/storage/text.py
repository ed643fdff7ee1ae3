"""Text that an engine cannot hold, and text that it can.

JSON strings may hold NUL and halves of surrogate pairs; PostgreSQL refuses both, SQLite's functions stop at a NUL.
They are kept as characters of a private plane, the same on both engines, and come back as they were.
Nearly all text has none of these and passes through untouched.
"""

import re

# 2,048 halves of pairs and then NUL map to U+10F000..U+10F800. What a caller has there itself is written as a mark and
# two digits, which stand for nothing by themselves: so a piece of a text is always found in it, and nothing else is.
_BASE = 0x10F000
_NUL = chr(_BASE + 0x800)
_MARK = chr(_BASE + 0x801)
_DIGITS = [chr(_BASE + 0x802 + digit) for digit in range(64)]
_ODD = re.compile(f"[\0\ud800-\udfff{chr(_BASE)}-{_DIGITS[-1]}]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_KEPT = re.compile(f"{_MARK}(..)|([{chr(_BASE)}-{_NUL}])")


def encode(text: str) -> str:
    """What the engine keeps for `text`."""
    if text.isascii() and "\0" not in text:
        return text
    return _ODD.sub(_encode_one, text)


def decode(kept: str) -> str:
    """The text that was kept."""
    return _KEPT.sub(_decode_one, kept) if not kept.isascii() else kept


def can_be_kept(text: str) -> bool:
    """Whether both engines hold the text as it is."""
    return "\0" not in text and _SURROGATE.search(text) is None


def encode_optional(text: str | None) -> str | None:
    return None if text is None else encode(text)


def decode_optional(kept: str | None) -> str | None:
    return None if kept is None else decode(kept)


def fold(text: str) -> str:
    """The text as a case-insensitive search sees it. The engines fold ASCII only, or by locale; this is one rule."""
    return encode(text.casefold())


def _encode_one(match: re.Match[str]) -> str:
    char = match[0]
    if char == "\0":
        return _NUL
    if "\ud800" <= char <= "\udfff":
        return chr(_BASE + ord(char) - 0xD800)
    high, low = divmod(ord(char) - _BASE, len(_DIGITS))
    return _MARK + _DIGITS[high] + _DIGITS[low]


def _decode_one(match: re.Match[str]) -> str:
    digits, char = match.groups()
    if digits:
        high, low = (_DIGITS.index(digit) for digit in digits)
        return chr(_BASE + high * len(_DIGITS) + low)
    return "\0" if char == _NUL else chr(0xD800 + ord(char) - _BASE)
