"""Whole models in TensorFlow 1.15: recorded, written for us, and ours played there.

    PYTHON models_tensorflow.py record                     losses of all models -> recorded/models.npz
    PYTHON models_tensorflow.py half MODEL DTYPE PREFIX    a checkpoint after half of the steps
    PYTHON models_tensorflow.py rest MODEL DTYPE PREFIX    the losses of the other half, from a checkpoint
    PYTHON models_tensorflow.py build MODEL DTYPE GRAPH    its GraphDef, with nodes init, loss, train
    PYTHON models_tensorflow.py play MODEL DTYPE GRAPH     the losses of a GraphDef or (.meta) MetaGraphDef

Needs TensorFlow 1.15 and nothing of this project but the feeds.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as np
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(os.path.dirname(HERE)))

from tests.client import filed  # noqa: E402
from tests.client.model_feeds import (  # noqa: E402
    ADAM,
    DECAY,
    MODELS,
    MOMENTUM,
    RATE,
    STEPS,
    TINY,
    UNITS,
    WORDS,
    N,
    T,
    feeds,
    first_value,
)

v1 = tf.compat.v1
layers, cells = v1.layers, v1.nn.rnn_cell


def first_values(getter: Any, name: str, shape: Any = None, **options: Any) -> Any:
    """A custom getter: every variable begins with the value that its name says."""
    options["initializer"] = tf.constant_initializer(first_value(name, shape))
    return getter(name, shape=shape, **options)


def placeholders(model: str, dtype: str) -> dict[str, Any]:
    return {key: v1.placeholder(v.dtype, v.shape, name=key) for key, v in feeds(model, 0, dtype).items()}


def cross_entropy(labels: Any, logits: Any) -> Any:
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def table(name: str, rows: int, dtype: str) -> Any:
    return v1.get_variable(name, [rows, UNITS], dtype)


def mlp(x: Any, y: Any, dtype: str) -> Any:
    hidden = layers.dense(x, 8, tf.nn.relu)
    return cross_entropy(y, layers.dense(hidden, 5)), v1.train.AdagradOptimizer(4 * RATE, MOMENTUM)


def cnn(x: Any, y: Any, dtype: str) -> Any:
    h = layers.conv2d(x, 3, 3, padding="same", use_bias=False)
    h = tf.nn.relu(layers.batch_normalization(h, training=True, momentum=0.9, fused=dtype == "float32"))
    h = layers.flatten(layers.max_pooling2d(h, 2, 2))
    return cross_entropy(y, layers.dense(h, 5)), v1.train.MomentumOptimizer(4 * RATE, MOMENTUM)


def word2vec(x: Any, y: Any, dtype: str) -> Any:
    parts = [table(f"embedding/part_{number}", WORDS // 2, dtype) for number in range(2)]
    weights = [table(f"nce/part_{number}", WORDS // 2, dtype) for number in range(2)]
    biases = v1.get_variable("nce/biases", [WORDS], dtype)
    drawn = tf.random.log_uniform_candidate_sampler(y, 1, 4, True, WORDS, seed=5)
    losses = tf.nn.nce_loss(
        weights,
        biases,
        y,
        v1.nn.embedding_lookup(parts, x),
        4,
        WORDS,
        sampled_values=cast_counts(drawn, dtype),
    )
    return tf.reduce_mean(losses), v1.train.GradientDescentOptimizer(16 * RATE)


def cast_counts(drawn: Any, dtype: str) -> Any:
    """TensorFlow takes the logarithm in float32 and adds it: only of that type is it right."""
    return drawn[0], tf.cast(drawn[1], dtype), tf.cast(drawn[2], dtype)


def norm(x: Any, name: str, dtype: str) -> Any:
    with v1.variable_scope(name):
        gamma, beta = (v1.get_variable(key, [UNITS], dtype) for key in ("gamma", "beta"))
    mean, variance = tf.nn.moments(x, [2], keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-3) * gamma + beta


def heads(x: Any) -> Any:
    return tf.transpose(tf.reshape(x, [N, T, 2, UNITS // 2]), [0, 2, 1, 3])


def transformer(x: Any, y: Any, dtype: str) -> Any:
    h = v1.nn.embedding_lookup(table("embedding/embeddings", WORDS, dtype), x)
    with v1.variable_scope("multi_head_attention"):
        q, k, v = (heads(layers.dense(h, UNITS, name=name)) for name in ("query", "key", "value"))
        fits = tf.matmul(q, k, transpose_b=True) / np.sqrt(UNITS // 2)
        seen = tf.linalg.band_part(tf.ones_like(fits), -1, 0)
        weights = tf.nn.softmax(tf.where(seen > 0, fits, tf.fill(tf.shape(fits), tf.cast(-1e9, dtype))))
        mixed = tf.reshape(tf.transpose(tf.matmul(weights, v), [0, 2, 1, 3]), [N, T, UNITS])
        mixed = layers.dense(mixed, UNITS, name="output")
    h = norm(h + mixed, "layer_normalization", dtype)
    inner = layers.dense(layers.dense(h, 8, tf.nn.relu), UNITS)
    h = norm(h + inner, "layer_normalization_1", dtype)
    from tensorflow.contrib.opt import AdamWOptimizer

    return cross_entropy(y, layers.dense(h, WORDS)), AdamWOptimizer(DECAY, RATE, **ADAM)


def logistic(logits: Any, label: float) -> Any:
    labels = tf.fill(tf.shape(logits), tf.cast(label, logits.dtype))
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))


def gan(x: Any, z: Any, dtype: str) -> Any:
    def judge(data: Any) -> Any:
        with v1.variable_scope("judge", reuse=v1.AUTO_REUSE):
            return layers.dense(layers.dense(data, 6, tf.nn.leaky_relu, name="hidden"), 1, name="logits")

    with v1.variable_scope("maker"):
        made = layers.dense(layers.dense(z, 6, tf.tanh), 3)
    real, fake = judge(x), judge(made)
    judged = logistic(real, 1.0) + logistic(fake, 0.0)
    fooled = logistic(fake, 1.0)
    return judged, [
        (v1.train.AdamOptimizer(RATE, **ADAM, name="AdamJudge"), judged, "judge"),
        (v1.train.AdamOptimizer(RATE, **ADAM, name="AdamMaker"), fooled, "maker"),
    ]


def vae(x: Any, dtype: str) -> Any:
    hidden = layers.dense(x, 6, tf.tanh)
    mean, log_variance = layers.dense(hidden, 2), layers.dense(hidden, 2)
    noise = tf.random.normal([N, 2], dtype=dtype, seed=3)
    code = mean + noise * tf.exp(0.5 * log_variance)
    logits = layers.dense(layers.dense(code, 6, tf.tanh), 6)
    rebuilt = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=logits), 1)
    kept = -0.5 * tf.reduce_sum(1 + log_variance - tf.square(mean) - tf.exp(log_variance), 1)
    return tf.reduce_mean(rebuilt + kept), v1.train.AdamOptimizer(RATE, **ADAM)


def policy(x: Any, actions: Any, advantages: Any, dtype: str) -> Any:
    logits = layers.dense(layers.dense(x, 8, tf.tanh), 3)
    taken = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=actions, logits=logits)
    chance = tf.nn.softmax(logits)
    entropy = -tf.reduce_sum(chance * tf.nn.log_softmax(logits), 1)
    return tf.reduce_mean(taken * advantages - 0.01 * entropy), v1.train.RMSPropOptimizer(
        RATE, MOMENTUM, epsilon=TINY
    )


def language_model(x: Any, lengths: Any, dtype: str) -> Any:
    h = v1.nn.embedding_lookup(table("embedding/embeddings", WORDS, dtype), x)
    cell = cells.MultiRNNCell([cells.LSTMCell(UNITS), cells.BasicLSTMCell(UNITS)])
    outputs, _ = v1.nn.dynamic_rnn(cell, h, lengths, dtype=dtype)
    return outputs


def language(x: Any, y: Any, lengths: Any, dtype: str) -> Any:
    logits = layers.dense(language_model(x, lengths, dtype), WORDS)
    return cross_entropy(y, logits), v1.train.AdamOptimizer(RATE, **ADAM)


def language_sampled(x: Any, y: Any, lengths: Any, dtype: str) -> Any:
    rows = tf.reshape(language_model(x, lengths, dtype), [-1, UNITS])
    weights, biases = (
        table("softmax/weights", WORDS, dtype),
        v1.get_variable("softmax/biases", [WORDS], dtype),
    )
    labels = tf.reshape(tf.cast(y, tf.int64), [-1, 1])
    drawn = tf.random.log_uniform_candidate_sampler(labels, 1, 5, True, WORDS, seed=7)
    losses = tf.nn.sampled_softmax_loss(
        weights, biases, labels, rows, 5, WORDS, sampled_values=cast_counts(drawn, dtype)
    )
    return tf.reduce_mean(losses), v1.train.AdamOptimizer(RATE, **ADAM)


def ctc(x: Any, indices: Any, labels: Any, lengths: Any, dtype: str) -> Any:
    outputs, _ = v1.nn.bidirectional_dynamic_rnn(
        cells.LSTMCell(UNITS), cells.LSTMCell(UNITS), x, lengths, dtype=dtype
    )
    logits = tf.transpose(layers.dense(tf.concat(outputs, 2), 5), [1, 0, 2])
    sparse = tf.SparseTensor(indices, labels, [N, 2])
    return tf.reduce_mean(v1.nn.ctc_loss(sparse, logits, lengths)), v1.train.MomentumOptimizer(
        4 * RATE, MOMENTUM
    )


def seq2seq(x: Any, lengths: Any, y: Any, dtype: str) -> Any:
    from tensorflow.contrib import seq2seq as s2s

    words = table("embedding/embeddings", WORDS, dtype)
    memory, last = v1.nn.dynamic_rnn(
        cells.GRUCell(UNITS), v1.nn.embedding_lookup(words, x), lengths, dtype=dtype, scope="encoder"
    )
    projection = layers.Dense(WORDS, use_bias=False, name="words")
    inputs = tf.concat([tf.fill([N, 1], 1), y[:, :-1]], 1)

    def decoded(memory: Any, lengths: Any, last: Any, reuse: Any, make: Any) -> Any:
        with v1.variable_scope("attention", reuse=reuse):
            mechanism = s2s.BahdanauAttention(UNITS, memory, lengths, dtype=tf.as_dtype(dtype))
        cell = s2s.AttentionWrapper(cells.GRUCell(UNITS), mechanism, attention_layer_size=UNITS)
        size = last.shape[0].value
        state = cell.zero_state(size, tf.as_dtype(dtype)).clone(cell_state=last)
        with v1.variable_scope("decoding", reuse=reuse):
            return make(cell, state)

    def train(cell: Any, state: Any) -> Any:
        helper = s2s.TrainingHelper(v1.nn.embedding_lookup(words, inputs), tf.fill([N], T))
        return s2s.dynamic_decode(s2s.BasicDecoder(cell, helper, state, projection))[0].rnn_output

    logits = decoded(memory, lengths, last, None, train)
    logits.set_shape([N, T, WORDS])

    def search(cell: Any, state: Any) -> Any:
        decoder = s2s.BeamSearchDecoder(cell, words, tf.fill([N], 1), 2, state, 3, projection)
        return s2s.dynamic_decode(decoder, maximum_iterations=6)[0].predicted_ids

    if dtype == "float32":
        memory, lengths, last = (s2s.tile_batch(each, 3) for each in (memory, lengths, last))
        tf.identity(decoded(memory, lengths, last, True, search), name="decoded")
    return cross_entropy(y, logits), v1.train.AdamOptimizer(RATE, **ADAM)


def nested(x: Any, y: Any, dtype: str) -> Any:
    kernel = v1.get_variable("cell/kernel", [UNITS, UNITS], dtype)
    bias = v1.get_variable("cell/bias", [UNITS], dtype)

    def inner(j: Any, h: Any) -> Any:
        turned = tf.matmul(h, kernel)
        up = tf.reduce_mean(h) > 0
        return j + 1, tf.cond(up, lambda: tf.tanh(turned + bias), lambda: 0.5 * h + tf.sin(turned))

    def outer(i: Any, h: Any) -> Any:
        return i + 1, tf.tanh(tf.while_loop(lambda j, _: j <= i, inner, [0, h])[1] + bias)

    h = tf.while_loop(lambda i, _: i < 3, outer, [0, x])[1]
    loss = tf.reduce_mean(tf.math.squared_difference(tf.reduce_sum(h, 1), y))
    return loss, v1.train.MomentumOptimizer(RATE, MOMENTUM)


def build(model: str, dtype: str) -> Any:
    """A graph with placeholders of the names of the feeds, and nodes called init, loss and train."""
    graph = tf.Graph()
    with graph.as_default():
        v1.set_random_seed(1)
        inputs = placeholders(model, dtype)
        with v1.variable_scope(v1.get_variable_scope(), custom_getter=first_values, dtype=dtype):
            loss, optimizer = globals()[model](dtype=dtype, **inputs)
        steps = optimizer if isinstance(optimizer, list) else [(optimizer, loss, None)]
        updates = v1.get_collection("update_ops")
        for number, (each, of, scope) in enumerate(steps):
            pairs = each.compute_gradients(of, v1.trainable_variables(scope))
            # All gradients first: what an optimizer changes early must not be read late.
            whole = [getattr(gradient, "values", gradient) for gradient, _ in pairs]
            with tf.control_dependencies([loss, *whole, *updates]):
                step = each.apply_gradients(pairs)
            tf.group(step, name=f"train_{number}" if number else "train")
        tf.identity(loss, name="loss")
        tf.group(v1.global_variables_initializer(), name="init")
    return graph


def step_of(session: Any, model: str, dtype: str, step: int) -> float:
    """One step; its loss."""
    feed = {key + ":0": value for key, value in feeds(model, step, dtype).items()}
    loss = session.run(["loss:0", "train"], feed)[0]
    if model == "gan":
        session.run("train_1", feed)
    return float(loss)


def losses(graph: Any, model: str, dtype: str, steps: int) -> dict[str, Any]:
    """The loss of each step, and what is decoded after the last."""
    found: dict[str, Any] = {}
    with v1.Session(graph=graph) as session:
        session.run("init")
        values = [step_of(session, model, dtype, step) for step in range(steps)]
        found["losses"] = np.array(values)
        if model == "seq2seq" and dtype == "float32":
            feed = {key + ":0": value for key, value in feeds(model, steps - 1, dtype).items()}
            found["decoded"] = session.run("decoded:0", feed)
    return found


def main(mode: str, *rest: str) -> None:
    if mode == "record":
        arrays: dict[str, Any] = {}
        for model in rest or MODELS:
            for dtype, steps in sorted(STEPS.items()):
                for key, value in losses(build(model, dtype), model, dtype, steps).items():
                    arrays[f"{model}/{dtype}|{key}"] = value
                    print(model, dtype, key, value.reshape(-1)[:1], value.reshape(-1)[-1:])
        filed.save(os.path.join(HERE, "recorded", "models.npz"), arrays)
        return
    model, dtype, path = rest
    if mode in ("half", "rest"):
        half = STEPS[dtype] // 2
        graph = build(model, dtype)
        with graph.as_default():
            saver = v1.train.Saver()
        with v1.Session(graph=graph) as session:
            session.run("init")
            if mode == "rest":
                saver.restore(session, path)
            numbers = range(half, 2 * half) if mode == "rest" else range(half)
            found = [step_of(session, model, dtype, step) for step in numbers]
            if mode == "half":
                saver.save(session, path)
        print(json.dumps({"losses": found}))
        return
    if mode == "build":
        with open(path, "wb") as out:
            out.write(build(model, dtype).as_graph_def().SerializeToString())
        return
    if model == "seq2seq":
        import tensorflow.contrib.seq2seq  # noqa: F401 (it registers GatherTree)
    graph = tf.Graph()
    with graph.as_default():
        if path.endswith(".meta"):
            v1.train.import_meta_graph(path)
            assert v1.trainable_variables()
        else:
            definition = v1.GraphDef()
            with open(path, "rb") as file:
                definition.ParseFromString(file.read())
            tf.import_graph_def(definition, name="")
    got = losses(graph, model, dtype, STEPS[dtype])
    print(json.dumps({key: value.tolist() for key, value in got.items()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
