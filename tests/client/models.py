"""Whole models of this library: the same as those of `models_tensorflow.py`, name by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import flowengine as fe
from tests.client.model_feeds import ADAM, DECAY, MOMENTUM, RATE, TINY, UNITS, WORDS, N, feeds, first_value

layers = fe.layers


def first_values(usual: Callable[..., Any], name: str, **options: Any) -> Any:
    """A getter of variable scopes: every variable begins with the value that its name says."""
    value = first_value(name, options["shape"])
    return usual(name, **(options | {"initializer": fe.initializers.constant(value)}))


def cross_entropy(labels: Any, logits: fe.Tensor) -> fe.Tensor:
    return fe.losses.sparse_softmax_cross_entropy(labels, logits)


def table(graph: fe.Graph, name: str, rows: int = WORDS) -> Any:
    return graph.get_variable(name, [rows, UNITS])


def mlp(graph: fe.Graph, x: fe.Tensor, y: fe.Tensor) -> Any:
    hidden = layers.dense(x, 8, fe.nn.relu)
    return cross_entropy(y, layers.dense(hidden, 5)), fe.optimizers.AdaGrad(
        4 * RATE, initial_accumulator_value=MOMENTUM
    )


def cnn(graph: fe.Graph, x: fe.Tensor, y: fe.Tensor) -> Any:
    h = layers.conv2d(x, 3, 3, padding="same", use_bias=False)
    h = fe.nn.relu(layers.batch_normalization(h, training=True, momentum=0.9))
    h = layers.flatten(layers.max_pooling2d(h, 2, 2))
    return cross_entropy(y, layers.dense(h, 5)), fe.optimizers.Momentum(4 * RATE, MOMENTUM)


def word2vec(graph: fe.Graph, x: fe.Tensor, y: fe.Tensor) -> Any:
    parts = [table(graph, f"embedding/part_{number}", WORDS // 2) for number in range(2)]
    weights = [table(graph, f"nce/part_{number}", WORDS // 2) for number in range(2)]
    biases = graph.get_variable("nce/biases", [WORDS])
    drawn = fe.sampled.log_uniform_sampler(y, 1, 4, True, WORDS, seed=5)
    found = fe.embedding.lookup(parts, x)
    losses = fe.sampled.nce_loss(weights, biases, y, found, 4, WORDS, sampled_values=drawn)
    return fe.reduce_mean(losses), fe.optimizers.SGD(16 * RATE)


def transformer(graph: fe.Graph, x: fe.Tensor, y: fe.Tensor) -> Any:
    h = fe.embedding.lookup(table(graph, "embedding/embeddings"), x)
    h = layers.layer_normalization(h + layers.multi_head_attention(h, heads=2, causal=True))
    inner = layers.dense(layers.dense(h, 8, fe.nn.relu), UNITS)
    h = layers.layer_normalization(h + inner)
    return cross_entropy(y, layers.dense(h, WORDS)), fe.optimizers.AdamW(DECAY, RATE, **ADAM)


def logistic(logits: fe.Tensor, label: float) -> fe.Tensor:
    return fe.losses.sigmoid_cross_entropy(fe.ones_like(logits) * label, logits)


def gan(graph: fe.Graph, x: fe.Tensor, z: fe.Tensor) -> Any:
    def judge(data: fe.Tensor) -> fe.Tensor:
        with graph.variable_scope("judge", reuse="auto"):
            return layers.dense(layers.dense(data, 6, fe.nn.leaky_relu, name="hidden"), 1, name="logits")

    with graph.variable_scope("maker"):
        made = layers.dense(layers.dense(z, 6, fe.tanh), 3)
    real, fake = judge(x), judge(made)
    judged = logistic(real, 1.0) + logistic(fake, 0.0)
    fooled = logistic(fake, 1.0)
    return judged, [
        (fe.optimizers.Adam(RATE, **ADAM, name="AdamJudge"), judged, "judge"),
        (fe.optimizers.Adam(RATE, **ADAM, name="AdamMaker"), fooled, "maker"),
    ]


def vae(graph: fe.Graph, x: fe.Tensor) -> Any:
    hidden = layers.dense(x, 6, fe.tanh)
    mean, log_variance = layers.dense(hidden, 2), layers.dense(hidden, 2)
    noise = fe.random_normal([N, 2], dtype=x.dtype, seed=3, graph=graph)
    code = mean + noise * fe.exp(0.5 * log_variance)
    logits = layers.dense(layers.dense(code, 6, fe.tanh), 6)
    rebuilt = fe.reduce_sum(fe.nn.sigmoid_cross_entropy_with_logits(x, logits), 1)
    kept = -0.5 * fe.reduce_sum(1.0 + log_variance - fe.square(mean) - fe.exp(log_variance), 1)
    return fe.reduce_mean(rebuilt + kept), fe.optimizers.Adam(RATE, **ADAM)


def policy(graph: fe.Graph, x: fe.Tensor, actions: fe.Tensor, advantages: fe.Tensor) -> Any:
    logits = layers.dense(layers.dense(x, 8, fe.tanh), 3)
    taken = fe.nn.sparse_softmax_cross_entropy_with_logits(actions, logits)
    entropy = -fe.reduce_sum(fe.nn.softmax(logits) * fe.nn.log_softmax(logits), 1)
    return fe.reduce_mean(taken * advantages - 0.01 * entropy), fe.optimizers.RMSProp(
        RATE, decay=MOMENTUM, epsilon=TINY
    )


def build(model: str, dtype: str) -> fe.Graph:
    """A graph with placeholders of the names of the feeds, and nodes called init, loss and train."""
    graph = fe.Graph()
    graph.seed = 1
    inputs = {key: graph.placeholder(v.dtype, v.shape, name=key) for key, v in feeds(model, 0, dtype).items()}
    with graph.variable_scope("", getter=first_values, dtype=dtype):
        loss, optimizer = BUILDERS[model](graph, **inputs)
    steps = optimizer if isinstance(optimizer, list) else [(optimizer, loss, "")]
    updates = graph.collection("update_ops")
    for number, (each, of, scope) in enumerate(steps):
        chosen = [v for v in graph.collection("trainable_variables") if v.name.startswith(scope)]
        pairs = each.compute_gradients(of, chosen)
        whole = [getattr(gradient, "values", gradient) for gradient, _ in pairs]
        with graph.control_dependencies([loss, *whole, *updates]):
            step = each.apply_gradients(pairs)
        graph.group(step, name=f"train_{number}" if number else "train")
    fe.identity(loss, name="loss")
    graph.group(*[each.initializer for each in graph.collection("variables")], name="init")
    return graph


async def losses(graph: fe.Graph, model: str, dtype: str, steps: int) -> dict[str, Any]:
    """The loss of each step, and what is decoded after the last; of a graph of either library."""
    found: dict[str, Any] = {}
    values: list[Any] = []
    feed: dict[Any, Any] = {}
    async with fe.Session(graph) as session:
        await session.run([], targets=["init"])
        for step in range(steps):
            feed = {f"{key}:0": value for key, value in feeds(model, step, dtype).items()}
            values.append(await session.run("loss:0", feed, targets=["train"]))
            if model == "gan":
                await session.run([], feed, targets=["train_1"])
        if model == "seq2seq" and dtype == "float32":
            found["decoded"] = await session.run("decoded:0", feed)
    found["losses"] = np.array(values)
    assert all(math.isfinite(value) for value in values)
    return found


BUILDERS: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (mlp, cnn, word2vec, transformer, gan, vae, policy)
}
