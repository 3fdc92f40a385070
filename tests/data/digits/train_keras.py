"""A small classifier of digits as Keras users write one: python train_keras.py FOLDER, with TensorFlow 2.

`docs/examples/keras_digits` is what it has written with TensorFlow 2.21.
"""

from __future__ import annotations

import os
import sys

import numpy as np
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))


def main(folder: str) -> None:
    keras = tf.keras
    keras.utils.set_random_seed(1)
    with np.load(os.path.join(HERE, "digits.npz")) as held:
        images = {
            part: held[f"{part}_images"].reshape(-1, 8, 8, 1) * (255 / 16) for part in ("train", "test")
        }
        labels = {part: held[f"{part}_labels"] for part in ("train", "test")}
    layers = keras.layers
    image = keras.Input((8, 8, 1), name="image")
    x = layers.Rescaling(1 / 255)(image)
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D()(x)
    x = layers.Dropout(0.2)(layers.Flatten()(x))
    x = layers.Dense(32, activation="relu")(x)
    model = keras.Model(image, {"scores": layers.Dense(10, activation="softmax", name="scores")(x)})
    model.compile("adam", {"scores": "sparse_categorical_crossentropy"}, metrics={"scores": "accuracy"})
    model.fit(images["train"], {"scores": labels["train"]}, epochs=25, batch_size=32, verbose=0)
    print(model.evaluate(images["test"], {"scores": labels["test"]}, verbose=0))
    model.export(folder, verbose=False)


if __name__ == "__main__":
    main(sys.argv[1])
