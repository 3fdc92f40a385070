"""Models that read one table both by rows and whole, and how they are trained: here and in TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np

STEPS = 20
#: Losses before these steps are compared.
SEEN = (0, 1, 5, 19)
ROWS, COLUMNS, BATCH = 7, 4, 5
_numbers = np.random.RandomState(11)
START: Any = _numbers.uniform(-0.5, 0.5, [ROWS, COLUMNS]).astype(np.float32)
#: (STEPS, BATCH, 3): two rows to look up, and a label. Rows repeat within a batch.
WORDS: Any = _numbers.randint(0, ROWS, [STEPS, BATCH, 3]).astype(np.int32)

#: How the table is read.
MODELS = ("tied", "decayed", "rows", "negated", "reshaped", "loop", "conditional", "partitioned")
#: {optimizer: (class here, class in TensorFlow, arguments here, arguments there)}
OPTIMIZERS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "sgd": ("SGD", "GradientDescentOptimizer", {"learning_rate": 0.5}, {"learning_rate": 0.5}),
    "momentum": (
        "Momentum",
        "MomentumOptimizer",
        {"learning_rate": 0.2, "momentum": 0.9},
        {"learning_rate": 0.2, "momentum": 0.9},
    ),
    "adam": ("Adam", "AdamOptimizer", {"learning_rate": 0.05}, {"learning_rate": 0.05}),
    "rmsprop": ("RMSProp", "RMSPropOptimizer", {"learning_rate": 0.02}, {"learning_rate": 0.02}),
    "ftrl": (
        "FTRL",
        "FtrlOptimizer",
        {"learning_rate": 0.5, "l2_shrinkage": 0.1},
        {"learning_rate": 0.5, "l2_shrinkage_regularization_strength": 0.1},
    ),
    "adagrad_da": ("AdaGradDA", "AdagradDAOptimizer", {"learning_rate": 0.5}, {"learning_rate": 0.5}),
}
#: {clipping: its bound}; None for no clipping at all.
CLIPS: dict[str, Any] = {
    "none": None,
    "global_norm": 0.1,
    "norm": 0.1,
    "average_norm": 0.004,
    "value": 0.03,
}
#: The optimizer of all models and clippings; the others train the first model, clipped by global norm or not.
MAIN = "momentum"


def cases() -> list[tuple[str, str, str]]:
    """(model, optimizer, clipping) of each case."""
    found = [(model, MAIN, clip) for model in MODELS for clip in CLIPS]
    found += [("tied", name, clip) for name in OPTIMIZERS if name != MAIN for clip in ("none", "global_norm")]
    return found
