"""The words of a text, as the search by keywords sees them: one rule, so that both engines find the same."""

import re
import unicodedata

LONGEST = 64
"""Characters of a word that count; what is longer is no word that anybody looks for."""
_WORD = re.compile(r"[^\W_]+")
# Scripts without spaces between words: each two neighbours are taken for one.
_UNSPACED = re.compile("([぀-ヿ㐀-䶿一-鿿豈-﫿\U00020000-\U0003ffff]+)")


def words(text: str) -> list[str]:
    """The words of a text in their order: without case, accents and punctuation."""
    plain = "".join(
        char for char in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(char)
    ).casefold()
    found: list[str] = []
    for word in _WORD.findall(plain):
        for number, part in enumerate(_UNSPACED.split(word)):
            if number % 2 == 0:
                found += [part[:LONGEST]] if part else []
            elif len(part) == 1:
                found.append(part)
            else:
                found += [part[at : at + 2] for at in range(len(part) - 1)]
    return found
