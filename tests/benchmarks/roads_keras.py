"""The digits of `roads_fit.py` in Keras: microseconds a step of `fit` without a progress bar.

    PYTHON tests/benchmarks/roads_keras.py DIGITS_NPZ

Uses nothing of this project.
"""

from __future__ import annotations

import os
import sys
from time import perf_counter

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf


def main(path: str) -> None:
    with np.load(path) as data:
        images, labels = data["train_images"], data["train_labels"]
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Rescaling(1 / 16),
            layers.Conv2D(16, 3, padding="same", use_bias=False),
            layers.BatchNormalization(momentum=0.9),
            layers.ReLU(),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.3),
            layers.Dense(10),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.01), loss)
    model.fit(images, labels, batch_size=32, epochs=2, verbose=0)
    least = float("inf")
    for _ in range(4):
        begun = perf_counter()
        model.fit(images, labels, batch_size=32, epochs=1, verbose=0)
        least = min(least, perf_counter() - begun)
    print(least / -(-len(images) // 32) * 1e6)


if __name__ == "__main__":
    main(sys.argv[1])
