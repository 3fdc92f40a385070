"""Small SavedModels that TensorFlow made, with values: what `test_loading.py` loads.

    python record_models.py [FOLDER [NAME ...]]

Run by TensorFlow 1.15 it records models of that, by TensorFlow 2 those of this one: each a zip of the
directory with `values.json`, a list of calls [{"signature", "inputs", "outputs"}], run in this order; bytes
of strings are letters there (Latin-1).
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
import zipfile
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded")


def plain(value: Any) -> Any:
    array = np.asarray(value)
    if array.dtype.kind in "SO":
        texts = [each.decode("latin-1") if isinstance(each, bytes) else str(each) for each in array.ravel()]
        return np.array(texts, dtype=object).reshape(array.shape).tolist()
    return array.tolist()


def pack(folder: str, name: str, calls: list[Any], target: str) -> None:
    """Write the directory and its values as one file, with times of no meaning."""
    with zipfile.ZipFile(os.path.join(target, name + ".zip"), "w", zipfile.ZIP_DEFLATED) as packed:
        for parent, _, files in sorted(os.walk(folder)):
            for file in sorted(files):
                path = os.path.join(parent, file)
                info = zipfile.ZipInfo(os.path.relpath(path, folder))
                info.compress_type = zipfile.ZIP_DEFLATED
                with open(path, "rb") as content:
                    packed.writestr(info, content.read())
        info = zipfile.ZipInfo("values.json")
        info.compress_type = zipfile.ZIP_DEFLATED
        packed.writestr(info, json.dumps(calls))


def called(session: Any, signature: str, definition: Any, feeds: dict[str, Any]) -> Any:
    names = {key: each.name for key, each in definition.outputs.items()}
    values = session.run(names, {definition.inputs[key].name: value for key, value in feeds.items()})
    return {
        "signature": signature,
        "inputs": {key: plain(value) for key, value in feeds.items()},
        "outputs": {key: plain(value) for key, value in values.items()},
    }


def run_again(folder: str, tags: list[str], calls: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    """The values of a fresh session that TensorFlow restores the directory into."""
    with tf.Graph().as_default(), tf1.Session() as session:
        meta = tf1.saved_model.load(session, tags, folder)
        return [called(session, name, meta.signature_def[name], feeds) for name, feeds in calls]


def simple(folder: str) -> list[Any]:
    """`simple_save`: a variable in two parts, and one behind a handle."""
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.set_random_seed(3)
        x = tf1.placeholder(tf.float32, [None, 4], name="x")
        parts = tf1.fixed_size_partitioner(2)
        w = tf1.get_variable("w", [4, 3], partitioner=parts, use_resource=False)
        b = tf1.get_variable("b", [3], use_resource=True, initializer=tf1.ones_initializer())
        y = tf.matmul(x, tf1.convert_to_tensor(w)) + b
        session.run(tf1.global_variables_initializer())
        tf1.saved_model.simple_save(session, folder, {"x": x}, {"y": y})
    return run_again(folder, ["serve"], [("serving_default", {"x": [[1.0, 2, 3, 4], [0, -1, 0, 1]]})])


def estimator(folder: str) -> list[Any]:
    """An Estimator's export: it parses Examples, and looks words up in a table of its own."""
    column = tf.feature_column
    words = column.categorical_column_with_vocabulary_list("word", ["u", "v"])
    features = [column.numeric_column("a"), column.indicator_column(words)]
    with tempfile.TemporaryDirectory() as place:
        made = tf.estimator.DNNClassifier(
            [4], features, n_classes=3, label_vocabulary=["p", "q", "r"], model_dir=place
        )

        def data() -> Any:
            row = {"a": [[1.0], [2.0]], "word": [["u"], ["v"]]}
            return tf.data.Dataset.from_tensors((row, [["p"], ["r"]])).repeat(4)

        made.train(data, steps=2)
        parse = tf.estimator.export.build_parsing_serving_input_receiver_fn(
            column.make_parse_example_spec(features)
        )
        exported = made.export_saved_model(os.path.join(place, "export"), parse)
        os.rename(exported, folder)
    example = tf.train.Example()
    example.features.feature["a"].float_list.value.append(1.5)
    example.features.feature["word"].bytes_list.value.append(b"v")
    fed = [example.SerializeToString()]
    return run_again(
        folder, ["serve"], [("serving_default", {"inputs": fed}), ("predict", {"examples": fed})]
    )


def hub(folder: str) -> list[Any]:
    """As TF-Hub's modules are: a graph without tags and one for training, a table read from an asset."""
    builder = tf1.saved_model.Builder(folder)
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "words.txt")
        with open(path, "w") as file:
            file.write("one\ntwo\nthree\n")
        for tags in (["train"], []):
            with tf.Graph().as_default(), tf1.Session() as session:
                scale = 2.0 if tags else 1.0
                words = tf1.placeholder(tf.string, [None], name="words")
                asset = tf.constant(path)
                tf1.add_to_collection(tf1.GraphKeys.ASSET_FILEPATHS, asset)
                table = tf1.lookup.StaticVocabularyTable(
                    tf1.lookup.TextFileInitializer(
                        asset,
                        tf.string,
                        tf1.lookup.TextFileIndex.WHOLE_LINE,
                        tf.int64,
                        tf1.lookup.TextFileIndex.LINE_NUMBER,
                    ),
                    1,
                )
                start = np.arange(8, dtype=np.float32).reshape(4, 2)
                vectors = tf1.get_variable("vectors", initializer=start, use_resource=False)
                found = tf.gather(tf1.convert_to_tensor(vectors), table.lookup(words)) * scale
                signature = tf1.saved_model.predict_signature_def({"text": words}, {"default": found})
                session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
                options = {
                    "signature_def_map": {"default": signature},
                    "assets_collection": tf1.get_collection(tf1.GraphKeys.ASSET_FILEPATHS),
                    "main_op": tf1.tables_initializer(),
                }
                if tags:
                    builder.add_meta_graph_and_variables(session, tags, **options)
                else:
                    builder.add_meta_graph(tags, **options)
        builder.save()
    with open(os.path.join(folder, "tfhub_module.pb"), "wb") as file:
        file.write(b"\x08\x03")  # the format: a SavedModel
    return run_again(folder, [], [("default", {"text": ["two", "nine", "three"]})])


def keras_dense(folder: str) -> list[Any]:
    """A Keras model as `Model.export` writes it."""
    keras = tf.keras
    keras.utils.set_random_seed(1)
    given = keras.Input((4,), name="x")
    hidden = keras.layers.Dense(3, activation="relu")(given)
    keras.Model(given, keras.layers.Dense(2, activation="softmax")(hidden)).export(folder, verbose=False)
    return run_again(folder, ["serve"], [("serving_default", {"x": [[1.0, 2, 3, 4], [0, -1, 0, 1]]})])


def keras_words(folder: str) -> list[Any]:
    """A preprocessing layer with a table, and an embedding."""
    keras = tf.keras
    keras.utils.set_random_seed(1)
    given = keras.Input((None,), dtype="string", name="words")
    places = keras.layers.StringLookup(vocabulary=["a", "b", "c"])(given)
    keras.Model(given, keras.layers.Embedding(5, 3)(places)).export(folder, verbose=False)
    return run_again(folder, ["serve"], [("serving_default", {"words": [["a", "z"], ["c", "b"]]})])


def module(folder: str) -> list[Any]:
    """A tf.Module: functions, a table from an asset, a count that a signature raises, shared variables."""
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "words.txt")
        with open(path, "w") as file:
            file.write("x\ny\nz\n")

        class Words(tf.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.scale = tf.Variable([1.0, 2.0], name="scale")
                self.count = tf.Variable(0, dtype=tf.int64, name="count", trainable=False)
                self.again = self.scale
                lines = tf.lookup.TextFileInitializer(
                    path,
                    tf.string,
                    tf.lookup.TextFileIndex.WHOLE_LINE,
                    tf.int64,
                    tf.lookup.TextFileIndex.LINE_NUMBER,
                )
                self.table = tf.lookup.StaticHashTable(lines, -1)

                signature = [tf.TensorSpec([None], tf.string, name="words")]
                self.look = tf.function(self._look, input_signature=signature)
                self.add = tf.function(self._add)

            def _look(self, words: Any) -> Any:
                self.count.assign_add(1)
                return {"ids": self.table.lookup(words), "count": self.count.read_value()}

            def _add(self, x: Any, twice: bool = False) -> Any:
                y = x + self.again
                return y * 2.0 if twice else y

        made = Words()
        made.add(tf.constant([1.0, 1.0]))
        made.add(tf.constant([1.0, 1.0]), twice=True)
        tf.saved_model.save(made, folder, signatures={"look": made.look})
    return run_again(folder, ["serve"], [("look", {"words": ["x", "q"]}), ("look", {"words": ["z"]})])


def whole(name: str) -> Any:
    """One of the models of `serving_models.py`, called as the object that TensorFlow 2 loads."""

    def make(folder: str) -> list[Any]:
        sys.path.insert(0, os.path.join(HERE, "..", "..", ".."))
        from tests.saved_model.serving_models import MODELS

        tf.keras.utils.set_random_seed(7)
        made, signatures, calls = MODELS[name](tf, tf.keras)
        tf.saved_model.save(made, folder, signatures=signatures)
        loaded = tf.saved_model.load(folder)
        return [recorded(loaded, **{"signature": "serving_default", **call}) for call in calls]

    return make


def recorded(loaded: Any, signature: str, **feeds: Any) -> Any:
    values = loaded.signatures[signature](**{key: tf.constant(value) for key, value in feeds.items()})
    return {
        "signature": signature,
        "inputs": {key: plain(value) for key, value in feeds.items()},
        "outputs": {key: plain(value.numpy()) for key, value in values.items()},
    }


def checkpoint(folder: str) -> list[Any]:
    """A checkpoint's tree of objects that was saved before: one variable under two names, and how often."""

    model = tf.Module()
    model.first = model.second = tf.Variable([1.0, 2.0], name="scale")

    def scaled(x: Any) -> Any:
        model.first.assign_add([1.0, 1.0])
        return {"y": x * model.second}

    model.scaled = tf.function(scaled, input_signature=[tf.TensorSpec([2], tf.float32, name="x")])
    made = tf.train.Checkpoint(model=model, step=tf.Variable(7, dtype=tf.int64, name="step"))
    with tempfile.TemporaryDirectory() as place:
        made.save(os.path.join(place, "model"))
    tf.saved_model.save(made, folder, signatures=model.scaled)
    loaded = tf.saved_model.load(folder)
    return [recorded(loaded, "serving_default", x=value) for value in ([1.0, 1.0], [2.0, -1.0])]


MAKERS = (
    {"simple": simple, "estimator": estimator, "hub": hub}
    if tf.__version__.startswith("1.")
    else {
        "keras_dense": keras_dense,
        "keras_words": keras_words,
        "keras_trains": whole("trains_itself"),
        "keras_ragged": whole("ragged_texts"),
        "ragged": whole("ragged_signature"),
        "module": module,
        "checkpoint": checkpoint,
    }
)


def main(target: str, *only: str) -> None:
    warnings.simplefilter("ignore")
    tf1.logging.set_verbosity(tf1.logging.ERROR)
    for name, make in MAKERS.items():
        if only and name not in only:
            continue
        with tempfile.TemporaryDirectory() as place:
            folder = os.path.join(place, name)
            pack(folder, name, make(folder), target)


if __name__ == "__main__":
    main(*(sys.argv[1:] or [HERE]))
