"""Feeds of whole models in each step, and first values of their variables: the same on both sides."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

#: Numbers of optimizers, the same in both floating types: TensorFlow keeps them in float32, this library in
#: the type of the variable.
RATE, MOMENTUM, DECAY, SLOW, TINY = 2.0**-6, 0.875, 2.0**-10, 1 - 2.0**-6, 2.0**-27
ADAM: Any = {"beta1": MOMENTUM, "beta2": SLOW, "epsilon": TINY}

#: Sizes that models share: batch, time, words, units.
N, T, WORDS, UNITS = 4, 5, 12, 6


def first_value(name: str, shape: Any) -> Any:
    """A first value of a variable, drawn by its name, float64: of scales and variances about 1."""
    middle = 1.0 if name.endswith(("gamma", "variance")) else 0.0
    random = np.random.RandomState(zlib.crc32(name.encode()))
    return random.uniform(middle - 0.4, middle + 0.4, size=tuple(shape))


def feeds(model: str, step: int, dtype: str) -> dict[str, Any]:
    """{placeholder: value} of one step; floats of this type."""
    random = np.random.RandomState(step)

    def normal(*shape: int) -> Any:
        return random.normal(size=shape).astype(dtype)

    def words(*shape: int) -> Any:
        return random.randint(3, WORDS, size=shape).astype(np.int32)

    if model == "mlp":
        return {"x": normal(N, 6), "y": random.randint(5, size=N).astype(np.int32)}
    if model == "cnn":
        return {"x": normal(N, 8, 8, 2), "y": random.randint(5, size=N).astype(np.int32)}
    if model == "word2vec":
        return {"x": words(N), "y": words(N, 1).astype(np.int64)}
    if model == "transformer":
        return {"x": words(N, T), "y": words(N, T)}
    if model == "gan":
        return {"x": normal(N, 3) + 1, "z": normal(N, 2)}
    if model == "vae":
        return {"x": random.uniform(size=(N, 6)).astype(dtype)}
    if model == "policy":
        actions = random.randint(3, size=N * T).astype(np.int32)
        return {"x": normal(N * T, 4), "actions": actions, "advantages": normal(N * T)}
    if model == "nested":
        return {"x": normal(N, UNITS), "y": normal(N)}
    lengths = np.array([T, T - 1, T, 3], np.int32)
    if model in ("language", "language_sampled"):
        return {"x": words(N, T), "y": words(N, T), "lengths": lengths}
    if model == "ctc":
        indices = np.array([[0, 0], [0, 1], [1, 0], [2, 0], [2, 1], [3, 0]], np.int64)
        labels = random.randint(4, size=6).astype(np.int32)
        return {"x": normal(N, T, 3), "indices": indices, "labels": labels, "lengths": lengths}
    if model == "seq2seq":
        targets = words(N, T)
        return {"x": words(N, T), "lengths": lengths, "y": targets}
    raise KeyError(model)


#: The models, and how many steps each takes in float32 (100 in float64).
MODELS = (
    "mlp",
    "cnn",
    "word2vec",
    "transformer",
    "gan",
    "vae",
    "policy",
    "language",
    "language_sampled",
    "ctc",
    "seq2seq",
    "nested",
)
STEPS = {"float32": 20, "float64": 100}
