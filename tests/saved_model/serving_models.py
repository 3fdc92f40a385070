"""Models with functions of their own to be called: texts and ragged rows, loops, pictures, training.

Beside those of `keras_models.py`; `MODELS` has both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.saved_model.keras_models import MODELS, ids, model, numbers

__all__ = ["MODELS"]


@model
def sparse_features(tf: Any, keras: Any) -> Any:
    L = keras.layers
    given = keras.Input((6,), sparse=True, name="x")
    made = keras.Model(given, L.Dense(3, activation="relu")(given))

    @tf.function(  # type: ignore[untyped-decorator]
        input_signature=[
            tf.TensorSpec([None, 2], tf.int64, "places"),
            tf.TensorSpec([None], tf.float32, "values"),
            tf.TensorSpec([2], tf.int64, "shape"),
        ]
    )
    def serve(places: Any, values: Any, shape: Any) -> Any:
        x = tf.SparseTensor(places, values, shape)
        return {"y": made(x), "sums": tf.sparse.reduce_sum(x, 1), "dense": tf.sparse.to_dense(x)}

    made.serve = serve
    call = {
        "places": np.array([[0, 1], [0, 4], [2, 0]], "int64"),
        "values": numbers(3),
        "shape": np.array([3, 6], "int64"),
    }
    return made, {"serving_default": serve}, [call]


@model
def ragged_texts(tf: Any, keras: Any) -> Any:
    L = keras.layers
    look, table = L.StringLookup(vocabulary=["a", "b", "c"]), L.Embedding(4, 3)
    recurrent, scores = L.GRU(4), L.Dense(2)

    class Texts(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.parts = [look, table, recurrent, scores]

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "lines")])  # type: ignore[untyped-decorator]
        def serve(self, lines: Any) -> Any:
            ragged = look(tf.strings.split(lines))
            vectors = tf.ragged.map_flat_values(table, ragged)
            dense = vectors.to_tensor()
            mask = tf.sequence_mask(ragged.row_lengths(), tf.shape(dense)[1])
            return {
                "scores": scores(recurrent(dense, mask=mask)),
                "means": tf.reduce_mean(vectors, axis=1),
                "ids": ragged.to_tensor(-1),
            }

    made = Texts()
    return made, {"serving_default": made.serve}, [{"lines": np.array(["a b x", "c", "b b a c"], object)}]


@model
def ragged_signature(tf: Any, keras: Any) -> Any:
    class Bags(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.table = tf.Variable(numbers(6, 3))

        @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int64)])  # type: ignore[untyped-decorator]
        def serve(self, bags: Any) -> Any:
            return {
                "sums": tf.nn.embedding_lookup_sparse(self.table, bags.to_sparse(), None, combiner="sum"),
                "doubled": tf.concat([bags, bags * 2], axis=1).to_tensor(),
            }

    made = Bags()
    call = {"bags": np.array([1, 2, 5, 0], "int64"), "bags_1": np.array([0, 2, 3, 4], "int64")}
    return made, {"serving_default": made.serve}, [call]


@model
def greedy_writer(tf: Any, keras: Any) -> Any:
    L = keras.layers

    class Writer(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.table, self.cell, self.out = L.Embedding(12, 6), L.LSTMCell(8), L.Dense(12)

        @tf.function(  # type: ignore[untyped-decorator]
            input_signature=[tf.TensorSpec([None], tf.int32, "first"), tf.TensorSpec([], tf.int32, "length")]
        )
        def serve(self, first: Any, length: Any) -> Any:
            rows = tf.shape(first)[0]
            state = [tf.zeros([rows, 8]), tf.zeros([rows, 8])]
            said = tf.TensorArray(tf.int32, 0, dynamic_size=True, element_shape=[None])
            token = first
            for step in tf.range(length):
                given, state = self.cell(self.table(token), state)
                token = tf.argmax(self.out(given), -1, output_type=tf.int32)
                if tf.reduce_all(tf.equal(token, 0)):
                    break
                said = said.write(step, token)
            return {"said": tf.transpose(said.stack())}

    made = Writer()
    calls = [{"first": ids(3, below=12), "length": np.int32(n)} for n in (5, 2)]
    return made, {"serving_default": made.serve}, calls


@model
def photographs(tf: Any, keras: Any) -> Any:
    L = keras.layers
    layers = [L.Rescaling(1 / 127.5, -1), L.Conv2D(4, 3), L.GlobalAveragePooling2D()]
    made = keras.Sequential([keras.Input((12, 12, 3)), *layers, L.Dense(5, activation="softmax")])

    def opened(data: Any) -> Any:
        image = tf.io.decode_png(data, channels=3)
        return tf.image.resize(image, [12, 12])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "bytes")])  # type: ignore[untyped-decorator]
    def serve(data: Any) -> Any:
        scores = made(tf.map_fn(opened, data, fn_output_signature=tf.float32))
        best, which = tf.math.top_k(scores, 2)
        return {"best": best, "which": tf.gather(tf.constant(["a", "b", "c", "d", "e"]), which)}

    made.serve = serve
    pictures = [
        tf.io.encode_png(np.random.default_rng(n).integers(0, 256, (9 + n, 14, 3)).astype("uint8")).numpy()
        for n in range(2)
    ]
    return made, {"serving_default": serve}, [{"bytes": np.array(pictures, object)}]


@model
def detector(tf: Any, keras: Any) -> Any:
    L = keras.layers
    image = keras.Input((16, 16, 3), name="image")
    x = L.Conv2D(8, 3, strides=4, padding="same", activation="relu")(image)
    corners = L.Reshape((16, 2, 2))(L.Conv2D(4, 1, activation="sigmoid")(x))
    scores = L.Reshape((16, 3))(L.Conv2D(3, 1, activation="sigmoid")(x))
    made = keras.Model(image, [corners, scores])

    @tf.function(input_signature=[tf.TensorSpec([None, 16, 16, 3], tf.float32, "image")])  # type: ignore[untyped-decorator]
    def serve(image: Any) -> Any:
        corners, scores = made(image)
        boxes = tf.concat([tf.reduce_min(corners, 2), tf.reduce_max(corners, 2)], -1)
        found = tf.image.combined_non_max_suppression(boxes[:, :, None], scores, 4, 6, 0.5, 0.3)
        return dict(zip(("boxes", "scores", "classes", "count"), found, strict=True))

    made.serve = serve
    return made, {"serving_default": serve}, [{"image": numbers(2, 16, 16, 3)}]


@model
def experts(tf: Any, keras: Any) -> Any:
    L, ops = keras.layers, keras.ops
    x = keras.Input((6,), name="x")
    gates = L.Dense(4, activation="softmax")(x)
    answers = ops.stack([L.Dense(3, activation="tanh")(x) for _ in range(4)], axis=1)
    best, which = ops.top_k(gates, 2)
    chosen = ops.take_along_axis(answers, which[:, :, None], axis=1)
    return keras.Model(x, ops.sum(chosen * best[:, :, None], axis=1)), None, [{"x": numbers(5, 6)}]


@model
def trains_itself(tf: Any, keras: Any) -> Any:
    """Signatures that train, predict and tell the state, of one set of variables."""
    L = keras.layers
    made = keras.Sequential([keras.Input((3,)), L.Dense(4, activation="relu"), L.Dense(1)])
    optimizer = keras.optimizers.Adam(0.05)
    optimizer.build(made.trainable_variables)
    x, y = tf.TensorSpec([None, 3], tf.float32, "x"), tf.TensorSpec([None, 1], tf.float32, "y")

    @tf.function(input_signature=[x, y])  # type: ignore[untyped-decorator]
    def train(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((made(x) - y) ** 2)
        optimizer.apply_gradients(
            zip(tape.gradient(loss, made.trainable_variables), made.trainable_variables, strict=True)
        )
        return {"loss": loss, "steps": optimizer.iterations.value}

    @tf.function(input_signature=[x])  # type: ignore[untyped-decorator]
    def predict(x: Any) -> Any:
        return {"y": made(x)}

    made.kept, made.train_it, made.predict_it = optimizer, train, predict
    fed = {"x": numbers(4, 3), "y": numbers(4, 1, seed=1)}
    calls = [{"signature": "train", **fed}, {"signature": "train", **fed}, {"x": fed["x"]}]
    return made, {"serving_default": predict, "train": train}, calls
