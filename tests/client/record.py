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
        for batch in range(cases.STEPS):
            feed = {tensors[key]: v[batch] for key, v in case["inputs"].items()}
            updates.append(session.run(update, feed))
            values.append(session.run(value))
    return {"value": np.array(values)}


def record_embedding(case: dict[str, Any]) -> dict[str, Any]:
    """Return the looked-up rows, and the dense gradient of their weighted sum by each part of the table."""
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
    """Return the first output of a layer, then the values that `trained` records."""
    tf.compat.v1.reset_default_graph()
    options = dict(case["options"])
    if "activation" in options:
        options["activation"] = getattr(tf.nn, options["activation"])
    for key in [key for key in options if key.endswith("_regularizer")]:
        options[key] = tf.keras.regularizers.l2(options[key])
    inputs = {key: tf.constant(value) for key, value in case["inputs"].items()}
    if case["tf"] == "attention":
        layer = tf.keras.layers.Attention(causal=options["causal"])
        value = layer([inputs["query"], inputs["values"], inputs["keys"]])
    elif case["tf"] == "conv1d_transpose":
        value = transposed(inputs["inputs"], **options)
    elif case["tf"] == "keras.layers.Embedding":
        value = tf.keras.layers.Embedding(options["vocabulary"], options["units"])(inputs["inputs"])
    elif case["tf"].startswith("keras."):
        value = function(case["tf"])(**options)(inputs["inputs"])
    else:
        value = function("compat.v1." + case["tf"])(inputs["inputs"], **options)
    return trained(value, value)


def transposed(x: Any, filters: int, kernel_size: int, strides: int, padding: str) -> Any:
    """A layer of `conv1d_transpose`, which TensorFlow has as an op only."""
    rows, width, channels = x.shape.as_list()
    with tf.compat.v1.variable_scope("conv1d_transpose"):
        kernel = tf.compat.v1.get_variable("kernel", [kernel_size, filters, channels])
        bias = tf.compat.v1.get_variable("bias", [filters])
    more = max(kernel_size - strides, 0) if padding == "valid" else 0
    shape = [rows, width * strides + more, filters]
    return tf.nn.conv1d_transpose(x, kernel, shape, strides, padding.upper()) + bias


def trained(fetched: Any, value: Any) -> dict[str, Any]:
    """Return first values, each step's loss against the mean of (y - 0.3)**2, and the final variables."""
    variables = tf.compat.v1.global_variables()
    first = cases.initial([(each.op.name, each.shape.as_list()) for each in variables])
    penalties = tf.compat.v1.losses.get_regularization_losses()
    run = [tf.add_n([tf.reduce_mean(tf.square(value - 0.3)), *penalties])]
    if tf.compat.v1.trainable_variables():
        with tf.control_dependencies([*run, *tf.compat.v1.get_collection("update_ops")]):
            run.append(tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(run[0]))
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        for each in variables:
            each.load(first[each.op.name], session)
        result = {"value": session.run(fetched)}
        if len(run) > 1:
            result["losses"] = np.array([session.run(run)[0] for _ in range(cases.STEPS)])
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
    if kind == "device":
        return rnn_cell.DeviceWrapper(cell_of(rest), "/device:CPU:0")
    if kind == "dropout":
        once = {"input_size": tf.TensorShape([3]), "dtype": tf.float32}
        more = once if rest[0].get("variational_recurrent") else {}
        return rnn_cell.DropoutWrapper(cell_of(rest[1]), **dict(rest[0], **more))
    options = dict(rest)
    units = options.pop("units")
    if kind == "norm_lstm":
        return tf.contrib.rnn.LayerNormBasicLSTMCell(units, **options)
    return getattr(rnn_cell, CELLS[kind])(units, **options)


def record_rnn(case: dict[str, Any]) -> dict[str, Any]:
    """Outputs and last state, or what was decoded; training as in `record_layers`."""
    tf.compat.v1.reset_default_graph()
    inputs = {key: tf.constant(value) for key, value in case["inputs"].items()}
    options = dict(case["options"])
    own = {
        "attention": record_attention,
        "beam": record_beam,
        "greedy": record_greedy,
        "sample": record_greedy,
        "raw": record_raw,
    }
    if case["tf"] in own:
        return own[case["tf"]](inputs, dict(options, kind=options.get("kind", case["tf"])))
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
        cell_of(("gru", {"units": 4})), found, attention_layer_size=options["layer"], alignment_history=True
    )
    helper = seq2seq.TrainingHelper(inputs["inputs"], inputs["sequence_length"])
    projection = tf.compat.v1.layers.Dense(5, use_bias=False, name="words")
    decoder = seq2seq.BasicDecoder(cell, helper, cell.zero_state(2, tf.float32), projection)
    outputs, state, lengths = seq2seq.dynamic_decode(decoder, impute_finished=True)
    history = state.alignment_history.stack()
    fetched = [outputs.rnn_output, outputs.sample_id, lengths, state.attention, history]
    return unpacked(trained(fetched, outputs.rnn_output))


def record_beam(inputs: Any, options: dict[str, Any]) -> dict[str, Any]:
    seq2seq = tf.contrib.seq2seq
    # The history of alignments is sorted only where their shape is not known.
    inputs["memory"] = tf.compat.v1.placeholder_with_default(inputs["memory"], [None, None, 3])
    memory, lengths = (seq2seq.tile_batch(inputs[key], 3) for key in ("memory", "memory_length"))
    found = mechanism(inputs, "luong", memory, lengths)
    cell = seq2seq.AttentionWrapper(
        cell_of(("gru", {"units": 4})), found, attention_layer_size=4, alignment_history=True
    )
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
        coverage_penalty_weight=options["coverage"],
    )
    outputs, state, lengths = seq2seq.dynamic_decode(decoder, maximum_iterations=7)
    steps = outputs.beam_search_decoder_output
    history = state.cell_state.alignment_history
    history = history if isinstance(history, tf.Tensor) else history.stack()
    return unpacked(run_once([outputs.predicted_ids, steps.scores, state.log_probs, lengths, history]))


def record_greedy(inputs: Any, options: dict[str, Any]) -> dict[str, Any]:
    seq2seq = tf.contrib.seq2seq
    if options["kind"] == "sample":
        helper = seq2seq.SampleEmbeddingHelper(inputs["table"], tf.constant([1, 3]), 2, 0.7, seed=5)
    else:
        helper = seq2seq.GreedyEmbeddingHelper(inputs["table"], tf.constant([1, 3]), 2)
    cell = cell_of(("lstm", {"units": 4}))
    projection = tf.compat.v1.layers.Dense(6, name="words")
    decoder = seq2seq.BasicDecoder(cell, helper, cell.zero_state(2, tf.float32), projection)
    outputs, _, lengths = seq2seq.dynamic_decode(decoder, maximum_iterations=6)
    return unpacked(run_once([outputs.rnn_output, outputs.sample_id, lengths]))


def record_raw(inputs: Any, options: dict[str, Any]) -> dict[str, Any]:
    """A loop that is told each step by a function: the inputs one after the other."""
    cell = cell_of(("gru", {"units": 4}))
    steps = tf.transpose(inputs["inputs"], [1, 0, 2])

    def step(time: Any, output: Any, state: Any, count: Any) -> Any:
        state = cell.zero_state(2, tf.float32) if state is None else state
        count = tf.constant(0) if count is None else count + 1
        fed = tf.gather(steps, tf.minimum(time, 3))
        return time >= inputs["sequence_length"], fed, state, output, count

    emitted, state, count = tf.compat.v1.nn.raw_rnn(cell, step)
    outputs = tf.transpose(emitted.stack(), [1, 0, 2])
    return unpacked(trained([outputs, state, count], outputs))


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


def record_samplers(case: dict[str, Any]) -> dict[str, Any]:
    """(drawn, expected counts of the true ones, of the drawn ones) of each step."""
    tf.compat.v1.reset_default_graph()
    drawn = function(case["tf"])(tf.constant(case["inputs"]["true_classes"]), **case["options"])
    with tf.compat.v1.Session() as session:
        found = [session.run(drawn) for _ in range(3)]
    return {f"value {number}": np.array([each[number] for each in found]) for number in range(3)}


def record_confusion(case: dict[str, Any]) -> dict[str, Any]:
    tf.compat.v1.reset_default_graph()
    inputs = {key: tf.constant(value) for key, value in case["inputs"].items()}
    value = function(case["tf"])(**dict(inputs, **case["options"]))
    with tf.compat.v1.Session() as session:
        return {"value": session.run(value)}


def record_regularizers(case: dict[str, Any]) -> dict[str, Any]:
    tf.compat.v1.reset_default_graph()
    x = tf.constant(case["inputs"]["tensor"])
    value = getattr(tf.contrib.layers, case["tf"])(**case["options"])(x)
    with tf.compat.v1.Session() as session:
        got: dict[str, Any] = session.run({"value": value, "d_tensor": tf.gradients(value, x)[0]})
    return got


RECORDERS = {
    "losses": record_losses,
    "metrics": record_metrics,
    "embedding": record_embedding,
    "sampled": record_sampled,
    "layers": record_layers,
    "rnn": record_rnn,
    "samplers": record_samplers,
    "regularizers": record_regularizers,
    "confusion": record_confusion,
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
