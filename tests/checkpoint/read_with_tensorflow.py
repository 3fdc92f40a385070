"""Prints what TensorFlow reads from a checkpoint: {name: [type, shape, elements]} as JSON.

python tests/checkpoint/read_with_tensorflow.py PREFIX
python tests/checkpoint/read_with_tensorflow.py --types     # the numbers of the types that it knows instead
"""

from __future__ import annotations

import json
import sys

import numpy as np
import tensorflow as tf


def main(prefix: str) -> None:
    reader = tf.compat.v1.train.NewCheckpointReader(prefix)
    types = reader.get_variable_to_dtype_map()
    names = sorted(types)
    found = {}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        restored = tf.raw_ops.RestoreV2(
            prefix=prefix,
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            dtypes=[types[name] for name in names],
        )
        values = session.run(restored)
    for position, name in enumerate(names):
        value = np.asarray(values[position])
        kind = value.dtype.kind
        elements = [e.hex() for e in value.reshape(-1)] if kind in "OS" else value.tobytes().hex()
        found[name] = [types[name].name, list(value.shape), elements]
    print(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[1] == "--types":
        from tensorflow.core.framework import types_pb2

        print(json.dumps(sorted(types_pb2.DataType.values())))
    else:
        main(sys.argv[1])
