"""Writes the checkpoints in `written_by_tensorflow`; runs on a Python that has TensorFlow 1.15.

python tests/checkpoint/make_fixture.py tests/checkpoint/written_by_tensorflow
"""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


def main(folder: str) -> None:
    """Both formats, each once with whole tensors and once with slices."""
    with tf1.Graph().as_default(), tf1.Session() as session:
        tensors = [
            ("floats", tf1.constant(np.arange(6, dtype=np.float32).reshape(2, 3))),
            ("halves", tf1.constant(np.arange(3, dtype=np.float16))),
            ("strings", tf1.constant([b"ab", b"", b"x" * 300])),
            ("int64", tf1.constant(np.arange(4, dtype=np.int64) - 2)),
            ("int32", tf1.constant(np.array([-1, 2], np.int32))),
            ("flags", tf1.constant([True, False])),
            ("complex", tf1.constant(np.array([1 + 2j], np.complex64))),
            ("empty", tf1.constant(np.zeros((0, 3), np.float32))),
            ("scalar", tf1.constant(b"one")),
            ("uint8", tf1.constant(np.array([7, 200], np.uint8))),
        ]
        names = [name for name, _ in tensors]
        values = [value for _, value in tensors]
        brain = tf1.cast(tf1.constant([1.5, 2.0]), tf1.bfloat16)
        session.run(
            tf.raw_ops.SaveV2(
                prefix=folder + "/whole",
                tensor_names=[*names, "bfloat16"],
                shape_and_slices=[""] * (len(names) + 1),
                tensors=[*values, brain],
            )
        )
        session.run(tf.raw_ops.Save(filename=folder + "/whole.v1", tensor_names=names, data=values))
        parts = [
            tf1.constant(np.arange(8, dtype=np.float32).reshape(2, 4)),
            tf1.constant(np.arange(8, 12, dtype=np.float32).reshape(1, 4)),
            tf1.constant(np.int32(5)),
        ]
        names = ["parts", "parts", "step"]
        specs = ["3 4 0,2:-", "3 4 2,1:0,4", ""]
        session.run(
            tf.raw_ops.SaveV2(
                prefix=folder + "/parts", tensor_names=names, shape_and_slices=specs, tensors=parts
            )
        )
        session.run(
            tf.raw_ops.SaveSlices(
                filename=folder + "/parts.v1", tensor_names=names, shapes_and_slices=specs, data=parts
            )
        )


if __name__ == "__main__":
    main(sys.argv[1])
