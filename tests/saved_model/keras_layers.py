"""One small model for each layer class of Keras, saved by TensorFlow 2: run here, are the outputs equal?

    python keras_layers.py FOLDER                 TensorFlow 2's side: saves models and values
    python -m tests.saved_model.keras_layers FOLDER     this side: compares, and prints what differs

Each model is saved as a SavedModel, and frozen as `graph.pb` where TensorFlow can freeze it. `test_keras.py`
runs both sides where FLOWENGINE_TENSORFLOW_PYTHON names a TensorFlow 2.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

#: {class: why it has no model of its own}
WITHOUT = {
    "FlaxLayer": "wraps a JAX model",
    "JaxLayer": "wraps a JAX model",
    "TorchModuleWrapper": "wraps a Torch module",
    "TFSMLayer": "wraps a SavedModel",
    "MaxNumBoundingBoxes": "takes no tensor but boxes with labels",
    "InputSpec": "is no layer",
    "Layer": "is the base class",
    "Wrapper": "is the base class",
    "InputLayer": "is in every model",
}


def numbers(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(0.05, 1, shape).astype(dtype)


def images(*shape: int) -> Any:
    return np.random.default_rng(1).integers(0, 256, shape).astype("float32")


def layers(keras: Any) -> Iterator[tuple[str, Callable[[], Any], list[Any]]]:
    """(class, maker of a layer, its inputs)."""
    L = keras.layers
    line, plane, block = numbers(2, 6, 3), numbers(2, 8, 8, 3), numbers(2, 5, 5, 5, 2)
    for dims, x in ((1, line), (2, plane), (3, block)):
        for kind in ("AveragePooling", "MaxPooling"):
            yield f"{kind}{dims}D", partial(getattr(L, f"{kind}{dims}D"), 2), [x]
        for kind in ("GlobalAveragePooling", "GlobalMaxPooling"):
            yield f"{kind}{dims}D", partial(getattr(L, f"{kind}{dims}D")), [x]
        for kind in ("AdaptiveAveragePooling", "AdaptiveMaxPooling"):
            yield f"{kind}{dims}D", partial(getattr(L, f"{kind}{dims}D"), 2), [x]
        yield f"Conv{dims}D", partial(getattr(L, f"Conv{dims}D"), 2, 3, padding="same"), [x]
        yield f"Conv{dims}DTranspose", partial(getattr(L, f"Conv{dims}DTranspose"), 2, 3, strides=2), [x]
        yield f"Cropping{dims}D", partial(getattr(L, f"Cropping{dims}D"), 1), [x]
        yield f"ZeroPadding{dims}D", partial(getattr(L, f"ZeroPadding{dims}D"), 1), [x]
        yield f"UpSampling{dims}D", partial(getattr(L, f"UpSampling{dims}D"), 2), [x]
        yield f"SpatialDropout{dims}D", partial(getattr(L, f"SpatialDropout{dims}D"), 0.5), [x]
        steps = numbers(1, 3, *([6] * dims), 2)
        yield f"ConvLSTM{dims}D", partial(getattr(L, f"ConvLSTM{dims}D"), 2, 3, padding="same"), [steps]
    for dims, x in ((1, line), (2, plane)):
        yield f"DepthwiseConv{dims}D", partial(getattr(L, f"DepthwiseConv{dims}D"), 3), [x]
        yield f"SeparableConv{dims}D", partial(getattr(L, f"SeparableConv{dims}D"), 4, 3), [x]
    yield from dense(L)
    yield from recurrent(keras)
    yield from attention(L)
    yield from preprocessing(keras)
    yield from random_images(L)


def dense(L: Any) -> Iterator[tuple[str, Callable[[], Any], list[Any]]]:
    x, line = numbers(3, 4) - 0.5, numbers(2, 6, 3) - 0.5
    for kind in ("Activation",):
        yield kind, lambda: L.Activation("gelu"), [x]
    for kind in ("ActivityRegularization", "ELU", "Identity", "LeakyReLU", "PReLU", "ReLU", "Softmax"):
        yield kind, partial(getattr(L, kind)), [x]
    for kind in ("AlphaDropout", "Dropout", "GaussianDropout", "GaussianNoise"):
        yield kind, partial(getattr(L, kind), 0.3), [x]
    for kind in ("BatchNormalization", "LayerNormalization", "RMSNormalization", "UnitNormalization"):
        yield kind, partial(getattr(L, kind)), [line]
    yield "GroupNormalization", lambda: L.GroupNormalization(3), [line]
    yield "SpectralNormalization", lambda: L.SpectralNormalization(L.Dense(3)), [x]
    for kind in ("Add", "Average", "Maximum", "Minimum", "Multiply", "Subtract", "Concatenate"):
        yield kind, partial(getattr(L, kind)), [x, numbers(3, 4, seed=2)]
    yield "ThresholdedReLU", lambda: L.ThresholdedReLU(0.2), [x]
    yield "Dot", lambda: L.Dot(1), [x, numbers(3, 4, seed=2)]
    yield "Dense", lambda: L.Dense(3, activation="tanh"), [x]
    yield "EinsumDense", lambda: L.EinsumDense("abc,cd->abd", [None, 4], bias_axes="d"), [line]
    yield "Flatten", lambda: L.Flatten(), [line]
    yield "Lambda", lambda: L.Lambda(lambda x: x * 2 + 1), [x]
    yield "Masking", lambda: L.Masking(), [line]
    yield "Permute", lambda: L.Permute((2, 1)), [line]
    yield "RepeatVector", lambda: L.RepeatVector(3), [x]
    yield "Reshape", lambda: L.Reshape((2, 2)), [x]
    yield "TimeDistributed", lambda: L.TimeDistributed(L.Dense(2)), [line]
    ids = np.array([[1, 2, 0], [4, 3, 1]], "int32")
    yield "Embedding", lambda: L.Embedding(5, 4), [ids]
    yield "ReversibleEmbedding", lambda: L.ReversibleEmbedding(5, 4), [ids]


def recurrent(keras: Any) -> Iterator[tuple[str, Callable[[], Any], list[Any]]]:
    L, line = keras.layers, numbers(2, 6, 3)
    for kind in ("GRU", "LSTM", "SimpleRNN"):
        yield kind, partial(getattr(L, kind), 4, return_sequences=True), [line]
        yield f"{kind}Cell", partial(L.RNN, getattr(L, f"{kind}Cell")(3)), [line]
    yield "RNN", lambda: L.RNN(L.LSTMCell(3), return_sequences=True, go_backwards=True), [line]
    yield "StackedRNNCells", lambda: L.RNN(L.StackedRNNCells([L.LSTMCell(3), L.GRUCell(2)])), [line]
    yield "Bidirectional", lambda: L.Bidirectional(L.LSTM(3)), [line]


def attention(L: Any) -> Iterator[tuple[str, Callable[[], Any], list[Any]]]:
    query, value = numbers(2, 3, 4), numbers(2, 5, 4, seed=2)
    for kind in ("AdditiveAttention", "Attention"):
        yield kind, partial(Calling, getattr(L, kind)()), [query, value]
    yield "MultiHeadAttention", lambda: Spread(L.MultiHeadAttention(2, 3)), [query, value]
    yield "GroupedQueryAttention", lambda: Spread(L.GroupQueryAttention(4, 4, 2)), [query, value]


class Calling:
    """Calls a layer with its inputs as one list."""

    def __init__(self, layer: Any) -> None:
        self.layer = layer

    def __call__(self, inputs: Any) -> Any:
        return self.layer(inputs)


class Spread(Calling):
    """Calls a layer with its inputs one by one."""

    def __call__(self, inputs: Any) -> Any:
        return self.layer(*inputs)


def preprocessing(keras: Any) -> Iterator[tuple[str, Callable[[], Any], list[Any]]]:
    L, picture = keras.layers, images(2, 8, 8, 3)
    ids = np.array([[1, 2, 0], [4, 3, 1]], "int64")
    words = np.array([["a b", "c"], ["b c c", "z"]], object)
    yield "CategoryEncoding", lambda: L.CategoryEncoding(5, output_mode="count"), [ids]
    yield "Discretization", lambda: L.Discretization([0.2, 0.5]), [numbers(3, 4)]
    yield "Hashing", lambda: L.Hashing(7), [words]
    yield "HashedCrossing", lambda: L.HashedCrossing(7), [words[:, :1], ids[:, :1]]
    yield "IntegerLookup", lambda: L.IntegerLookup(vocabulary=[4, 1]), [ids]
    yield "StringLookup", lambda: L.StringLookup(vocabulary=["c", "z"]), [words]
    yield "Normalization", lambda: L.Normalization(mean=[0.1] * 3, variance=[2.0] * 3), [numbers(2, 3)]
    yield (
        "TextVectorization",
        lambda: L.TextVectorization(vocabulary=["a", "b"], output_mode="int"),
        [words[:, :1]],
    )
    yield "CenterCrop", lambda: L.CenterCrop(4, 4), [picture]
    yield "Rescaling", lambda: L.Rescaling(1 / 255), [picture]
    yield "Resizing", lambda: L.Resizing(5, 11), [picture]
    yield "Pipeline", lambda: L.Pipeline([L.Rescaling(0.5), L.Resizing(4, 4)]), [picture]
    yield "AutoContrast", lambda: L.AutoContrast(), [picture]
    yield "Equalization", lambda: L.Equalization(), [picture]
    yield (
        "ContrastLimitedAdaptiveHistogramEqualization",
        (lambda: L.ContrastLimitedAdaptiveHistogramEqualization()),
        [images(2, 16, 16, 3)],
    )
    yield "Solarization", lambda: L.Solarization(), [picture]
    yield "MelSpectrogram", lambda: L.MelSpectrogram(fft_length=64, num_mel_bins=8), [numbers(2, 400)]
    yield (
        "STFTSpectrogram",
        lambda: L.STFTSpectrogram(frame_length=32, frame_step=16, fft_length=32),
        ([numbers(2, 100, 1)]),
    )


def random_images(L: Any) -> Iterator[tuple[str, Callable[[], Any], list[Any]]]:
    """Yield layers that are random while training, and hand their input on when they are used."""
    for kind, arguments in RANDOM_IMAGES.items():
        yield kind, partial(getattr(L, kind), *arguments), [images(2, 8, 8, 3)]


#: {class: its arguments}
RANDOM_IMAGES: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(["AugMix", "CutMix", "MixUp", "RandAugment", "RandomColorJitter"], ()),
    **dict.fromkeys(["RandomElasticTransform", "RandomErasing", "RandomFlip", "RandomGaussianBlur"], ()),
    **dict.fromkeys(["RandomGrayscale", "RandomInvert", "RandomPerspective", "RandomShear"], ()),
    **dict.fromkeys(["RandomBrightness", "RandomContrast", "RandomHue", "RandomRotation"], (0.2,)),
    **dict.fromkeys(
        [
            "RandomHeight",
            "RandomWidth",
            "RandomZoom",
            "RandomColorDegeneration",
            "RandomSaturation",
            "RandomSharpness",
        ],
        (0.2,),
    ),
    "RandomCrop": (4, 4),
    "RandomPosterization": (4,),
    "RandomTranslation": (0.1, 0.1),
}

#: {whole model of `keras.applications`: its arguments}
APPLICATIONS: dict[str, dict[str, Any]] = {
    "MobileNet": {"input_shape": (32, 32, 3), "alpha": 0.25},
    "MobileNetV2": {"input_shape": (32, 32, 3), "alpha": 0.35},
    "MobileNetV3Small": {"input_shape": (32, 32, 3), "minimalistic": True},
    "MobileNetV3Large": {"input_shape": (32, 32, 3)},
    "EfficientNetB0": {"input_shape": (32, 32, 3)},
    "EfficientNetV2B0": {"input_shape": (32, 32, 3)},
    "DenseNet121": {"input_shape": (32, 32, 3)},
    "NASNetMobile": {"input_shape": (32, 32, 3)},
    "ResNet50": {"input_shape": (32, 32, 3)},
    "ResNet50V2": {"input_shape": (32, 32, 3)},
    "InceptionV3": {"input_shape": (75, 75, 3)},
    "Xception": {"input_shape": (71, 71, 3)},
}


def save_all(folder: str, only: Sequence[str]) -> None:
    """TensorFlow's side: a directory for each class, with the model and `values.npz`."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    keras = tf.keras
    failed: dict[str, str] = {}
    if "applications" in only:
        for name, options in APPLICATIONS.items():
            make = getattr(keras.applications, name)
            model = make(weights=None, include_top=False, pooling="avg", **options)
            save(tf, os.path.join(folder, name), model, [images(1, *options["input_shape"])])
        return
    seen: dict[str, int] = {}
    for name, make, inputs in layers(keras):
        if only and name not in only:
            continue
        seen[name] = seen.get(name, 0) + 1
        place = os.path.join(folder, name if seen[name] == 1 else f"{name}_{seen[name]}")
        try:
            keras.utils.set_random_seed(7)
            given = [
                keras.Input(x.shape[1:], dtype="string" if x.dtype == object else x.dtype.name, name=f"x{i}")
                for i, x in enumerate(inputs)
            ]
            save(tf, place, keras.Model(given, make()(given if len(given) > 1 else given[0])), inputs)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}"
    known = {name for name in dir(keras.layers) if isinstance(getattr(keras.layers, name), type)}
    names = {getattr(keras.layers, name).__name__ for name in known} - set(WITHOUT)
    report = {"not saved": failed, "without a model": sorted(names - set(seen))}
    with open(os.path.join(folder, "report.json"), "w") as file:
        json.dump(report, file, indent=1)


def save(tf: Any, place: str, model: Any, inputs: list[Any]) -> None:
    """Save a model with weights that differ from zero, and what it makes of its inputs."""
    noise = np.random.default_rng(3)
    for weight in model.trainable_weights:
        weight.assign(weight + noise.normal(0, 0.02, weight.shape).astype(weight.dtype))
    tensors = [tf.constant(x) for x in inputs]
    outputs = tf.nest.flatten(model(tensors if len(tensors) > 1 else tensors[0], training=False))
    archive = tf.keras.export.ExportArchive()
    archive.track(model)
    specs = [tf.TensorSpec((None, *x.shape[1:]), x.dtype, name=x.name) for x in model.inputs]

    def serve(*given: Any) -> Any:
        # What is random while training is so in an export, too, unless this is said.
        return model(list(given) if len(given) > 1 else given[0], training=False)

    archive.add_endpoint("serve", serve, specs)
    archive.write_out(place, verbose=False)
    kept = {f"x{i}": x.astype("S") if x.dtype == object else x for i, x in enumerate(inputs)}
    kept |= {f"y{i}": y.numpy() for i, y in enumerate(outputs)}
    np.savez(os.path.join(place, "values.npz"), **kept)
    freeze(tf, place, model)


def freeze(tf: Any, place: str, model: Any) -> None:
    """Write `graph.pb` with the weights in it; a model with tables cannot be frozen and has none."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    specs = [tf.TensorSpec((None, *each.shape[1:]), each.dtype) for each in model.inputs]
    called = tf.function(lambda *given: model(list(given) if len(given) > 1 else given[0]))
    try:
        frozen = convert_variables_to_constants_v2(called.get_concrete_function(*specs))
    except Exception:
        return
    if len(frozen.inputs) != len(specs):
        return
    names = {
        "inputs": [each.name for each in frozen.inputs],
        "outputs": [each.name for each in frozen.outputs],
    }
    with open(os.path.join(place, "graph.pb"), "wb") as file:
        file.write(frozen.graph.as_graph_def().SerializeToString())
    with open(os.path.join(place, "graph.json"), "w") as file:
        json.dump(names, file)


def differences(folder: str) -> Iterator[tuple[str, str]]:
    """This side: (model, what is wrong with it, or nothing) for each directory and each frozen graph."""
    import trio

    for name in sorted(os.listdir(folder)):
        place = os.path.join(folder, name)
        if os.path.isdir(place):
            yield name, trio.run(_compared, _by_signature, place)
            if os.path.exists(os.path.join(place, "graph.pb")):
                names = json.loads(Path(place, "graph.json").read_text())
                run = partial(_frozen, names=names)
                yield f"{name}/graph.pb", trio.run(_compared, run, place)


async def _compared(run: Callable[..., Any], place: str) -> str:
    from flowengine.core.errors import OpError

    with np.load(os.path.join(place, "values.npz")) as kept:
        values = dict(kept)
    inputs = {key: as_fed(value) for key, value in values.items() if key.startswith("x")}
    try:
        got = await run(place, inputs=inputs)
    except OpError as error:
        return f"{type(error).__name__}: {error}"
    wanted = [
        values[key] for key in sorted((k for k in values if k.startswith("y")), key=lambda k: int(k[1:]))
    ]
    if len(got) != len(wanted):
        return f"{len(got)} outputs instead of {len(wanted)}"
    for one, other in zip(got, wanted, strict=True):
        if np.shape(one) != other.shape:
            return f"shape {np.shape(one)} instead of {other.shape}"
        if not np.allclose(one, other, rtol=1e-3, atol=1e-4 * max(1.0, float(np.abs(other).max(initial=0)))):
            return f"differs by {np.abs(one - other).max():.3g} of {np.abs(other).max():.3g}"
    return ""


async def _by_signature(place: str, inputs: dict[str, Any]) -> list[Any]:
    import flowengine as fe

    async with await fe.saved_model.load(place) as model:
        names = list(model.signature.inputs)
        outputs = await model.signature.call(dict(zip(names, inputs.values(), strict=True)))
    return [outputs[key] for key in sorted(outputs, key=lambda key: int(key.rpartition("_")[2]))]


async def _frozen(place: str, *, names: Any, inputs: dict[str, Any]) -> list[Any]:
    import flowengine as fe

    async with fe.Session(fe.Graph.load(os.path.join(place, "graph.pb"))) as session:
        fetched: list[Any] = await session.run(
            names["outputs"], dict(zip(names["inputs"], inputs.values(), strict=True))
        )
        return fetched


def as_fed(value: Any) -> Any:
    return value.astype(object) if value.dtype.kind == "S" else value


def main(folder: str, *only: str) -> None:
    try:
        import flowengine  # noqa: F401
    except ModuleNotFoundError:
        save_all(folder, only)
        return
    count = 0
    for name, fault in differences(folder):
        count += 1
        if fault:
            print(f"{name}: {fault}")
    print(f"{count} models")


if __name__ == "__main__":
    main(*sys.argv[1:])
