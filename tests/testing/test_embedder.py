"""The embedder of tests."""

from threadkeep.testing.embedder import WordEmbedder, vector_of


async def test_texts_that_share_words_lie_near_each_other() -> None:
    tea, drinks, dog = await WordEmbedder().embed(["likes green tea", "drinks green tea", "walks every morning"])

    def likeness(other: object) -> float:
        return sum(x * y for x, y in zip(tea, other, strict=True))  # type: ignore[call-overload]

    assert round(likeness(tea), 5) == 1.0
    assert round(likeness(drinks), 2) == 0.67
    assert round(likeness(dog), 2) == 0.0
    assert vector_of("") == vector_of("")
