"""The problem that each optimizer is given, here and in TensorFlow, and the optimizers themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

STEPS = 20
#: Steps after which the variable is looked at.
SEEN = (1, 5, 20)
ROWS, COLUMNS = 5, 3
_numbers = np.random.RandomState(7)
START: Any = _numbers.uniform(-1, 1, [ROWS, COLUMNS]).astype(np.float32)
TARGET: Any = _numbers.uniform(-1, 1, [ROWS, COLUMNS]).astype(np.float32)
WEIGHT: Any = _numbers.uniform(0.5, 2, [ROWS, COLUMNS]).astype(np.float32)
#: Rows that a sparse gradient has, one of them twice.
PICKED: list[int] = [3, 0, 3]

#: {case: (class here, class in TensorFlow, arguments here, arguments there)}
CASES: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "sgd": ("SGD", "GradientDescentOptimizer", {"learning_rate": 0.1}, {"learning_rate": 0.1}),
    "momentum": (
        "Momentum",
        "MomentumOptimizer",
        {"learning_rate": 0.05, "momentum": 0.9},
        {"learning_rate": 0.05, "momentum": 0.9},
    ),
    "nesterov": (
        "Momentum",
        "MomentumOptimizer",
        {"learning_rate": 0.05, "momentum": 0.9, "nesterov": True},
        {"learning_rate": 0.05, "momentum": 0.9, "use_nesterov": True},
    ),
    "adagrad": ("AdaGrad", "AdagradOptimizer", {"learning_rate": 0.3}, {"learning_rate": 0.3}),
    "adagrad_da": (
        "AdaGradDA",
        "AdagradDAOptimizer",
        {"learning_rate": 0.3, "l1": 0.01, "l2": 0.02},
        {"learning_rate": 0.3, "l1_regularization_strength": 0.01, "l2_regularization_strength": 0.02},
    ),
    "adadelta": (
        "AdaDelta",
        "AdadeltaOptimizer",
        {"learning_rate": 2.0, "epsilon": 1e-3},
        {"learning_rate": 2.0, "epsilon": 1e-3},
    ),
    "rmsprop": (
        "RMSProp",
        "RMSPropOptimizer",
        {"learning_rate": 0.05, "momentum": 0.5},
        {"learning_rate": 0.05, "momentum": 0.5},
    ),
    "rmsprop_centered": (
        "RMSProp",
        "RMSPropOptimizer",
        {"learning_rate": 0.05, "centered": True},
        {"learning_rate": 0.05, "centered": True},
    ),
    "adam": ("Adam", "AdamOptimizer", {"learning_rate": 0.1}, {"learning_rate": 0.1}),
    "adamw": (
        "AdamW",
        "AdamWOptimizer",
        {"weight_decay": 0.01, "learning_rate": 0.1},
        {"weight_decay": 0.01, "learning_rate": 0.1},
    ),
    "ftrl": (
        "FTRL",
        "FtrlOptimizer",
        {"learning_rate": 0.3, "l1": 0.01, "l2": 0.02},
        {"learning_rate": 0.3, "l1_regularization_strength": 0.01, "l2_regularization_strength": 0.02},
    ),
    "ftrl_shrinkage": (
        "FTRL",
        "FtrlOptimizer",
        {"learning_rate": 0.3, "l2_shrinkage": 0.05},
        {"learning_rate": 0.3, "l2_shrinkage_regularization_strength": 0.05},
    ),
    "proximal_sgd": (
        "ProximalSGD",
        "ProximalGradientDescentOptimizer",
        {"learning_rate": 0.1, "l1": 0.01, "l2": 0.02},
        {"learning_rate": 0.1, "l1_regularization_strength": 0.01, "l2_regularization_strength": 0.02},
    ),
    "proximal_adagrad": (
        "ProximalAdaGrad",
        "ProximalAdagradOptimizer",
        {"learning_rate": 0.3, "l1": 0.01, "l2": 0.02},
        {"learning_rate": 0.3, "l1_regularization_strength": 0.01, "l2_regularization_strength": 0.02},
    ),
}
