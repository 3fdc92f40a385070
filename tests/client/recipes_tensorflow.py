"""The training recipes of `recipes.py` in TensorFlow 1.15: what is recorded in recorded/recipes.npz.

    PYTHON recipes_tensorflow.py

Needs TensorFlow 1.15 and nothing of this project but the feeds.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(os.path.dirname(HERE)))

from tests.client import filed  # noqa: E402
from tests.client.model_feeds import MOMENTUM, RATE, TINY, UNITS, WORDS, N, first_value  # noqa: E402
from tests.client.recipe_feeds import RECIPES, STEPS, feeds  # noqa: E402

v1 = tf.compat.v1
#: Variables that a recipe does not train, or on which its loss does not depend: biases that cancel out.
FIXED = {"world/move", "judge/score/bias", "multi_head_attention/key/bias"}
layers, train = v1.layers, v1.train


def first_values(getter: Any, name: str, shape: Any = None, **options: Any) -> Any:
    if "Momentum" not in name:
        options["initializer"] = tf.constant_initializer(first_value(name, shape))
    return getter(name, shape=shape, **options)


def cross_entropy(labels: Any, logits: Any) -> Any:
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def batch_norm(images: Any, digits: Any, training: Any) -> Any:
    h = layers.conv2d(images, 3, 3, padding="same", use_bias=False)
    h = tf.nn.relu(layers.batch_normalization(h, training=training, momentum=MOMENTUM, fused=False))
    h = layers.conv2d(h, 4, 3, padding="same", use_bias=False)
    h = tf.nn.relu(layers.batch_normalization(h, training=training, momentum=MOMENTUM, fused=False))
    h = layers.flatten(layers.max_pooling2d(h, 2, 2))
    loss = cross_entropy(digits, layers.dense(h, 5))
    with tf.control_dependencies(v1.get_collection("update_ops")):
        return loss, train.MomentumOptimizer(4 * RATE, MOMENTUM).minimize(loss)


def mixture(x: Any, y: Any, first: Any) -> Any:
    gate, one, two = (v1.get_variable(name, [UNITS, 1]) for name in ("gate", "one", "two"))
    seen = v1.get_variable("seen", [1], trainable=False)
    found = tf.cond(
        first,
        lambda: tf.matmul(x, one) * tf.sigmoid(tf.matmul(x, gate)),
        lambda: tf.tanh(tf.matmul(x, two)),
    )
    loss = tf.reduce_mean(tf.math.squared_difference(tf.squeeze(found, [1]), y))
    with tf.control_dependencies([seen.assign_add([1.0])]):
        return loss, train.MomentumOptimizer(RATE, MOMENTUM).minimize(loss)


def attended(h: Any) -> Any:
    length = h.shape[1].value

    def heads(x: Any) -> Any:
        return tf.transpose(tf.reshape(x, [N, length, 2, UNITS // 2]), [0, 2, 1, 3])

    with v1.variable_scope("multi_head_attention"):
        q, k, v = (heads(layers.dense(h, UNITS, name=name)) for name in ("query", "key", "value"))
        fits = tf.matmul(q, k, transpose_b=True) / np.sqrt(UNITS // 2)
        seen = tf.linalg.band_part(tf.ones_like(fits), -1, 0)
        weights = tf.nn.softmax(tf.where(seen > 0, fits, tf.fill(tf.shape(fits), tf.cast(-1e9, fits.dtype))))
        mixed = tf.reshape(tf.transpose(tf.matmul(weights, v), [0, 2, 1, 3]), [N, length, UNITS])
        return layers.dense(mixed, UNITS, name="output")


def tied(words: Any) -> Any:
    table = v1.get_variable("table", [WORDS, UNITS])
    h = v1.nn.embedding_lookup(table, words[:, :-1])
    h = h + attended(h)
    logits = tf.matmul(tf.reshape(h, [-1, UNITS]), table, transpose_b=True)
    loss = cross_entropy(tf.reshape(words[:, 1:], [-1]), logits)
    loss = loss + 0.01 * tf.reduce_sum(tf.square(table))
    optimizer = train.MomentumOptimizer(RATE, MOMENTUM)
    pairs = optimizer.compute_gradients(loss)
    clipped, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], 0.5)
    return loss, optimizer.apply_gradients(zip(clipped, [v for _, v in pairs]))  # noqa: B905


def penalty(x: Any, z: Any, mix: Any) -> Any:
    def judge(data: Any) -> Any:
        with v1.variable_scope("judge", reuse=v1.AUTO_REUSE):
            return layers.dense(layers.dense(data, 6, tf.tanh, name="hidden"), 1, name="score")

    with v1.variable_scope("maker"):
        made = layers.dense(layers.dense(z, 6, tf.tanh), 3)
    between = x * mix + made * (1.0 - mix)
    (slope,) = tf.gradients(judge(between), between)
    norms = tf.sqrt(tf.reduce_sum(tf.square(slope), 1) + TINY)
    judged = tf.reduce_mean(judge(made)) - tf.reduce_mean(judge(x))
    judged = judged + 10.0 * tf.reduce_mean(tf.square(norms - 1.0))
    fooled = -tf.reduce_mean(judge(made))
    first = train.GradientDescentOptimizer(RATE)
    second = train.GradientDescentOptimizer(RATE, name="Maker")
    pairs = [
        first.compute_gradients(judged, v1.trainable_variables("judge")),
        second.compute_gradients(fooled, v1.trainable_variables("maker")),
    ]
    # The variables are read several times: nothing else orders these reads and the updates.
    with tf.control_dependencies([judged] + [gradient for each in pairs for gradient, _ in each]):
        return judged, tf.group(first.apply_gradients(pairs[0]), second.apply_gradients(pairs[1]))


@tf.custom_gradient  # type: ignore[untyped-decorator]
def rounded(x: Any) -> Any:
    def backward(grad: Any) -> Any:
        return grad * tf.cast(tf.less(tf.abs(x), 1.0), x.dtype)

    return tf.round(x * 10.0) / 10.0, backward


def autoencoder(x: Any) -> Any:
    code = rounded(layers.dense(layers.dense(x, 8, tf.tanh), 3))
    logits = layers.dense(layers.dense(code, 8, tf.tanh), UNITS)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=logits))
    return loss, train.MomentumOptimizer(4 * RATE, MOMENTUM).minimize(loss)


def rollout(x: Any, draws: Any, steps: Any) -> Any:
    kernel = v1.get_variable("policy/kernel", [UNITS, 2])
    move = v1.get_variable("world/move", [2, UNITS], trainable=False)
    # Read once: TensorFlow cannot differentiate a read within a loop that is under control dependencies.
    weights, moves = tf.identity(kernel), tf.identity(move)

    def body(i: Any, state: Any, total: Any) -> Any:
        logits = tf.matmul(tf.tanh(state), weights)
        chance = tf.nn.softmax(logits)
        action = tf.cast(draws[i] > chance[:, 0], tf.int32)
        following = 0.5 * state + tf.gather(moves, action)
        reward = tf.stop_gradient(-tf.reduce_sum(tf.square(following), 1))
        taken = -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=action, logits=logits)
        return i + 1, tf.stop_gradient(following), total - tf.reduce_mean(taken * reward)

    zero = tf.constant(0.0, tf.float64)
    loss = tf.while_loop(lambda i, *_: i < steps, body, (tf.constant(0), x, zero))[2]
    count = v1.get_variable("count", [1], trainable=False)
    optimizer = train.MomentumOptimizer(RATE / 4, MOMENTUM)
    # The backward loop of TensorFlow cannot be built under control dependencies.
    pairs = optimizer.compute_gradients(loss, [kernel])
    with tf.control_dependencies([count.assign_add([1.0])]):
        return loss, optimizer.apply_gradients(pairs)


def main() -> None:
    arrays: dict[str, Any] = {}
    for recipe in RECIPES:
        with tf.Graph().as_default():
            inputs = {key: v1.placeholder(v.dtype, v.shape, name=key) for key, v in feeds(recipe, 0).items()}
            scope = v1.get_variable_scope()
            with v1.variable_scope(scope, custom_getter=first_values, dtype=tf.float64, use_resource=True):
                loss, step = globals()[recipe](**inputs)
            losses = []
            with v1.Session() as session:
                session.run(v1.global_variables_initializer())
                for number in range(STEPS):
                    fed = {inputs[key]: value for key, value in feeds(recipe, number).items()}
                    losses.append(session.run([loss, step], fed)[0])
                named = {each.op.name: each for each in v1.global_variables()}
                values = session.run(named)
        for key, value in values.items():
            if key not in FIXED and not key.endswith("/Momentum"):
                assert np.abs(value - first_value(key, value.shape)).max() > 1e-6, (
                    f"{recipe}: {key} has not moved"
                )
            arrays[f"{recipe}|{key}"] = value
        arrays[f"{recipe}|losses"] = np.array(losses)
        print(recipe, losses[0], losses[-1])
    filed.save(os.path.join(HERE, "recorded", "recipes.npz"), arrays)


if __name__ == "__main__":
    main()
