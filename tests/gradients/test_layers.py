"""Layers of networks and images: their derivatives of first and second order against finite differences."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe
from tests.gradients.differences import check

pytestmark = pytest.mark.provided

_RANDOM: Final = np.random.default_rng(3)
#: Of ops that know single precision only.
SINGLE: Final[dict[str, Any]] = {"step": 1e-2, "tolerances": (2e-2, 2e-2)}


def _normal(*shape: int, dtype: str = "float64") -> Any:
    return _RANDOM.standard_normal(shape).astype(dtype)


def _apart(*shape: int, dtype: str = "float64") -> Any:
    """Numbers in no order of which no two are near each other, so that no step makes another one greatest."""
    count = int(np.prod(shape))
    return (_RANDOM.permutation(count).reshape(shape) / 4.0 - count / 8).astype(dtype)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("op", ["Elu", "Selu", "Softplus", "Softsign", "Softmax", "LogSoftmax"])
def test_activations(op: str, order: int) -> None:
    check(lambda o, xs: getattr(o, op)(xs[0]), [_normal(3, 4)], second=order == 2)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("op", ["Relu", "Relu6", "LeakyRelu"])
def test_activations_with_kinks(op: str, order: int) -> None:
    check(lambda o, xs: getattr(o, op)(xs[0]), [_apart(3, 4) + 0.1], second=order == 2)


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_biases(data_format: str) -> None:
    for order in (1, 2):
        check(
            lambda o, xs: o.BiasAdd(xs[0], xs[1], data_format=data_format),
            [_normal(2, 3, 4, 3), _normal(3)],
            second=order == 2,
        )


_CONVOLUTIONS: Final[list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]]] = [
    ("Conv2D", (2, 6, 5, 3), (3, 2, 3, 2), {"strides": [1, 2, 1, 1], "padding": "SAME"}),
    ("Conv2D", (2, 6, 5, 3), (2, 2, 3, 2), {"dilations": [1, 1, 2, 1], "padding": "VALID"}),
    (
        "Conv2D",
        (2, 4, 5, 2),
        (2, 3, 2, 2),
        {"padding": "EXPLICIT", "explicit_paddings": [0, 0, 1, 2, 0, 1, 0, 0]},
    ),
    ("Conv2D", (2, 3, 6, 5), (3, 2, 3, 2), {"data_format": "NCHW", "padding": "SAME"}),
    ("DepthwiseConv2dNative", (2, 5, 6, 2), (2, 3, 2, 3), {"padding": "SAME"}),
    ("DepthwiseConv2dNative", (2, 2, 5, 6), (2, 3, 2, 3), {"data_format": "NCHW", "padding": "VALID"}),
    ("Conv3D", (2, 3, 4, 3, 2), (2, 2, 2, 2, 3), {"strides": [1] * 5, "padding": "SAME"}),
]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("op", "image", "window", "attrs"), _CONVOLUTIONS)
def test_convolutions(op: str, image: Any, window: Any, attrs: dict[str, Any], order: int) -> None:
    attrs = {"strides": [1] * len(image), **attrs}
    check(
        lambda o, xs: getattr(o, op)(xs[0], xs[1], **attrs),
        [_normal(*image), _normal(*window)],
        second=order == 2,
    )


def test_a_convolution_of_a_padded_image() -> None:
    attrs: dict[str, Any] = {"mode": "REFLECT", "strides": [1, 1, 2, 1], "padding": "VALID"}
    pads = np.array([[0, 0], [1, 0], [2, 1], [0, 0]], np.int32)
    check(
        lambda o, xs: o.FusedPadConv2D(xs[0], pads, xs[1], **attrs),
        [_normal(2, 4, 5, 2), _normal(2, 2, 2, 3)],
        second=False,
    )


_WINDOWS: Final[dict[str, Any]] = {"ksize": [1, 2, 2, 1], "strides": [1, 1, 2, 1], "padding": "SAME"}
_VOLUMES: Final[dict[str, Any]] = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 1, 2, 1, 1], "padding": "VALID"}
_SIZES: Final = (np.array([1, 2, 2, 1], np.int32), np.array([1, 1, 2, 1], np.int32))


@pytest.mark.parametrize("order", [1, 2])
def test_pooling(order: int) -> None:
    image, volume = _apart(2, 5, 6, 2), _apart(2, 3, 4, 5, 2)
    check(lambda o, xs: o.MaxPool(xs[0], **_WINDOWS), [image], second=order == 2)
    check(lambda o, xs: o.MaxPoolV2(xs[0], *_SIZES, padding="SAME"), [image], second=order == 2)
    check(lambda o, xs: o.MaxPoolWithArgmax(xs[0], **_WINDOWS)[0], [image], second=order == 2)
    check(lambda o, xs: o.AvgPool(xs[0], **_WINDOWS), [image], second=order == 2)
    check(lambda o, xs: o.AvgPool3D(xs[0], **_VOLUMES), [volume], second=order == 2)
    check(
        lambda o, xs: o.MaxPool3D(xs[0], **_VOLUMES), [volume.astype("float32")], second=order == 2, **SINGLE
    )


@pytest.mark.parametrize("overlapping", [False, True])
@pytest.mark.parametrize("op", ["FractionalMaxPool", "FractionalAvgPool"])
def test_fractional_pooling(op: str, overlapping: bool) -> None:
    attrs: dict[str, Any] = {"pooling_ratio": [1, 1.5, 1.7, 1], "deterministic": True, "seed": 3, "seed2": 4}
    for order in (1, 2):
        check(
            lambda o, xs: getattr(o, op)(xs[0], overlapping=overlapping, **attrs)[0],
            [_apart(2, 11, 9, 2)],
            second=order == 2,
        )


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize("is_training", [True, False])
def test_batch_normalisation(is_training: bool, data_format: str, order: int) -> None:
    shape = (3, 4, 2, 3) if data_format == "NHWC" else (3, 3, 4, 2)
    statistics = [np.zeros(0, np.float32)] * 2
    if not is_training:
        statistics = [_normal(3, dtype="float32"), np.array([0.5, 1.0, 2.0], np.float32)]

    def norm(o: Any, xs: Any) -> Any:
        y = o.FusedBatchNormV3(*xs, *statistics, is_training=is_training, data_format=data_format)[0]
        return o.AddV2(y, o.Square(xs[0]))

    parameters = [_normal(3, dtype="float32"), _normal(3, dtype="float32")]
    check(norm, [_normal(*shape, dtype="float32"), *parameters], second=order == 2, **SINGLE)


@pytest.mark.parametrize("scales", [True, False])
def test_normalisation_by_given_statistics(scales: bool) -> None:
    arrays = [_normal(2, 3, 2, 3), _normal(3), np.abs(_normal(3)) + 0.5, _normal(3), _normal(3)]

    def norm(o: Any, xs: Any) -> Any:
        return o.BatchNormWithGlobalNormalization(
            *xs, variance_epsilon=0.01, scale_after_normalization=scales
        )

    for order in (1, 2):
        check(norm, arrays, second=order == 2)


@pytest.mark.parametrize("order", [1, 2])
def test_normalisation_by_neighbours(order: int) -> None:
    check(
        lambda o, xs: o.LRN(xs[0], depth_radius=1, alpha=0.5),
        [_normal(2, 3, 2, 4, dtype="float32")],
        second=order == 2,
        **SINGLE,
    )


@pytest.mark.parametrize("order", [1, 2])
def test_cross_entropies(order: int) -> None:
    labels = np.array([[0.2, 0.3, 0.1, 0.4]])
    check(lambda o, xs: o.SoftmaxCrossEntropyWithLogits(xs[0], labels)[0], [_normal(3, 4)], second=order == 2)
    classes = np.array([0, 3, 1])
    check(
        lambda o, xs: o.SparseSoftmaxCrossEntropyWithLogits(xs[0], classes)[0],
        [_normal(3, 4)],
        second=order == 2,
    )


def test_the_labels_of_a_cross_entropy() -> None:
    logits = _normal(3, 4)
    check(lambda o, xs: o.SoftmaxCrossEntropyWithLogits(logits, xs[0])[0], [_normal(1, 4)], second=False)


def test_temporal_classification() -> None:
    labels = (np.array([[0, 0], [0, 1], [1, 0]]), np.array([1, 2, 0], np.int32), np.array([4, 3], np.int32))
    check(lambda o, xs: o.CTCLoss(xs[0], *labels)[0], [_normal(4, 2, 4)], second=False)


def test_the_second_derivative_of_temporal_classification_is_refused() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [4, 1, 4])
    ends = (np.array([[0, 0]]), np.array([1], np.int32), np.array([4], np.int32))
    loss = graph.ops.CTCLoss(x, *ends)[0]
    (first,) = fe.gradients(loss, x)
    assert isinstance(first, fe.Tensor)
    with pytest.raises(LookupError, match="no derivative of that gradient"):
        fe.gradients(first, x)


@pytest.mark.parametrize("order", [1, 2])
def test_dilation(order: int) -> None:
    attrs: dict[str, Any] = {"strides": [1, 1, 2, 1], "rates": [1, 2, 1, 1], "padding": "SAME"}
    check(
        lambda o, xs: o.Dilation2D(xs[0], xs[1], **attrs),
        [_apart(2, 5, 6, 2), _normal(2, 3, 2)],
        second=order == 2,
    )


@pytest.mark.parametrize("order", [1, 2])
def test_greatest_elements(order: int) -> None:
    check(lambda o, xs: o.TopKV2(xs[0], np.int32(2))[0], [_apart(2, 3, 5)], second=order == 2)
    check(lambda o, xs: o.NthElement(xs[0], np.int32(1)), [_apart(2, 3, 5)], second=order == 2)


def test_no_greatest_elements() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", None)
    (dx,) = fe.gradients(graph.ops.TopKV2(x, np.int32(0))[0], x)
    with fe.blocking.Session(graph) as session:
        np.testing.assert_array_equal(session.run(dx, {x: np.ones((2, 3))}), np.zeros((2, 3)))


_CELLS: Final[list[tuple[str, dict[str, Any]]]] = [
    ("BlockLSTM", {"use_peephole": True, "cell_clip": 0.0}),
    ("BlockLSTM", {}),
    ("BlockLSTMV2", {"use_peephole": True}),
    ("LSTMBlockCell", {"use_peephole": True}),
    ("LSTMBlockCell", {}),
]


@pytest.mark.parametrize(("op", "attrs"), _CELLS)
def test_lstm_cells(op: str, attrs: dict[str, Any]) -> None:
    """Cells and outputs of two steps of three, or of one."""
    batch, inputs, cells = 2, 3, 4
    is_block = op.startswith("Block")
    x = _normal(*([3] if is_block else []), batch, inputs, dtype="float32")
    states = [_normal(batch, cells, dtype="float32") for _ in range(2)]
    peepholes = [_normal(cells, dtype="float32") for _ in range(3)]
    weights = _normal(inputs + cells, 4 * cells, dtype="float32") / 2

    def run(o: Any, xs: Any) -> Any:
        arguments = [np.int64(2), *xs] if is_block else xs
        outputs = getattr(o, op)(*arguments, **attrs)
        return o.AddV2(outputs.cs, o.Mul(outputs.h, np.float32(3)))

    bias = _normal(4 * cells, dtype="float32")
    check(run, [x, *states, weights, *peepholes, bias], **SINGLE, second=False)


def test_a_gru_cell() -> None:
    batch, inputs, cells = 2, 3, 4
    shapes = [(batch, inputs), (batch, cells), (inputs + cells, 2 * cells), (inputs + cells, cells)]
    arrays = [_normal(*shape, dtype="float32") for shape in [*shapes, (2 * cells,), (cells,)]]
    check(lambda o, xs: o.GRUBlockCell(*xs)[3], arrays, **SINGLE, second=False)


_PATCHES: Final[dict[str, Any]] = {"ksizes": [1, 2, 3, 1], "strides": [1, 1, 2, 1], "rates": [1, 2, 1, 1]}


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_patches(padding: str, order: int) -> None:
    check(
        lambda o, xs: o.ExtractImagePatches(xs[0], padding=padding, **_PATCHES),
        [_normal(2, 5, 6, 2)],
        second=order == 2,
    )
    check(
        lambda o, xs: o.ExtractVolumePatches(
            xs[0], ksizes=[1, 2, 1, 3, 1], strides=[1, 2, 1, 1, 1], padding=padding
        ),
        [_normal(2, 3, 4, 5, 2)],
        second=order == 2,
    )


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    ("op", "more"),
    [
        ("ResizeBilinear", {"align_corners": True}),
        ("ResizeBicubic", {"half_pixel_centers": True}),
        ("ResizeNearestNeighbor", {}),
    ],
)
def test_resizing(op: str, more: dict[str, Any], order: int) -> None:
    size = np.array([4, 9], np.int32)
    check(
        lambda o, xs: getattr(o, op)(xs[0], size, **more),
        [_normal(2, 5, 6, 2, dtype="float32")],
        second=order == 2,
        **SINGLE,
    )


@pytest.mark.parametrize("order", [1, 2])
def test_scaling_and_translation(order: int) -> None:
    where = (np.array([4, 9], np.int32), np.array([0.8, 1.3], np.float32), np.array([0.5, -1.0], np.float32))
    image = _normal(2, 5, 6, 2, dtype="float32")
    check(lambda o, xs: o.ScaleAndTranslate(xs[0], *where), [image], second=order == 2, **SINGLE)


def test_crops_by_image_and_by_boxes() -> None:
    boxes = np.array([[0.11, 0.13, 0.71, 0.82], [0.23, 0.94, 0.87, 0.17]], np.float32)
    which, size = np.array([0, 1], np.int32), np.array([4, 5], np.int32)
    image = _normal(2, 6, 7, 2, dtype="float32")
    check(
        lambda o, xs: o.CropAndResize(xs[0], xs[1], which, size),
        [image, boxes],
        step=3e-4,
        tolerances=(2e-2, 2e-2),
        second=False,
    )
    crops, shape = _normal(2, 4, 5, 2, dtype="float32"), np.array([2, 6, 7, 2], np.int32)
    check(
        lambda o, xs: o.CropAndResizeGradImage(xs[0], xs[1], which, shape, T="float32"),
        [crops, boxes],
        step=3e-4,
        tolerances=(2e-2, 2e-2),
        second=False,
    )


@pytest.mark.parametrize("op", ["Resampler", "Addons>Resampler"])
def test_pixels_read_at_places_between_them(op: str) -> None:
    # No place lies on a line of pixels, or outside of the image: there the derivative by the place jumps.
    places = np.array([[[0.3, 1.4], [2.6, 3.3]], [[1.7, 0.2], [3.4, 2.6]]], np.float32)
    check(
        lambda o, xs: getattr(o, op)(xs[0], xs[1]),
        [_normal(2, 5, 6, 3, dtype="float32"), places],
        step=3e-3,
        tolerances=(2e-2, 2e-2),
        second=False,
    )


def test_hue_saturation_and_value() -> None:
    colours = _RANDOM.permuted(np.tile([0.2, 0.5, 0.8], (4, 1)), axis=1) + _normal(4, 3) / 50
    for order in (1, 2):
        check(lambda o, xs: o.RGBToHSV(xs[0]), [colours], second=order == 2)


def test_images_of_whole_numbers_have_no_gradient() -> None:
    graph = fe.Graph()
    image = graph.placeholder("float32", [1, 4, 4, 1])
    pixels = graph.ops.Cast(image, DstT="uint8")
    resized = graph.ops.ResizeBilinear(pixels, np.array([2, 2], np.int32))
    assert fe.gradients(resized, image) == [None]
