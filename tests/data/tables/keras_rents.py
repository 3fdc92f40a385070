"""A model of rents, of numbers and a text: python keras_rents.py FOLDER, with TensorFlow 2.

`docs/examples/keras_rents` is what it has written with TensorFlow 2.21 and Keras 3. The rents are made up.
"""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

DISTRICTS = ("harbour", "hill", "centre")
EXTRA = np.array([0, 150, 400])
FLATS = 2000


def main(folder: str) -> None:
    keras = tf.keras
    keras.utils.set_random_seed(1)
    random = np.random.default_rng(1)
    size = random.uniform(20, 140, FLATS).round(1)
    rooms = np.clip((size / 25).round() + random.integers(-1, 2, FLATS), 1, 6)
    district = random.integers(0, len(DISTRICTS), FLATS)
    rent = 200 + 9 * size + 40 * rooms + EXTRA[district] + random.normal(0, 20, FLATS)
    inputs = {
        "size": keras.Input((1,), name="size", dtype="float32"),
        "rooms": keras.Input((1,), name="rooms", dtype="float32"),
        "district": keras.Input((1,), name="district", dtype="string"),
    }
    one_hot = keras.layers.StringLookup(vocabulary=list(DISTRICTS), output_mode="one_hot")
    scaled = [keras.layers.Rescaling(1 / 100)(inputs["size"]), keras.layers.Rescaling(1 / 5)(inputs["rooms"])]
    features = keras.layers.Concatenate()([*scaled, one_hot(inputs["district"])])
    hidden = keras.layers.Dense(8, activation="relu")(features)
    model = keras.Model(inputs, {"rent": keras.layers.Rescaling(1000.0)(keras.layers.Dense(1)(hidden))})
    model.compile(keras.optimizers.Adam(0.02), loss="mae")
    columns = {
        "size": size[:, None].astype("float32"),
        "rooms": rooms[:, None].astype("float32"),
        "district": tf.constant(np.array(DISTRICTS)[district][:, None]),
    }
    model.fit(columns, {"rent": rent[:, None].astype("float32")}, epochs=30, verbose=0)
    model.export(folder, verbose=False)


if __name__ == "__main__":
    main(sys.argv[1])
