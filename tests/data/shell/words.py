"""Functions without signatures: python words.py FOLDER, with TensorFlow 2.

`docs/examples/words` is what it has written with TensorFlow 2.21.
"""

from __future__ import annotations

import sys

import tensorflow as tf


class Words(tf.Module):
    """Two functions of texts."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def count(self, text: tf.Tensor) -> tf.Tensor:
        return tf.strings.split(text).row_lengths()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def shout(self, text: tf.Tensor) -> tf.Tensor:
        return tf.strings.join([tf.strings.upper(text), "!"])


def main(folder: str) -> None:
    tf.saved_model.save(Words(), folder)


if __name__ == "__main__":
    main(sys.argv[1])
