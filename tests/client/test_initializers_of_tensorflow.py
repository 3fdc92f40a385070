"""Initializers with seeds draw what TensorFlow 1.15's draw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("initializers_of_tensorflow.json").read_text())
MADE: dict[str, Any] = {
    "uniform": fe.initializers.uniform(-1.0, 3.0, seed=5),
    "normal": fe.initializers.normal(2.0, 3.0, seed=5),
    "truncated_normal": fe.initializers.truncated_normal(2.0, 3.0, seed=5),
    "glorot_uniform": fe.initializers.glorot_uniform(seed=5),
    "glorot_normal": fe.initializers.glorot_normal(seed=5),
    "he_uniform": fe.initializers.he_uniform(seed=5),
    "he_normal": fe.initializers.he_normal(seed=5),
    "lecun_uniform": fe.initializers.lecun_uniform(seed=5),
    "lecun_normal": fe.initializers.lecun_normal(seed=5),
    "variance_scaling": fe.initializers.variance_scaling(2.0, "fan_out", "untruncated_normal", seed=5),
    "orthogonal": fe.initializers.orthogonal(1.5, seed=5),
    "zeros": fe.initializers.zeros(),
    "ones": fe.initializers.ones(),
    "constant": fe.initializers.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    "identity": fe.initializers.identity(1.5),
    "integers": fe.initializers.uniform(2, 50, seed=5),
}


@pytest.mark.parametrize("graph_seed", [None, 17])
@pytest.mark.parametrize("name", MADE)
def test_values_with_seeds(name: str, graph_seed: int | None) -> None:
    graph = fe.Graph()
    graph.seed = graph_seed
    wanted = np.array(RECORDED[f"{name} {graph_seed}"])
    dtype = "int32" if name == "integers" else "float32"
    v = graph.variable(MADE[name], shape=wanted.shape, dtype=dtype)
    with fe.blocking.Session(graph) as session:
        session.initialize()
        np.testing.assert_allclose(session.run(v.value()), wanted, rtol=2e-5, atol=1e-6)
