"""Handwritten digits in batches: 1440 to learn from and 357 to be tested on, 8 x 8 pixels of 0 to 1."""

from pathlib import Path
from typing import Any

import numpy as np

_FILE = Path(__file__).resolve().parents[2] / "tests" / "data" / "digits" / "digits.npz"

with np.load(_FILE) as _digits:
    _IMAGES = {
        part: _digits[f"{part}_images"].reshape(-1, 64).astype(np.float32) / 16 for part in ("train", "test")
    }
    _LABELS = {part: np.eye(10, dtype=np.float32)[_digits[f"{part}_labels"]] for part in ("train", "test")}

BATCH_SIZE, NUM_STEPS = 90, 1600


def batch(step: int) -> tuple[Any, Any]:
    """Images (90, 64) and labels (90, 10) of a step; 16 steps go through all, in another order each time."""
    epoch, place = divmod(step, len(_IMAGES["train"]) // BATCH_SIZE)
    picked = np.random.default_rng(epoch).permutation(len(_IMAGES["train"]))[place * BATCH_SIZE :][
        :BATCH_SIZE
    ]
    return _IMAGES["train"][picked], _LABELS["train"][picked]


def accuracy(scores: Any) -> float:
    """The share of the digits held out whose highest score, of a function of the images, is right."""
    return float(np.mean(scores(_IMAGES["test"]).argmax(1) == _LABELS["test"].argmax(1)))
