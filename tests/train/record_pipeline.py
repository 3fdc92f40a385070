"""Writes `pipeline_of_tensorflow.meta`, with TensorFlow 1.15: python record_pipeline.py

Lines of the files that are fed to `names:0`, two epochs, are numbers; they are batched in pairs, squared by
the step `squares`, and bucketed by parity.
"""

import os

import tensorflow.compat.v1 as tf

HERE = os.path.dirname(os.path.abspath(__file__))


def main() -> None:
    names = tf.placeholder_with_default(tf.constant(["numbers.txt"]), [None], name="names")
    queue = tf.train.string_input_producer(names, num_epochs=2, shuffle=False)
    _, line = tf.TextLineReader().read(queue)
    number = tf.string_to_number(line, tf.int32)
    (pair,) = [tf.train.batch([number], 2, num_threads=2, allow_smaller_final_batch=True)]
    tf.square(pair, name="squares")
    tf.train.export_meta_graph(os.path.join(HERE, "pipeline_of_tensorflow.meta"), clear_devices=True)


if __name__ == "__main__":
    main()
