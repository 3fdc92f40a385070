"""TensorFlow's side of `test_writing.py`: loads a SavedModel and calls its signature.

    python call_in_tensorflow.py FOLDER INPUT

Prints {way of loading: value of the one output} as JSON; INPUT is JSON, for the one input.
"""

from __future__ import annotations

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

tf1 = tf.compat.v1


def main(folder: str, given: str) -> None:
    tf1.logging.set_verbosity(tf1.logging.ERROR)
    found = {}
    with tf.Graph().as_default(), tf1.Session() as session:
        meta = tf1.saved_model.load(session, ["serve"], folder)
        signature = meta.signature_def["serving_default"]
        (fed,) = signature.inputs.values()
        (fetched,) = signature.outputs.values()
        found["session"] = session.run(fetched.name, {fed.name: json.loads(given)}).tolist()
    if not tf.__version__.startswith("1."):
        call = tf.saved_model.load(folder).signatures["serving_default"]
        (name,) = call.structured_input_signature[1]
        (value,) = call(**{name: tf.constant(json.loads(given))}).values()
        found["function"] = value.numpy().tolist()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
