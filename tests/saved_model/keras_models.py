"""Whole Keras models as people build them: what `whole_models.py` has TensorFlow 2 save, and runs here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

#: What is saved, the signatures where they are not the model's own, and the calls: inputs by name.
Built: TypeAlias = tuple[Any, Any, list[dict[str, Any]]]
#: {model: what builds it of TensorFlow and Keras}
MODELS: dict[str, Callable[[Any, Any], Built]] = {}


def model(build: Callable[[Any, Any], Built]) -> Any:
    MODELS[build.__name__] = build
    return build


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype("float32")


def ids(*shape: int, below: int = 20, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, below, shape).astype("int32")


def words(*rows: str) -> Any:
    return np.array([[row] for row in rows], object)


@model
def perceptron(tf: Any, keras: Any) -> Any:
    L = keras.layers
    x = keras.Input((8,), name="x")
    hidden = L.Dropout(0.2)(L.Dense(16, activation="gelu")(x))
    outputs = {
        "mean": L.Dense(2, name="mean")(hidden),
        "scale": L.Dense(2, activation="softplus", name="scale")(hidden),
    }
    return keras.Model(x, outputs), None, [{"x": numbers(3, 8)}, {"x": numbers(1, 8)}]


@model
def convolutional(tf: Any, keras: Any) -> Any:
    L = keras.layers
    layers: list[Any] = [keras.Input((16, 16, 3), name="image"), L.Rescaling(1 / 255)]
    for width in (8, 16):
        layers += [L.Conv2D(width, 3, padding="same", use_bias=False), L.BatchNormalization(), L.ReLU()]
        layers += [L.MaxPooling2D()]
    layers += [L.Flatten(), L.Dropout(0.5), L.Dense(10, activation="softmax")]
    return keras.Sequential(layers), None, [{"image": 255 * numbers(2, 16, 16, 3) ** 2}]


@model
def residual(tf: Any, keras: Any) -> Any:
    L = keras.layers
    image = keras.Input((16, 16, 3), name="image")
    x = L.Conv2D(8, 3, padding="same")(image)
    for stride in (1, 2):
        y = L.SeparableConv2D(8, 3, padding="same", strides=stride)(L.ReLU()(L.BatchNormalization()(x)))
        x = L.Add()([L.Conv2D(8, 1, strides=stride)(x), L.DepthwiseConv2D(3, padding="same")(y)])
    gate = L.Dense(8, activation="sigmoid")(L.GlobalAveragePooling2D(keepdims=True)(x))
    return (
        keras.Model(image, L.Dense(4)(L.GlobalMaxPooling2D()(L.Multiply()([x, gate])))),
        None,
        [{"image": numbers(2, 16, 16, 3)}],
    )


@model
def unet(tf: Any, keras: Any) -> Any:
    L = keras.layers
    image = keras.Input((16, 16, 1), name="image")
    down = L.Conv2D(4, 3, padding="same", activation="relu")(image)
    deep = L.Conv2D(8, 3, padding="same", activation="relu")(L.MaxPooling2D()(down))
    up = L.Conv2DTranspose(4, 2, strides=2)(deep)
    large = L.UpSampling2D(interpolation="bilinear")(deep)
    mask = L.Conv2D(1, 1, activation="sigmoid")(L.Concatenate()([up, down, large]))
    return keras.Model(image, mask), None, [{"image": numbers(2, 16, 16, 1)}]


@model
def bidirectional_lstm(tf: Any, keras: Any) -> Any:
    L = keras.layers
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    x = L.Embedding(20, 8, mask_zero=True)(tokens)
    x = L.Bidirectional(L.LSTM(6, return_sequences=True))(x)
    x = L.Bidirectional(L.GRU(4), merge_mode="sum")(x)
    calls = [{"tokens": np.array([[3, 4, 5, 0, 0], [7, 8, 9, 10, 11]], "int32")}, {"tokens": ids(1, 3) + 1}]
    return keras.Model(tokens, L.Dense(3, activation="softmax")(x)), None, calls


@model
def stateful_recurrent(tf: Any, keras: Any) -> Any:
    L = keras.layers
    x = keras.Input(batch_shape=(2, 3, 4), name="x")
    made = keras.Sequential([x, L.GRU(5, stateful=True, return_sequences=True), L.Dense(1)])
    return made, None, [{"x": numbers(2, 3, 4, seed=n)} for n in range(3)]


@model
def convolutional_lstm(tf: Any, keras: Any) -> Any:
    L = keras.layers
    film = keras.Input((4, 8, 8, 1), name="film")
    x = L.ConvLSTM2D(4, 3, padding="same", return_sequences=True)(film)
    x = L.ConvLSTM2D(3, 3, padding="same")(L.BatchNormalization()(x))
    made = keras.Model(film, L.Conv2D(1, 3, padding="same", activation="sigmoid")(x))
    return made, None, [{"film": numbers(2, 4, 8, 8, 1)}]


@model
def transformer_encoder(tf: Any, keras: Any) -> Any:
    L, ops = keras.layers, keras.ops
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    places = L.Embedding(32, 16)(L.Lambda(lambda t: ops.arange(ops.shape(t)[1])[None])(tokens))
    x = L.Add()([L.Embedding(20, 16)(tokens), places])
    for _ in range(2):
        y = L.MultiHeadAttention(2, 8)(x, x, use_causal_mask=True)
        x = L.LayerNormalization(epsilon=1e-6)(L.Add()([x, y]))
        y = L.Dense(16)(L.Dense(32, activation="gelu")(x))
        x = L.LayerNormalization()(L.Add()([x, y]))
    return keras.Model(tokens, L.Dense(20)(x)), None, [{"tokens": ids(2, 7)}, {"tokens": ids(1, 3, seed=1)}]


@model
def transformer_decoder(tf: Any, keras: Any) -> Any:
    L = keras.layers
    memory = keras.Input((None, 8), name="memory")
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    x = L.Embedding(20, 8, mask_zero=True)(tokens)
    x = L.Add()([x, L.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True)])
    x = L.Add()([x, L.MultiHeadAttention(2, 4)(x, memory)])
    x = L.Add()([x, L.AdditiveAttention()([x, memory])])
    made = keras.Model([memory, tokens], L.RMSNormalization()(L.Dense(20, activation="swish")(x)))
    return made, None, [{"memory": numbers(2, 5, 8), "tokens": ids(2, 4)}]


@model
def sequence_to_sequence(tf: Any, keras: Any) -> Any:
    L = keras.layers
    source, target = (keras.Input((None,), dtype="int32", name=name) for name in ("source", "target"))
    seen, h, c = L.LSTM(8, return_sequences=True, return_state=True)(L.Embedding(20, 6)(source))
    said = L.LSTM(8, return_sequences=True)(L.Embedding(20, 6)(target), initial_state=[h, c])
    found = L.Attention()([said, seen])
    made = keras.Model([source, target], L.TimeDistributed(L.Dense(20))(L.Concatenate()([said, found])))
    return made, None, [{"source": ids(2, 5), "target": ids(2, 3, seed=1)}]


@model
def autoencoder(tf: Any, keras: Any) -> Any:
    L = keras.layers
    image = keras.Input((8, 8, 1), name="image")
    x = L.Conv2D(4, 3, strides=2, padding="same", activation="elu")(image)
    code = L.Dense(4, name="code")(L.Flatten()(x))
    x = L.Reshape((4, 4, 2))(L.Dense(32, activation="relu")(code))
    again = L.Conv2DTranspose(1, 3, strides=2, padding="same", activation="sigmoid", name="again")(x)
    return keras.Model(image, [code, again]), None, [{"image": numbers(3, 8, 8, 1)}]


@model
def generator(tf: Any, keras: Any) -> Any:
    L = keras.layers
    noise, label = keras.Input((8,), name="noise"), keras.Input((1,), dtype="int32", name="label")
    x = L.Concatenate()([noise, L.Flatten()(L.Embedding(10, 8)(label))])
    x = L.Reshape((4, 4, 8))(L.Dense(128, use_bias=False)(x))
    for width in (8, 4):
        x = L.LeakyReLU()(L.BatchNormalization()(L.Conv2DTranspose(width, 4, strides=2, padding="same")(x)))
    made = keras.Model([noise, label], L.Conv2D(3, 5, padding="same", activation="tanh")(x))
    return made, None, [{"noise": numbers(2, 8), "label": ids(2, 1, below=10)}]


@model
def siamese(tf: Any, keras: Any) -> Any:
    L = keras.layers
    layers = [L.Conv1D(4, 3, activation="relu"), L.GlobalMaxPooling1D(), L.UnitNormalization()]
    tower = keras.Sequential(layers)
    left, right = keras.Input((10, 3), name="left"), keras.Input((10, 3), name="right")
    one, two = tower(left), tower(right)
    distance = L.Lambda(lambda each: abs(each[0] - each[1]))([one, two])
    near = L.Dense(1, activation="sigmoid")(L.Concatenate()([distance, L.Dot(1)([one, two])]))
    calls = [{"left": numbers(2, 10, 3), "right": numbers(2, 10, 3, seed=1)}]
    return keras.Model([left, right], near), None, calls


@model
def text_classifier(tf: Any, keras: Any) -> Any:
    L = keras.layers
    lines = ["the cat sat on the mat", "a dog ran", "the dog and the cat"]
    split = L.TextVectorization(output_mode="int", ngrams=2, output_sequence_length=8)
    split.adapt(lines)
    counted = L.TextVectorization(output_mode="tf_idf")
    counted.adapt(lines)
    text = keras.Input((1,), dtype="string", name="text")
    x = L.GlobalAveragePooling1D()(L.Embedding(split.vocabulary_size(), 6)(split(text)))
    made = keras.Model(
        text, L.Dense(2, activation="softmax")(L.Concatenate()([x, L.Flatten()(counted(text))]))
    )
    return made, None, [{"text": words("The cat, the DOG!", "nothing known here")}]


@model
def tabular(tf: Any, keras: Any) -> Any:
    L = keras.layers
    scaled, binned = L.Normalization(axis=-1), L.Discretization(num_bins=4, epsilon=0.1)
    scaled.adapt(numbers(50, 3, seed=4))
    binned.adapt(numbers(50, 1, seed=5))
    named = L.StringLookup(output_mode="one_hot")
    named.adapt(words("red", "green", "red"))
    given = {
        "numbers": keras.Input((3,), name="numbers"),
        "age": keras.Input((1,), name="age"),
        "colour": keras.Input((1,), dtype="string", name="colour"),
        "tags": keras.Input((3,), dtype="int64", name="tags"),
        "city": keras.Input((1,), dtype="string", name="city"),
    }
    columns = [
        scaled(given["numbers"]),
        L.CategoryEncoding(4, output_mode="one_hot")(binned(given["age"])),
        named(given["colour"]),
        L.IntegerLookup(vocabulary=[5, 7, 9], output_mode="multi_hot")(given["tags"]),
        L.Flatten()(L.Embedding(11, 2)(L.Hashing(11)(given["city"]))),
        L.HashedCrossing(7, output_mode="one_hot")([given["colour"], given["city"]]),
    ]
    fed = {
        "numbers": numbers(2, 3),
        "age": numbers(2, 1),
        "colour": words("green", "blue"),
        "tags": np.array([[5, 9, 5], [1, 7, 2]], "int64"),
        "city": words("Bergen", "Oslo"),
    }
    return keras.Model(given, L.Dense(1)(L.Concatenate()(columns))), None, [fed]


@model
def two_towers(tf: Any, keras: Any) -> Any:
    L = keras.layers
    user = keras.Input((1,), dtype="string", name="user")
    films = keras.Input((3,), dtype="string", name="films")
    who = L.Flatten()(L.Embedding(4, 4)(L.StringLookup(vocabulary=["ann", "bob", "cy"])(user)))
    what = L.Embedding(4, 4)(L.StringLookup(vocabulary=["up", "jaws"], num_oov_indices=2)(films))
    back = L.StringLookup(vocabulary=["up", "jaws"], invert=True)
    scores = L.Dot((1, 2), name="scores")([who, what])
    best = back(keras.ops.argmax(scores, axis=1))
    # No two unknown films of a user share a bucket: the best of equal scores would be chosen by rounding.
    seen = np.array([["up", "jaws", "it"], ["it", "up", "jaws"]], object)
    made = keras.Model([user, films], {"scores": scores, "best": best})
    return made, None, [{"user": words("bob", "eve"), "films": seen}]


@model
def wavenet(tf: Any, keras: Any) -> Any:
    L = keras.layers
    x = first = keras.Input((None, 2), name="sound")
    for rate in (1, 2, 4):
        gates = [
            L.Conv1D(4, 2, padding="causal", dilation_rate=rate, activation=activation)(x)
            for activation in ("tanh", "sigmoid")
        ]
        y = L.Multiply()(gates)
        x = L.Add()([L.Conv1D(4, 1)(x), y])
    return keras.Model(first, L.Conv1D(1, 1)(L.ReLU()(x))), None, [{"sound": numbers(2, 12, 2)}]


@model
def spoken_words(tf: Any, keras: Any) -> Any:
    L = keras.layers
    sound = keras.Input((400,), name="sound")
    x = L.MelSpectrogram(fft_length=64, sequence_stride=32, sampling_rate=8000, num_mel_bins=8)(sound)
    x = L.Conv2D(4, 3, activation="relu")(L.Reshape((8, -1, 1))(x))
    return keras.Model(sound, L.Dense(3)(L.GlobalAveragePooling2D()(x))), None, [{"sound": numbers(2, 400)}]


@model
def half_precision(tf: Any, keras: Any) -> Any:
    L = keras.layers
    policy = keras.mixed_precision.Policy("mixed_bfloat16")
    image = keras.Input((8, 8, 3), name="image")
    x = L.Conv2D(4, 3, dtype=policy, activation="relu")(image)
    x = L.Dense(3, dtype=policy)(L.BatchNormalization(dtype=policy)(L.Flatten(dtype=policy)(x)))
    made = keras.Model(image, L.Activation("softmax", dtype="float32")(x))
    return made, None, [{"image": numbers(2, 8, 8, 3)}]


@model
def quantized(tf: Any, keras: Any) -> Any:
    L = keras.layers
    made = keras.Sequential([keras.Input((8,), name="x"), L.Dense(16, activation="relu"), L.Dense(3)])
    made.quantize("int8")
    return made, None, [{"x": numbers(4, 8)}]
