"""Text that an engine cannot hold, and text that it can.

JSON strings may hold NUL and halves of surrogate pairs; PostgreSQL refuses both, SQLite's functions stop at a NUL.
They are kept as characters of a private plane, the same on both engines, and come back as they were.
Nearly all text has none of these and passes through untouched.
"""

import re

# 2,048 surrogates and then NUL map to U+10F000..U+10F800; what a caller has there itself is put behind a mark.
_BASE = 0x10F000
_NUL = chr(_BASE + 0x800)
_MARK = chr(_BASE + 0x801)
_ODD = re.compile(f"[\0\ud800-\udfff{chr(_BASE)}-{_MARK}]")
_KEPT = re.compile(f"{_MARK}(.)|([{chr(_BASE)}-{_NUL}])")


def encode(text: str) -> str:
    """What the engine keeps for `text`."""
    if text.isascii() and "\0" not in text:
        return text
    return _ODD.sub(_encode_one, text)


def decode(kept: str) -> str:
    """The text that was kept."""
    return _KEPT.sub(_decode_one, kept) if not kept.isascii() else kept


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
    return _MARK + char


def _decode_one(match: re.Match[str]) -> str:
    marked, char = match.groups()
    if marked:
        return str(marked)
    return "\0" if char == _NUL else chr(0xD800 + ord(char) - _BASE)
