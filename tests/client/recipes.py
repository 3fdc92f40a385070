"""Training recipes of this library as its guides write them: the same as those of `recipes_tensorflow.py`.

Each minimizes its loss in one call, under the control dependencies that the guides show.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import flowengine as fe
from tests.client.model_feeds import MOMENTUM, RATE, TINY, UNITS, WORDS
from tests.client.models import first_values
from tests.client.recipe_feeds import STEPS, feeds

layers = fe.layers


def batch_norm(graph: fe.Graph, images: fe.Tensor, digits: fe.Tensor, training: fe.Tensor) -> Any:
    h = layers.conv2d(images, 3, 3, padding="same", use_bias=False)
    h = fe.nn.relu(layers.batch_normalization(h, training=training, momentum=MOMENTUM))
    h = layers.conv2d(h, 4, 3, padding="same", use_bias=False)
    h = fe.nn.relu(layers.batch_normalization(h, training=training, momentum=MOMENTUM))
    h = layers.flatten(layers.max_pooling2d(h, 2, 2))
    loss = fe.losses.sparse_softmax_cross_entropy(digits, layers.dense(h, 5))
    with graph.control_dependencies(graph.collection("update_ops")):
        return loss, fe.optimizers.Momentum(4 * RATE, MOMENTUM).minimize(loss)


def mixture(graph: fe.Graph, x: fe.Tensor, y: fe.Tensor, first: fe.Tensor) -> Any:
    gate = graph.get_variable("gate", [UNITS, 1])
    one = graph.get_variable("one", [UNITS, 1])
    two = graph.get_variable("two", [UNITS, 1])
    seen = graph.get_variable("seen", [1], trainable=False)
    found = graph.cond(
        first,
        lambda: fe.matmul(x, one.value()) * fe.sigmoid(fe.matmul(x, gate.value())),
        lambda: fe.tanh(fe.matmul(x, two.value())),
    )
    loss = fe.reduce_mean(fe.squared_difference(fe.squeeze(found, [1]), y))
    counted = seen.assign_add([1.0])
    with graph.control_dependencies([counted]):
        return loss, fe.optimizers.Momentum(RATE, MOMENTUM).minimize(loss)


def tied(graph: fe.Graph, words: fe.Tensor) -> Any:
    table = graph.get_variable("table", [WORDS, UNITS])
    h = fe.embedding.lookup(table, words[:, :-1])
    h = h + layers.multi_head_attention(h, heads=2, causal=True)
    logits = fe.matmul(fe.reshape(h, [-1, UNITS]), table.value(), transpose_b=True)
    labels = fe.reshape(words[:, 1:], [-1])
    loss = fe.losses.sparse_softmax_cross_entropy(labels, logits)
    loss = loss + 0.01 * fe.reduce_sum(fe.square(table.value()))
    optimizer = fe.optimizers.Momentum(RATE, MOMENTUM)
    pairs = optimizer.compute_gradients(loss)
    clipped, _ = fe.clip_by_global_norm([gradient for gradient, _ in pairs], 0.5)
    return loss, optimizer.apply_gradients(zip(clipped, [v for _, v in pairs], strict=True))


def penalty(graph: fe.Graph, x: fe.Tensor, z: fe.Tensor, mix: fe.Tensor) -> Any:
    def judge(data: fe.Tensor) -> fe.Tensor:
        with graph.variable_scope("judge", reuse="auto"):
            return layers.dense(layers.dense(data, 6, fe.tanh, name="hidden"), 1, name="score")

    with graph.variable_scope("maker"):
        made = layers.dense(layers.dense(z, 6, fe.tanh), 3)
    between = x * mix + made * (1.0 - mix)
    (slope,) = fe.gradients(judge(between), between)
    norms = fe.sqrt(fe.reduce_sum(fe.square(slope), 1) + TINY)
    judged = fe.reduce_mean(judge(made)) - fe.reduce_mean(judge(x))
    judged = judged + 10.0 * fe.reduce_mean(fe.square(norms - 1.0))
    fooled = -fe.reduce_mean(judge(made))
    variables = graph.collection("trainable_variables")
    judges, makers = ([v for v in variables if v.name.startswith(part)] for part in ("judge", "maker"))
    first, second = fe.optimizers.SGD(RATE), fe.optimizers.SGD(RATE, name="Maker")
    pairs = [first.compute_gradients(judged, judges), second.compute_gradients(fooled, makers)]
    # The variables are read several times: nothing else orders these reads and the updates.
    with graph.control_dependencies([judged, *_gradients(pairs)]):
        return judged, graph.group(first.apply_gradients(pairs[0]), second.apply_gradients(pairs[1]))


def _gradients(pairs: Any) -> list[Any]:
    return [gradient for each in pairs for gradient, _ in each]


@fe.custom_gradient
def rounded(x: Any) -> Any:
    """Round to tenths; the gradient passes where the value lies between -1 and 1."""

    def backward(grad: Any) -> Any:
        return grad * fe.cast(fe.less(fe.abs(x), 1.0), x.dtype)

    return fe.round(x * 10.0) / 10.0, backward


def autoencoder(graph: fe.Graph, x: fe.Tensor) -> Any:
    code = rounded(layers.dense(layers.dense(x, 8, fe.tanh), 3))
    logits = layers.dense(layers.dense(code, 8, fe.tanh), UNITS)
    loss = fe.reduce_mean(fe.nn.sigmoid_cross_entropy_with_logits(x, logits))
    return loss, fe.optimizers.Momentum(4 * RATE, MOMENTUM).minimize(loss)


def rollout(graph: fe.Graph, x: fe.Tensor, draws: fe.Tensor, steps: fe.Tensor) -> Any:
    kernel = graph.get_variable("policy/kernel", [UNITS, 2])
    move = graph.get_variable("world/move", [2, UNITS], trainable=False)

    def body(i: fe.Tensor, state: fe.Tensor, total: fe.Tensor) -> Any:
        logits = fe.matmul(fe.tanh(state), kernel.value())
        chance = fe.nn.softmax(logits)
        action = fe.cast(draws[i] > chance[:, 0], "int32")
        following = 0.5 * state + fe.gather(move.value(), action)
        reward = fe.stop_gradient(-fe.reduce_sum(fe.square(following), 1))
        taken = -fe.nn.sparse_softmax_cross_entropy_with_logits(action, logits)
        return i + 1, fe.stop_gradient(following), total - fe.reduce_mean(taken * reward)

    zero = graph.constant(0.0, "float64")
    loss = graph.while_loop(lambda i, *_: i < steps, body, (graph.constant(0), x, zero))[2]
    count = graph.get_variable("count", [1], trainable=False)
    with graph.control_dependencies([count.assign_add([1.0])]):
        return loss, fe.optimizers.Momentum(RATE / 4, MOMENTUM).minimize(loss)


BUILDERS: Final[dict[str, Callable[..., Any]]] = {
    each.__name__: each for each in (batch_norm, mixture, tied, penalty, autoencoder, rollout)
}


def trained(recipe: str) -> dict[str, Any]:
    """Return the loss of each step under "losses", and each variable's last value under its name."""
    graph = fe.Graph()
    inputs = {key: graph.placeholder(v.dtype, v.shape, name=key) for key, v in feeds(recipe, 0).items()}
    with graph.variable_scope("", getter=first_values, dtype="float64"):
        loss, step = BUILDERS[recipe](graph, **inputs)
    losses = []
    with fe.blocking.Session(graph) as session:
        session.run([], targets=[each.initializer for each in graph.collection("variables")])
        for number in range(STEPS):
            fed = {inputs[key]: value for key, value in feeds(recipe, number).items()}
            losses.append(session.run(loss, fed, targets=[step]))
        named = {each.name.removesuffix(":0"): each for each in graph.collection("variables")}
        values = session.run(list(named.values()))
    return {"losses": np.array(losses), **dict(zip(named, values, strict=True))}
