"""A module with a loop: python savings_2_1.py FOLDER, with TensorFlow 2.1 on Python 3.7.

`docs/examples/savings_2_1` is what it has written with TensorFlow 2.1.0. Its calls name the functions of
their gradients, as all calls did that were saved by TensorFlow 2.0 to 2.3.
"""

from __future__ import annotations

import sys

import tensorflow as tf


def main(folder: str) -> None:
    module = tf.Module()
    module.interest = tf.Variable(0.01, name="interest")

    def left(savings: tf.Tensor, months: tf.Tensor) -> dict[str, tf.Tensor]:
        """Pay the rent from savings for some months, with interest on the rest."""
        rent = tf.constant(900.0)
        for _ in tf.range(months):
            savings = tf.maximum(savings - rent, 0.0) * (1.0 + module.interest)
        return {"left": savings}

    arguments = [tf.TensorSpec([None], tf.float32), tf.TensorSpec([], tf.int32)]
    module.left = tf.function(left, input_signature=arguments)
    tf.saved_model.save(module, folder, signatures=module.left)


if __name__ == "__main__":
    main(sys.argv[1])
