"""Handwritten digits in batches: 1440 to learn from and 357 to be tested on, 8 x 8 pixels of 0 to 1."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_FILE = Path(__file__).resolve().parents[2] / "tests" / "data" / "digits" / "digits.npz"

with np.load(_FILE) as _digits:
    _IMAGES: dict[str, Floats] = {
        part: _digits[f"{part}_images"].reshape(-1, 64).astype(np.float32) / 16 for part in ("train", "test")
    }
    _LABELS: dict[str, Floats] = {
        part: np.eye(10, dtype=np.float32)[_digits[f"{part}_labels"]] for part in ("train", "test")
    }

BATCH_SIZE, NUM_STEPS = 90, 1600


def batch(step: int) -> tuple[Floats, Floats]:
    """Images (90, 64) and labels (90, 10) of a step; 16 steps go through all, in another order each time.

    The pixels are a little off, each time otherwise: what has seen no image twice learns none by heart.
    """
    epoch, place = divmod(step, len(_IMAGES["train"]) // BATCH_SIZE)
    picked = np.random.default_rng(epoch).permutation(len(_IMAGES["train"]))[place * BATCH_SIZE :][
        :BATCH_SIZE
    ]
    noise = np.random.default_rng([1, step]).normal(0, 0.2, [BATCH_SIZE, 64]).astype(np.float32)
    return _IMAGES["train"][picked] + noise, _LABELS["train"][picked]


def accuracy(scores: Callable[[Floats], Floats]) -> float:
    """The share of the digits held out whose highest score, of a function of the images, is right."""
    right: NDArray[np.bool_] = scores(_IMAGES["test"]).argmax(1) == _LABELS["test"].argmax(1)
    return float(right.mean())
