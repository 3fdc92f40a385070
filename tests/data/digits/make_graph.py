"""Write digits.pb: a small classifier of 8 x 8 digits and its training.

    python tests/data/digits/make_graph.py

| node | what it is |
|---|---|
| `images` | fed: float32 (N, 8, 8, 1), 0 to 16; for training the whole training set |
| `labels` | fed: int32 (N,) |
| `init` | sets the weights, by arithmetic noise, the same on every machine; the step counter to 0 |
| `train` | one step of momentum descent on a batch of 100 that the step counter picks from what is fed |
| `loss` | mean cross entropy of that batch, before the step |
| `scores` | probabilities of the ten classes, (N, 10) |
| `accuracy` | the share of `images` whose highest score is at `labels` |
| `weights/*` | the trained values: fetch them to keep, feed them to use |
"""

from __future__ import annotations

import math
from itertools import count
from pathlib import Path
from typing import Any, Final

import flowengine as fe

HERE: Final = Path(__file__).resolve().parent
BATCH: Final = 100

#: {weight: (shape, how many inputs each output has, or None for a bias, which begins at zero)}
SHAPES: Final[dict[str, tuple[list[int], int | None]]] = {
    "conv1": ([3, 3, 1, 16], 9),
    "conv1_bias": ([16], None),
    "conv2": ([3, 3, 16, 32], 144),
    "conv2_bias": ([32], None),
    "dense1": ([128, 64], 128),
    "dense1_bias": ([64], None),
    "dense2": ([64, 10], 64),
    "dense2_bias": ([10], None),
}


def noise(start: int, limit: float) -> Any:
    """An initializer: numbers spread evenly over -limit to limit, from integer arithmetic only."""

    def make(graph: fe.Graph, shape: Any, dtype: Any) -> fe.Tensor:
        index = fe.range(math.prod(shape), dtype="int64", graph=graph) + 7919 * start
        mixed = (index * 1103515245 + 12345) % 2147483647
        mixed = (mixed * 69069 + 5) % 2147483647
        unit = fe.cast(mixed % 65536, dtype) / 65536.0
        return fe.reshape((unit * 2.0 - 1.0) * limit, shape)

    return make


def make_weights(graph: fe.Graph) -> dict[str, fe.Tensor]:
    """{name: the tensor that the network reads and that can be fed instead} of new variables."""
    seeds = count(1)
    weights = {}
    for name, (shape, inputs) in SHAPES.items():
        start = fe.initializers.zeros() if inputs is None else noise(next(seeds), math.sqrt(6 / inputs))
        variable = graph.variable(start, name=f"variables/{name}", shape=shape, dtype="float32")
        weights[name] = fe.identity(variable, name=f"weights/{name}")
    return weights


def network(images: fe.Tensor, weights: dict[str, fe.Tensor]) -> fe.Tensor:
    """Logits (N, 10) of images (N, 8, 8, 1)."""
    x = images / 16.0
    for layer in ("conv1", "conv2"):
        x = fe.nn.conv2d(x, weights[layer], padding="SAME")
        x = fe.nn.relu(fe.nn.bias_add(x, weights[f"{layer}_bias"]))
        x = fe.nn.max_pool(x, 2, 2, "SAME")
    x = fe.reshape(x, [-1, 2 * 2 * 32])
    x = fe.nn.relu(fe.nn.bias_add(x @ weights["dense1"], weights["dense1_bias"]))
    return fe.nn.bias_add(x @ weights["dense2"], weights["dense2_bias"])


def build() -> fe.Graph:
    graph = fe.Graph()
    images = graph.placeholder("float32", [None, 8, 8, 1], name="images")
    labels = graph.placeholder("int32", [None], name="labels")
    weights = make_weights(graph)
    counter = graph.variable(0, name="variables/step", dtype="int32", trainable=False)
    with graph.name_scope("batch"):
        # A stride that shares no factor with the number of rows walks through all of them.
        rows = fe.shape(images)[0]
        picked = (fe.range(BATCH, graph=graph) + counter * BATCH) * 997 % rows
        batch, batch_labels = fe.gather(images, picked), fe.gather(labels, picked)
    with graph.name_scope("training"):
        losses = fe.nn.sparse_softmax_cross_entropy_with_logits(batch_labels, network(batch, weights))
    loss = fe.reduce_mean(losses, name="loss")
    fe.optimizers.Momentum(0.05, 0.9).minimize(loss, global_step=counter, name="train")

    logits = network(images, weights)
    fe.exp(fe.nn.log_softmax(logits), name="scores")
    right = fe.equal(fe.argmax(logits, axis=1, output_type="int32"), labels)
    fe.reduce_mean(fe.cast(right, "float32"), name="accuracy")
    graph.group(*[each.initializer for each in graph.collection("variables")], name="init")
    return graph


if __name__ == "__main__":
    (HERE / "digits.pb").write_bytes(build().to_graph_def().SerializeToString(deterministic=True))
