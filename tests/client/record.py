"""Records what TensorFlow 1.15 computes for the cases of `cases.py`: values and gradients, one file a family.

    PYTHON_WITH_TENSORFLOW_1 tests/client/record.py [FAMILY ...]

Each array is filed as `case|value`, `case|d_argument`; inputs are not filed, for both sides make them.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.contrib as _contrib  # noqa: F401

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(os.path.dirname(HERE)))

from tests.client import cases, filed  # noqa: E402


def function(path: str) -> Any:
    found: Any = tf
    for part in path.split("."):
        found = getattr(found, part)
    return found


def record_losses(case: dict[str, Any]) -> dict[str, Any]:
    """The value, and the gradient of its sum by each input of floats."""
    tf.compat.v1.reset_default_graph()
    tensors = {key: tf.constant(value) for key, value in case["inputs"].items()}
    value = function("compat.v1." + case["tf"])(**dict(tensors, **case["options"]))
    floats = [key for key in sorted(tensors) if tensors[key].dtype.is_floating]
    gradients = tf.gradients(value, [tensors[key] for key in floats])
    fetched = {"value": value}
    fetched.update({"d_" + floats[i]: g for i, g in enumerate(gradients) if g is not None})
    with tf.compat.v1.Session() as session:
        got: dict[str, Any] = session.run(fetched)
    return got


def record_metrics(case: dict[str, Any]) -> dict[str, Any]:
    """The value after each of the batches, (batches, ...), and whether the update said the same."""
    tf.compat.v1.reset_default_graph()
    tensors = {key: tf.compat.v1.placeholder(v.dtype, v.shape[1:]) for key, v in case["inputs"].items()}
    value, update = function("compat.v1." + case["tf"])(**dict(tensors, **case["options"]))
    values, updates = [], []
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.local_variables_initializer())
        for batch in range(3):
            feed = {tensors[key]: v[batch] for key, v in case["inputs"].items()}
            updates.append(session.run(update, feed))
            values.append(session.run(value))
    return {"value": np.array(values)}


def record_embedding(case: dict[str, Any]) -> dict[str, Any]:
    """What is looked up, and the gradient of its weighted sum by each part of the table, made dense."""
    tf.compat.v1.reset_default_graph()
    inputs = case["inputs"]
    parts = [tf.constant(part) for part in inputs["params"]]
    arguments = [parts, tf.constant(inputs["ids"])]
    if "sparse" in inputs:
        place, shape = inputs["sparse"]["indices"], inputs["sparse"]["dense_shape"]
        arguments[1] = tf.SparseTensor(place, arguments[1], shape)
        given = inputs.get("weights")
        arguments.append(None if given is None else tf.SparseTensor(place, tf.constant(given), shape))
    value = function("compat.v1." + case["tf"])(*arguments, **case["options"])
    factors = tf.reshape(tf.cast(tf.range(tf.size(value)), tf.float32), tf.shape(value))
    found = tf.gradients(value * factors, parts)
    with tf.compat.v1.Session() as session:
        got = session.run([value] + [tf.convert_to_tensor(each) for each in found])
    return dict({"value": got[0]}, **{f"d_{i}": each for i, each in enumerate(got[1:])})


def record_sampled(case: dict[str, Any]) -> dict[str, Any]:
    """The losses, and the gradient of their sum by inputs, biases and weights."""
    tf.compat.v1.reset_default_graph()
    inputs = case["inputs"]
    weights = [tf.constant(part) for part in inputs["weights"]]
    biases, activations = tf.constant(inputs["biases"]), tf.constant(inputs["inputs"])
    value = function("compat.v1." + case["tf"])(
        weights,
        biases,
        tf.constant(inputs["labels"]),
        activations,
        sampled_values=tuple(tf.constant(each) for each in inputs["drawn"]),
        **case["options"],
    )
    found = tf.gradients(value, [activations, biases, *weights])
    with tf.compat.v1.Session() as session:
        got = session.run([value] + [tf.convert_to_tensor(each) for each in found])
    return dict({"value": got[0]}, **{f"d_{i}": each for i, each in enumerate(got[1:])})


def record_layers(case: dict[str, Any]) -> dict[str, Any]:
    """What comes out at first, and all variables after three steps against the mean of (y - 0.3)**2."""
    tf.compat.v1.reset_default_graph()
    options = dict(case["options"])
    if "activation" in options:
        options["activation"] = getattr(tf.nn, options["activation"])
    x = tf.constant(case["inputs"]["inputs"])
    if case["tf"].startswith("keras."):
        value = function(case["tf"])(**options)(x)
    else:
        value = function("compat.v1." + case["tf"])(x, **options)
    return trained(value, value)


def trained(fetched: Any, value: Any) -> dict[str, Any]:
    """See `record_layers`."""
    variables = tf.compat.v1.global_variables()
    first = cases.initial([(each.op.name, each.shape.as_list()) for each in variables])
    step = []
    if tf.compat.v1.trainable_variables():
        loss = tf.reduce_mean(tf.square(value - 0.3))
        with tf.control_dependencies(tf.compat.v1.get_collection("update_ops")):
            step = [tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(loss)]
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        for each in variables:
            each.load(first[each.op.name], session)
        result = {"value": session.run(fetched)}
        for _ in range(3):
            session.run(step)
        result.update({"after " + each.op.name: session.run(each) for each in variables})
    return result


CELLS = {"basic": "BasicRNNCell", "gru": "GRUCell", "lstm": "LSTMCell", "basic_lstm": "BasicLSTMCell"}


def cell_of(told: Any) -> Any:
    """The cell of a (kind, options) or (wrapper, cells)."""
    kind, rest = told
    rnn_cell = tf.compat.v1.nn.rnn_cell
    if kind == "multi":
        return rnn_cell.MultiRNNCell([cell_of(each) for each in rest])
    if kind == "residual":
        return rnn_cell.ResidualWrapper(cell_of(rest))
    options = dict(rest)
    units = options.pop("units")
    if kind == "norm_lstm":
        return tf.contrib.rnn.LayerNormBasicLSTMCell(units, **options)
    return getattr(rnn_cell, CELLS[kind])(units, **options)


def record_rnn(case: dict[str, Any]) -> dict[str, Any]:
    """Outputs and last state, or what was decoded; all variables after three steps as in `record_layers`."""
    tf.compat.v1.reset_default_graph()
    inputs = {key: tf.constant(value) for key, value in case["inputs"].items()}
    options = dict(case["options"])
    if case["tf"] in ("attention", "beam", "greedy"):
        return {"attention": record_attention, "beam": record_beam, "greedy": record_greedy}[case["tf"]](
            inputs, options
        )
    cells = [cell_of(options.pop("cell"))]
    if case["tf"].startswith("bidirectional"):
        cells.append(cell_of(case["options"]["cell"]))
    run = getattr(tf.compat.v1.nn, case["tf"])
    outputs, state = run(*cells, dtype=tf.float32, **dict(inputs, **options))
    flat = tf.nest.flatten([outputs, state])
    return unpacked(trained(flat, tf.concat(tf.nest.flatten(outputs), -1)))


def unpacked(got: dict[str, Any]) -> dict[str, Any]:
    values = got.pop("value")
    return dict(got, **{f"value {number}": value for number, value in enumerate(values)})


def mechanism(inputs: Any, kind: str, memory: Any, lengths: Any) -> Any:
    seq2seq = tf.contrib.seq2seq
    if kind.startswith("luong"):
        return seq2seq.LuongAttention(4, memory, lengths, scale=kind.endswith("scaled"))
    return seq2seq.BahdanauAttention(4, memory, lengths, normalize=kind.endswith("normalized"))


def record_attention(inputs: Any, options: dict[str, Any]) -> dict[str, Any]:
    seq2seq = tf.contrib.seq2seq
    found = mechanism(inputs, options["kind"], inputs["memory"], inputs["memory_length"])
    cell = seq2seq.AttentionWrapper(
        cell_of(("gru", {"units": 4})), found, attention_layer_size=options["layer"]
    )
    helper = seq2seq.TrainingHelper(inputs["inputs"], inputs["sequence_length"])
    projection = tf.compat.v1.layers.Dense(5, use_bias=False, name="words")
    decoder = seq2seq.BasicDecoder(cell, helper, cell.zero_state(2, tf.float32), projection)
    outputs, state, lengths = seq2seq.dynamic_decode(decoder, impute_finished=True)
    return unpacked(
        trained([outputs.rnn_output, outputs.sample_id, lengths, state.attention], outputs.rnn_output)
    )


def record_beam(inputs: Any, options: dict[str, Any]) -> dict[str, Any]:
    seq2seq = tf.contrib.seq2seq
    memory, lengths = (seq2seq.tile_batch(inputs[key], 3) for key in ("memory", "memory_length"))
    found = mechanism(inputs, "luong", memory, lengths)
    cell = seq2seq.AttentionWrapper(cell_of(("gru", {"units": 4})), found, attention_layer_size=4)
    projection = tf.compat.v1.layers.Dense(6, use_bias=False, name="words")
    decoder = seq2seq.BeamSearchDecoder(
        cell,
        inputs["table"],
        tf.constant([1, 1]),
        2,
        cell.zero_state(6, tf.float32),
        3,
        projection,
        length_penalty_weight=options["penalty"],
    )
    outputs, state, lengths = seq2seq.dynamic_decode(decoder, maximum_iterations=7)
    steps = outputs.beam_search_decoder_output
    return unpacked(run_once([outputs.predicted_ids, steps.scores, state.log_probs, lengths]))


def record_greedy(inputs: Any, options: dict[str, Any]) -> dict[str, Any]:
    seq2seq = tf.contrib.seq2seq
    helper = seq2seq.GreedyEmbeddingHelper(inputs["table"], tf.constant([1, 3]), 2)
    cell = cell_of(("lstm", {"units": 4}))
    projection = tf.compat.v1.layers.Dense(6, name="words")
    decoder = seq2seq.BasicDecoder(cell, helper, cell.zero_state(2, tf.float32), projection)
    outputs, _, lengths = seq2seq.dynamic_decode(decoder, maximum_iterations=6)
    return unpacked(run_once([outputs.rnn_output, outputs.sample_id, lengths]))


def run_once(fetched: Any) -> dict[str, Any]:
    variables = tf.compat.v1.global_variables()
    first = cases.initial([(each.op.name, each.shape.as_list()) for each in variables])
    with tf.compat.v1.Session() as session:
        for each in variables:
            each.load(4 * first[each.op.name], session)
        result = {"value": session.run(fetched)}
        result.update({"after " + each.op.name: session.run(each) for each in variables})
    return result


def record_ctc(case: dict[str, Any]) -> dict[str, Any]:
    """The losses and the gradient of their sum by logits; or the paths found and their log probabilities."""
    tf.compat.v1.reset_default_graph()
    logits, lengths = (tf.constant(case["inputs"][key]) for key in ("logits", "sequence_length"))
    options = dict(case["options"])
    nn = tf.compat.v1.nn
    if case["tf"] == "loss":
        labels = tf.SparseTensor(*cases.LABELS, [3, 2])
        if "merge_repeated" in options:
            options["ctc_merge_repeated"] = options.pop("merge_repeated")
        value = nn.ctc_loss(labels, logits, lengths, **options)
        fetched = {"value": value, "d_logits": tf.gradients(value, logits)[0]}
    else:
        decode = nn.ctc_greedy_decoder if case["tf"] == "greedy" else nn.ctc_beam_search_decoder
        if case["tf"] == "beam":
            options["merge_repeated"] = False
        paths, chance = decode(logits, lengths, **options)
        fetched = {"chance": chance}
        fetched.update({f"path {number}": tf.sparse.to_dense(each, -1) for number, each in enumerate(paths)})
    with tf.compat.v1.Session() as session:
        got: dict[str, Any] = session.run(fetched)
    return got


RECORDERS = {
    "losses": record_losses,
    "metrics": record_metrics,
    "embedding": record_embedding,
    "sampled": record_sampled,
    "layers": record_layers,
    "rnn": record_rnn,
    "ctc": record_ctc,
}


def main(families: list[str]) -> None:
    for family in families or sorted(RECORDERS):
        arrays: dict[str, Any] = {}
        for case in cases.FAMILIES[family]():
            for key, value in RECORDERS[family](case).items():
                arrays[f"{case['name']}|{key}"] = np.asarray(value)
        path = os.path.join(HERE, "recorded", family + ".npz")
        filed.save(path, arrays)
        print(f"{path}: {len(arrays)} arrays, {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
