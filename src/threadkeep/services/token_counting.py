"""Tokens of a text, by the byte pair encoding `o200k_base`, without a network."""

from functools import cache
from typing import Any

_PIECE = 100_000
"""Characters that are encoded at once: the library takes less than a million. A cut may count one token more."""


def count_tokens(text: str) -> int:
    """How many tokens the text has. Marks such as `<|endoftext|>` are text like any other."""
    encoding = _encoding()
    return sum(len(encoding.encode_ordinary(text[at : at + _PIECE])) for at in range(0, len(text), _PIECE))


@cache
def _encoding() -> Any:
    # Only where a strategy counts: the tables take some 80 MB.
    import bpe_openai

    return bpe_openai.get_encoding("o200k_base")
