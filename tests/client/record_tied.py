"""Records how TensorFlow 1.15 trains the models of `tied_cases`, into tied_of_tensorflow.json.

python -m tests.client.record_tied        # with the Python of a TensorFlow 1.15
"""

from __future__ import annotations

import json
import os
from typing import Any

import tensorflow as tf

from tests.client import tied_cases as cases


def loss_of(model: str, words: Any) -> tuple[Any, list[Any]]:
    """The loss of a model, and the variables of its table."""
    shape = [cases.ROWS, cases.COLUMNS]
    ids, labels = words[:, :2], words[:, 2]
    partitioner = tf.fixed_size_partitioner(2) if model == "partitioned" else None
    table = tf.get_variable("E", shape, initializer=tf.zeros_initializer(), partitioner=partitioner)
    variables = list(table) if model == "partitioned" else [table]
    if model == "loop":

        def body(count: Any, state: Any) -> Any:
            rows = tf.nn.embedding_lookup(table, ids[:, count])
            return count + 1, tf.tanh(
                state + rows + tf.matmul(tf.tanh(tf.matmul(rows, table, transpose_b=True)), table)
            )

        _, hidden = tf.while_loop(
            lambda count, state: count < 2, body, (0, tf.zeros([cases.BATCH, cases.COLUMNS]))
        )
    elif model == "conditional":
        hidden = tf.cond(
            tf.equal(words[0, 0] % 2, 0),
            lambda: tf.reduce_sum(tf.nn.embedding_lookup(table, ids), 1),
            lambda: tf.matmul(tf.one_hot(ids[:, 0], cases.ROWS), table),
        )
    elif model == "partitioned":
        hidden = tf.tanh(tf.reduce_sum(tf.nn.embedding_lookup(table, ids, partition_strategy="div"), 1))
    elif model == "negated":
        hidden = tf.tanh(tf.reduce_sum(tf.gather(tf.nn.bias_add(-table, tf.ones([cases.COLUMNS])), ids), 1))
    elif model == "reshaped":
        flat = tf.gather(tf.reshape(table, [cases.ROWS, 2, 2]), ids)
        hidden = tf.tanh(tf.reduce_sum(tf.reshape(flat, [cases.BATCH, 2, cases.COLUMNS]), 1))
    else:
        hidden = tf.tanh(tf.reduce_sum(tf.nn.embedding_lookup(table, ids), 1))
    if model in ("tied", "loop", "conditional", "partitioned"):
        logits = tf.matmul(hidden, tf.convert_to_tensor(table), transpose_b=True)
    else:
        logits = tf.matmul(hidden, cases.START, transpose_b=True)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    if model == "decayed":
        loss += 0.1 * tf.nn.l2_loss(table)
    return loss, variables


def clipped(gradients: list[Any], kind: str) -> list[Any]:
    bound = cases.CLIPS[kind]
    if kind == "none":
        return gradients
    if kind == "global_norm":
        return list(tf.clip_by_global_norm(gradients, bound)[0])
    if kind == "value":
        return [tf.clip_by_value(each, -bound, bound) for each in gradients]
    clip = tf.clip_by_norm if kind == "norm" else tf.clip_by_average_norm
    return [clip(each, bound) for each in gradients]


def record(model: str, name: str, clip: str) -> dict[str, Any]:
    with tf.Graph().as_default(), tf.Session() as session:
        # Reference variables give the same numbers to the last digit.
        tf.get_variable_scope().set_use_resource(True)
        words = tf.placeholder(tf.int32, [cases.BATCH, 3])
        step = tf.train.get_or_create_global_step()
        loss, variables = loss_of(model, words)
        _, kind, _, arguments = cases.OPTIMIZERS[name]
        if kind == "AdagradDAOptimizer":
            arguments = {"global_step": step, **arguments}
        optimizer = getattr(tf.train, kind)(**arguments)
        pairs = optimizer.compute_gradients(loss, variables)
        gradients = [gradient for gradient, _ in pairs]
        norm = tf.global_norm(gradients)
        new = clipped(gradients, clip)
        changes = [(each, variable) for each, (_, variable) in zip(new, pairs)]  # noqa: B905 - Python 3.7
        train = optimizer.apply_gradients(changes, global_step=step)
        session.run(tf.global_variables_initializer())
        at = 0
        for variable in variables:
            rows = variable.shape.as_list()[0]
            variable.load(cases.START[at : at + rows], session)
            at += rows
        losses, norms = [], []
        for batch in cases.WORDS:
            found = session.run([loss, norm], {words: batch})
            losses.append(float(f"{found[0]:.8g}"))
            norms.append(float(f"{found[1]:.8g}"))
            session.run(train, {words: batch})
        return {
            "kinds": [type(each).__name__ for each in gradients],
            "clipped": [type(each).__name__ for each in new],
            "losses": [losses[at] for at in cases.SEEN],
            "norms": [norms[at] for at in cases.SEEN],
        }


def main() -> None:
    found = {"/".join(case): record(*case) for case in cases.cases()}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tied_of_tensorflow.json")
    with open(path, "w") as file:
        file.write(
            "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()) + "\n}\n"
        )


if __name__ == "__main__":
    main()
