"""Functions without signatures: python words.py FOLDER, with TensorFlow 2.

`docs/examples/words` is what it has written with TensorFlow 2.21.
"""

from __future__ import annotations

import sys

import tensorflow as tf


def count(text: tf.Tensor) -> tf.Tensor:
    """Count the words of each text."""
    return tf.strings.split(text).row_lengths()


def shout(text: tf.Tensor) -> tf.Tensor:
    """Write each text in capitals, with an exclamation mark."""
    return tf.strings.join([tf.strings.upper(text), "!"])


def main(folder: str) -> None:
    module = tf.Module()
    for each in (count, shout):
        texts = tf.TensorSpec([None], tf.string, name="text")
        setattr(module, each.__name__, tf.function(each, input_signature=[texts]))
    tf.saved_model.save(module, folder)


if __name__ == "__main__":
    main(sys.argv[1])
