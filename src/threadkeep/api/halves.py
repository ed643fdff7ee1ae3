"""Halves of surrogate pairs: legal in JSON, refused by msgspec and by UTF-8.

While msgspec looks at a document, each half stands as a character of a private plane; afterwards it is put back.
"""

import re

_BASE = 0x10F000
"""U+10F000..U+10F7FF stand for U+D800..U+DFFF."""
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|[^u])")
_HIDDEN = re.compile("[\U0010f000-\U0010f7ff]")
_HIDDEN_ESCAPE = re.compile(r"\\udbf([cd])\\u(d[c-f][0-9a-f]{2})")
_TAKEN = re.compile(rb"\xf4\x8f[\x80-\x9f]|\\u[dD][bB][fF][cCdD]")


def hide(document: bytes) -> bytes | None:
    """The JSON document with its halves hidden.

    None where it has none, or holds such private characters itself: the two could not be told apart afterwards.
    """
    if _TAKEN.search(document):
        return None
    halves: list[re.Match[bytes]] = []
    high: re.Match[bytes] | None = None
    for match in _ESCAPE.finditer(document):
        code = int(match[1], 16) if match[1] else 0
        if high is not None and 0xDC00 <= code <= 0xDFFF and match.start() == high.end():
            high = None
            continue
        if high is not None:
            halves.append(high)
        high = match if 0xD800 <= code <= 0xDBFF else None
        if 0xDC00 <= code <= 0xDFFF:
            halves.append(match)
    if high is not None:
        halves.append(high)
    if not halves:
        return None
    parts: list[bytes] = []
    end = 0
    for match in halves:
        parts += [document[end : match.start()], _hidden_escape(int(match[1], 16))]
        end = match.end()
    return b"".join([*parts, document[end:]])


def show(text: str) -> str:
    """The text with its halves in their places."""
    return text if text.isascii() else _HIDDEN.sub(lambda match: chr(ord(match[0]) - _BASE + 0xD800), text)


def show_in_json(raw: str) -> str:
    """The same for a piece of the document, where a half is an escape."""
    return _HIDDEN_ESCAPE.sub(_shown_escape, raw)


def _hidden_escape(code: int) -> bytes:
    low = code & 0x3FF | 0xDC00
    return b"\\udbf%c\\u%04x" % (b"c" if code < 0xDC00 else b"d", low)


def _shown_escape(match: re.Match[str]) -> str:
    low = int(match[2], 16)
    return f"\\u{low - 0x400 if match[1] == 'c' else low:04x}"
