"""An Estimator that tells trees apart: python estimator_trees.py FOLDER, with TensorFlow 1.

`docs/examples/estimator_trees` is what it has written with TensorFlow 1.15. The trees are made up.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile

import numpy as np
import tensorflow as tf

KINDS = np.array([b"oak", b"birch", b"pine"])
BARKS = np.array([b"furrowed", b"white", b"scaly"])
HEIGHTS = np.array([18, 14, 25])
GIRTHS = np.array([2.2, 1.1, 1.6])
TREES = 1200


def main(folder: str) -> None:
    random = np.random.RandomState(1)
    kind = random.randint(0, len(KINDS), TREES)
    trees = {
        "height": random.normal(HEIGHTS[kind], 2.5).astype(np.float32),
        "girth": random.normal(GIRTHS[kind], 0.25).astype(np.float32),
        "bark": np.where(random.rand(TREES) < 0.85, BARKS[kind], b"smooth"),
    }
    columns = tf.feature_column
    bark = columns.categorical_column_with_vocabulary_list("bark", ["furrowed", "white", "scaly", "smooth"])
    features = [
        columns.numeric_column("height", normalizer_fn=lambda x: (x - 19) / 5),
        columns.numeric_column("girth", normalizer_fn=lambda x: (x - 1.6) / 0.5),
        columns.indicator_column(bark),
    ]
    run = tempfile.mkdtemp()
    estimator = tf.estimator.DNNClassifier(
        [8],
        features,
        run,
        n_classes=len(KINDS),
        label_vocabulary=[each.decode() for each in KINDS],
        optimizer=lambda: tf.train.AdamOptimizer(0.02),
        config=tf.estimator.RunConfig(tf_random_seed=1),
    )
    batches = tf.estimator.inputs.numpy_input_fn(
        trees, KINDS[kind], batch_size=64, num_epochs=None, shuffle=True
    )
    estimator.train(batches, steps=400)
    parsing = tf.estimator.export.build_parsing_serving_input_receiver_fn(
        columns.make_parse_example_spec(features)
    )
    written = estimator.export_saved_model(os.path.join(run, "export"), parsing)
    shutil.move(written.decode(), folder)


if __name__ == "__main__":
    main(sys.argv[1])
