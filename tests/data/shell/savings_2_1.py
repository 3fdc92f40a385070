"""A module with a loop: python savings_2_1.py FOLDER, with TensorFlow 2.1 on Python 3.7.

`docs/examples/savings_2_1` is what it has written with TensorFlow 2.1.0. Its calls name the functions of
their gradients, as all calls did that were saved by TensorFlow 2.0 to 2.3.
"""

import sys

import tensorflow as tf


class Savings(tf.Module):
    """What is left of savings after some months of rent, with interest."""

    def __init__(self):
        super().__init__()
        self.interest = tf.Variable(0.01, name="interest")

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32), tf.TensorSpec([], tf.int32)])
    def left(self, savings, months):
        rent = tf.constant(900.0)
        for _ in tf.range(months):
            savings = tf.maximum(savings - rent, 0.0) * (1.0 + self.interest)
        return {"left": savings}


def main(folder):
    module = Savings()
    tf.saved_model.save(module, folder, signatures=module.left)


if __name__ == "__main__":
    main(sys.argv[1])
