"""Writes the expected values in `array_records.jsonl`: run it with a Python that has TensorFlow 1.15.

    python record_arrays.py [FILE]

Each line of the file is one call of one op: attributes, inputs, and then either `outputs` or the class of
the `error`. The inputs stay as they are; what TensorFlow says to them replaces what stood there. A call
that TensorFlow refuses while the graph is built is dropped, as is one that it has no kernel for.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

import numpy as np

#: Integer types that TensorFlow's NumPy dtypes name as structures.
_PLAIN = {"qint8": np.int8, "quint8": np.uint8, "qint32": np.int32}


def decode(tf: Any, record: dict[str, Any]) -> Any:
    """An array from its JSON form."""
    if record["dtype"] == "string":
        strings = np.empty(len(record["values"]), object)
        strings[:] = [text.encode("latin-1") for text in record["values"]]
        return strings.reshape(record["shape"])
    dtype = tf.as_dtype(record["dtype"])
    values = record["values"]
    if dtype.is_complex:
        values = [complex(real, imag) for real, imag in values]
    return np.array(values, _PLAIN.get(record["dtype"], dtype.as_numpy_dtype)).reshape(record["shape"])


def encode(array: Any, dtype: Any) -> dict[str, Any]:
    """The JSON form of an array."""
    # NumPy would drop the zero bytes at the end of a lone string.
    array = np.array(array, dtype=object) if isinstance(array, bytes) else np.asarray(array)
    if array.dtype.names:
        array = array[array.dtype.names[0]]
    flat = array.ravel()
    if dtype.name == "string":
        values: list[Any] = [bytes(v).decode("latin-1") for v in flat]
    elif dtype.is_complex:
        values = [[float(v.real), float(v.imag)] for v in flat]
    else:
        values = [float(v) if dtype.is_floating else int(v) for v in flat]
    return {"dtype": dtype.name, "shape": list(array.shape), "values": values}


def record(tf: Any, ops: Any, library: Any, case: dict[str, Any]) -> dict[str, Any] | None:
    """The case with TensorFlow's answer, or None where it has none."""
    with tf.Graph().as_default():
        feeds = {}

        def feed(value: Any) -> Any:
            if isinstance(value, list):
                return [feed(each) for each in value]
            array = decode(tf, value)
            # Only an op that moves blocks must know a shape while the graph is built.
            shape = array.shape if case["op"].endswith("ND") and array.ndim == 1 else None
            placeholder = tf.compat.v1.placeholder(tf.as_dtype(value["dtype"]), shape)
            feeds[placeholder] = array
            return placeholder

        definition = ops[case["op"]]
        arguments = {a.name: feed(case["inputs"][i]) for i, a in enumerate(definition.input_arg)}
        arguments.update(case["attrs"])
        try:
            result = library.apply_op(case["op"], name="node", **arguments)
        except (TypeError, ValueError):
            return None
        outputs: list[Any] = []
        for each in result if isinstance(result, (list, tuple)) else [result]:
            outputs.extend(each if isinstance(each, (list, tuple)) else [each])
        answer = {key: case[key] for key in ("op", "attrs", "inputs")}
        try:
            with tf.compat.v1.Session() as session:
                values = session.run(outputs, feeds)
            answer["outputs"] = [encode(v, outputs[i].dtype) for i, v in enumerate(values)]
        except tf.errors.OpError as error:
            if "No OpKernel" in error.message:
                return None
            answer["error"] = type(error).__name__
        return answer


def main() -> None:
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "array_records.jsonl")
    path = sys.argv[1] if len(sys.argv) > 1 else beside
    tf = importlib.import_module("tensorflow")
    importlib.import_module("tensorflow.contrib.seq2seq.python.ops.beam_search_ops")
    ops = importlib.import_module("tensorflow.python.framework.op_def_registry").get_registered_ops()
    library = importlib.import_module("tensorflow.python.framework.op_def_library").OpDefLibrary()
    for definition in ops.values():
        library.add_op(definition)
    with open(path) as file:
        cases = [json.loads(line) for line in file]
    answers = [answer for answer in (record(tf, ops, library, case) for case in cases) if answer is not None]
    with open(path, "w") as file:
        for answer in answers:
            file.write(json.dumps(answer, separators=(",", ":")) + "\n")
    print(f"{len(answers)} of {len(cases)} cases recorded")


if __name__ == "__main__":
    main()
