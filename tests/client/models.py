"""Whole models of this library: the same as those of `models_tensorflow.py`, name by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import flowengine as fe
from tests.client.model_feeds import ADAM, DECAY, MOMENTUM, RATE, TINY, UNITS, WORDS, N, T, feeds, first_value

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


def language_model(graph: fe.Graph, x: fe.Tensor, lengths: fe.Tensor) -> fe.Tensor:
    h = fe.embedding.lookup(table(graph, "embedding/embeddings"), x)
    cell = fe.rnn.MultiRNNCell([fe.rnn.LSTMCell(UNITS), fe.rnn.BasicLSTMCell(UNITS)])
    outputs, _ = fe.rnn.dynamic_rnn(cell, h, lengths)
    found: fe.Tensor = outputs
    return found


def language(graph: fe.Graph, x: fe.Tensor, y: fe.Tensor, lengths: fe.Tensor) -> Any:
    logits = layers.dense(language_model(graph, x, lengths), WORDS)
    return cross_entropy(y, logits), fe.optimizers.Adam(RATE, **ADAM)


def language_sampled(graph: fe.Graph, x: fe.Tensor, y: fe.Tensor, lengths: fe.Tensor) -> Any:
    rows = fe.reshape(language_model(graph, x, lengths), [-1, UNITS])
    weights = table(graph, "softmax/weights")
    biases = graph.get_variable("softmax/biases", [WORDS])
    labels = fe.reshape(fe.cast(y, "int64"), [-1, 1])
    drawn = fe.sampled.log_uniform_sampler(labels, 1, 5, True, WORDS, seed=7)
    losses = fe.sampled.softmax_loss(weights, biases, labels, rows, 5, WORDS, sampled_values=drawn)
    return fe.reduce_mean(losses), fe.optimizers.Adam(RATE, **ADAM)


def ctc(graph: fe.Graph, x: fe.Tensor, indices: fe.Tensor, labels: fe.Tensor, lengths: fe.Tensor) -> Any:
    forward, backward = fe.rnn.LSTMCell(UNITS), fe.rnn.LSTMCell(UNITS)
    outputs, _ = fe.rnn.bidirectional_dynamic_rnn(forward, backward, x, lengths)
    logits = layers.dense(fe.concat(outputs, 2), 5)
    shape = graph.constant([N, 2], "int64")
    sparse = fe.embedding.SparseParts(indices, labels, shape)
    loss = fe.reduce_mean(fe.ctc.loss(sparse, logits, lengths, time_major=False))
    return loss, fe.optimizers.Momentum(4 * RATE, MOMENTUM)


def seq2seq(graph: fe.Graph, x: fe.Tensor, lengths: fe.Tensor, y: fe.Tensor) -> Any:
    words = table(graph, "embedding/embeddings")
    found = fe.embedding.lookup(words, x)
    memory, last = fe.rnn.dynamic_rnn(fe.rnn.GRUCell(UNITS), found, lengths, name="encoder")
    inputs = fe.concat([graph.constant(1, "int32", [N, 1]), y[:, :-1]], 1)

    def cell_over(memory: Any, lengths: Any, last: Any, size: int) -> Any:
        with graph.variable_scope("attention", reuse="auto"):
            mechanism = fe.rnn.BahdanauAttention(UNITS, memory, lengths)
        cell = fe.rnn.AttentionWrapper(fe.rnn.GRUCell(UNITS), mechanism, attention_layer_size=UNITS)
        state = cell.zero_state(graph, size, found.dtype)
        return cell, cell.starting_from(state, last)

    cell, state = cell_over(memory, lengths, last, N)
    helper = fe.rnn.TrainingHelper(fe.embedding.lookup(words, inputs), graph.constant(T, "int32", [N]))
    decoder = fe.rnn.BasicDecoder(cell, helper, state, output_units=WORDS, projection_name="words")
    with graph.variable_scope("decoding"):
        outputs, _, _ = fe.rnn.dynamic_decode(decoder)
    logits = outputs.logits
    logits.set_shape([N, T, WORDS])
    memory, lengths, last = fe.rnn.tile_batch((memory, lengths, last), 3)
    cell, state = cell_over(memory, lengths, last, 3 * N)
    start = graph.constant(1, "int32", [N])
    search = fe.rnn.BeamSearchDecoder(
        cell, words, start, 2, state, beam_width=3, output_units=WORDS, projection_name="words"
    )
    with graph.variable_scope("decoding", reuse=True):
        best, _, _ = fe.rnn.dynamic_decode(search, maximum_iterations=6)
    fe.identity(best.predicted_ids, name="decoded")
    return cross_entropy(y, logits), fe.optimizers.Adam(RATE, **ADAM)


def nested(graph: fe.Graph, x: fe.Tensor, y: fe.Tensor) -> Any:
    # Read once, before the loops: within, each iteration would read them, and keep them for the gradient.
    kernel = graph.get_variable("cell/kernel", [UNITS, UNITS]).value()
    bias = graph.get_variable("cell/bias", [UNITS]).value()

    def inner(j: fe.Tensor, h: fe.Tensor) -> Any:
        turned = fe.matmul(h, kernel)
        up = fe.reduce_mean(h) > 0.0
        return j + 1, graph.cond(up, lambda: fe.tanh(turned + bias), lambda: 0.5 * h + fe.sin(turned))

    def outer(i: fe.Tensor, h: fe.Tensor) -> Any:
        _, h = graph.while_loop(lambda j, _: j <= i, inner, (graph.constant(0), h))
        return i + 1, fe.tanh(h + bias)

    _, h = graph.while_loop(lambda i, _: i < 3, outer, (graph.constant(0), x))
    loss = fe.reduce_mean(fe.squared_difference(fe.reduce_sum(h, 1), y))
    return loss, fe.optimizers.Momentum(RATE, MOMENTUM)


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


async def step_of(session: fe.Session, model: str, dtype: str, step: int) -> Any:
    """One step; its loss."""
    feed = {f"{key}:0": value for key, value in feeds(model, step, dtype).items()}
    loss = await session.run("loss:0", feed, targets=["train"])
    if model == "gan":
        await session.run([], feed, targets=["train_1"])
    return loss


async def losses(graph: fe.Graph, model: str, dtype: str, steps: int) -> dict[str, Any]:
    """The loss of each step, and what is decoded after the last; of a graph of either library."""
    found: dict[str, Any] = {}
    async with fe.Session(graph) as session:
        await session.run([], targets=["init"])
        values = [await step_of(session, model, dtype, step) for step in range(steps)]
        if model == "seq2seq" and dtype == "float32":
            feed = {f"{key}:0": value for key, value in feeds(model, steps - 1, dtype).items()}
            found["decoded"] = await session.run("decoded:0", feed)
    found["losses"] = np.array(values)
    assert all(math.isfinite(value) for value in values)
    return found


BUILDERS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        mlp,
        cnn,
        word2vec,
        transformer,
        gan,
        vae,
        policy,
        language,
        language_sampled,
        ctc,
        seq2seq,
        nested,
    )
}
