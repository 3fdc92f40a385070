"""Models that graphs are exchanged of with TensorFlow 1.15: the same data and first values for both builders.

{model: (graph, what a step runs)}: of each graph `loss` is what a step is watched by.
"""

from __future__ import annotations

from typing import Any

import numpy as np

MODELS = ("mlp_adagrad", "kmeans_em", "gaussian_process")

_numbers = np.random.RandomState(11)
IMAGES: Any = _numbers.uniform(0, 1, [40, 16])
LABELS: Any = _numbers.randint(0, 4, [40]).astype(np.int32)
HIDDEN: Any = _numbers.uniform(-0.5, 0.5, [16, 8])
OUTPUT: Any = _numbers.uniform(-0.5, 0.5, [8, 4])
POINTS: Any = np.concatenate([_numbers.normal(centre, 0.7, [20, 2]) for centre in (-2, 0, 2)])
CENTRES: Any = POINTS[:3].copy()
AT: Any = np.linspace(-2, 2, 25)[:, None]
SEEN: Any = np.sin(3 * AT[:, 0]) + 0.1 * _numbers.normal(size=25)


def build(model: str, dtype: str) -> Any:
    """The graph of a model, made by this library; node `train` takes a step, `loss` is looked at."""
    import flowengine as fe

    graph = fe.Graph()
    make: Any = {"mlp_adagrad": _mlp, "kmeans_em": _kmeans, "gaussian_process": _process}[model]
    loss, train = make(fe, graph, lambda value, name: graph.constant(value.astype(dtype), name=name), dtype)
    fe.identity(loss, name="loss")
    graph.group(train, name="train")
    return graph


def _mlp(fe: Any, graph: Any, given: Any, dtype: str) -> tuple[Any, Any]:
    with graph.variable_scope("hidden"):
        kernel = graph.get_variable("kernel", initializer=HIDDEN.astype(dtype), dtype=dtype)
        bias = graph.get_variable("bias", [8], initializer=fe.initializers.zeros(), dtype=dtype)
        hidden = fe.nn.relu(given(IMAGES, "images") @ kernel + bias)
    with graph.variable_scope("output"):
        kernel = graph.get_variable("kernel", initializer=OUTPUT.astype(dtype), dtype=dtype)
        logits = hidden @ kernel
    losses = graph.ops.SparseSoftmaxCrossEntropyWithLogits(logits, graph.constant(LABELS)).loss
    loss = fe.reduce_mean(losses)
    return loss, fe.optimizers.AdaGrad(0.1).minimize(loss)


def _kmeans(fe: Any, graph: Any, given: Any, dtype: str) -> tuple[Any, Any]:
    points = given(POINTS, "points")
    centres = graph.variable(CENTRES.astype(dtype), name="centres")
    distances = fe.reduce_sum(fe.square(points[:, None, :] - centres.value()[None]), axis=2)
    nearest = fe.argmin(distances, axis=1)
    loss = fe.reduce_mean(fe.reduce_min(distances, axis=1))
    sums = fe.unsorted_segment_sum(points, nearest, 3)
    counts = fe.unsorted_segment_sum(fe.ones_like(points[:, :1]), nearest, 3)
    with graph.control_dependencies([loss]):
        return loss, centres.assign_op(sums / fe.maximum(counts, 1))


def _process(fe: Any, graph: Any, given: Any, dtype: str) -> tuple[Any, Any]:
    at, seen = given(AT, "at"), given(SEEN[:, None], "seen")
    logs = graph.variable(np.array([0.0, 0.0, -2.0], dtype), name="logs")
    length, height, noise = (fe.exp(logs[each]) for each in range(3))
    apart = fe.square((at - fe.transpose(at)) / length)
    covariance = fe.square(height) * fe.exp(apart * -0.5) + (fe.square(noise) + 1e-6) * fe.eye(
        25, dtype=dtype, graph=graph
    )
    lower = fe.cholesky(covariance)
    solved = fe.cholesky_solve(lower, seen)
    loss = 0.5 * fe.reduce_sum(seen * solved) + fe.reduce_sum(fe.log(fe.diag_part(lower)))
    return loss, fe.optimizers.SGD(0.01).minimize(loss)
