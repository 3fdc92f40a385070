"""Batch normalisation V1 to V3 with gradients, and local response normalisation across channels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import empty
from flowengine.ir.graph import Node
from flowengine.kernels.onednn.joint import JointProgram
from flowengine.kernels.onednn.library import LibraryError, address
from flowengine.kernels.onednn.objects import (
    QUERY_WORKSPACE,
    Description,
    Handle,
    attributes,
    dense,
    image,
)
from flowengine.kernels.onednn.program import (
    DIFF_DST,
    DIFF_SCALE,
    DIFF_SHIFT,
    DIFF_SRC,
    DST,
    MEAN,
    SCALE,
    SHIFT,
    SRC,
    SRC_1,
    VARIANCE,
    WORKSPACE,
    Program,
    dense_array,
    one_step,
    operand_after,
    prepared,
    required,
)
from flowengine.kernels.onednn.serving import FLOAT32 as OF_FLOAT32
from flowengine.kernels.onednn.serving import serves
from flowengine.kernels.pieces import FLOAT32, Like, Piece, Same, is_plain

_TRAINING: Final = 64
_INFERENCE: Final = 96
_ADD: Final = 0x1FFF0
_MULTIPLY: Final = 0x1FFF1
_SUBTRACT: Final = 0x1FFF5
_BACKWARD: Final = 128
_GLOBAL_STATISTICS: Final = 1
#: Elements of a row up to which several are taken as one: the library begins each anew.
_LONG_ROW: Final = 1024
_SCALE_AND_SHIFT: Final = 2 | 4
_ACROSS_CHANNELS: Final = 0xAFF

#: Elements that one core normalises in a microsecond, in cache.
_ELEMENTS: Final = 5_000.0
#: A mean of so many times the deviation, squared: the last bit of the mean then shows in what is centred by
#: it, and the NumPy kernel rounds that bit as TensorFlow does.
_FAR: Final = np.float32(1e4)
#: Elements of a response norm that one core does in a microsecond, and the channels that it computes at
#: once: with others it is slow.
_RESPONSES: Final = 1_500.0
_LANES: Final = 16


def _four_axes(x: tuple[int, ...], data_format: bytes) -> tuple[int, tuple[int, ...], int, bool]:
    """(count, sizes, channels, channels first) of a batch of images."""
    if len(x) != 4 or 0 in x or data_format not in (b"NHWC", b"NCHW"):
        raise LibraryError("no images")
    first = data_format == b"NCHW"
    return (x[0], x[2:], x[1], True) if first else (x[0], x[1:3], x[3], False)


def _flags(training: bool) -> int:
    return _SCALE_AND_SHIFT | (0 if training else _GLOBAL_STATISTICS)


def _batch_norm(images: Handle, prop: int, training: bool, epsilon: float, attrs: Handle) -> Description:
    library = required()
    return Description(
        *(library, "batch_normalization_forward", library.engine, prop),
        *(images.value, images.value, epsilon, _flags(training), attrs.value),
    )


class BatchNorm:
    """Batch normalisation of an input of this shape by its own statistics."""

    def __init__(self, x: tuple[int, ...], data_format: bytes, epsilon: float, *, alone: bool) -> None:
        library = required()
        count, sizes, channels, first = _four_axes(x, data_format)
        images, attrs = image(library, count, sizes, channels, first), attributes(library)
        what = _batch_norm(images, _TRAINING, True, epsilon, attrs)
        vector = dense(library, (channels,))
        self.shape, self.channels = x, (channels,)
        self.epsilon = np.float32(epsilon)
        samples = count * math.prod(sizes)
        self.correction = np.float32(samples / max(samples - 1, 1))
        vectors = dict.fromkeys((SCALE, SHIFT, MEAN, VARIANCE), vector)
        self._program = one_step(what, alone, {SRC: images, DST: images, **vectors})

    def __call__(self, x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> Array:
        """y; the statistics are written to mean and variance."""
        out: Array = empty(self.shape, np.float32)
        self._program(
            address(x), address(out), address(scale), address(offset), address(mean), address(variance)
        )
        return out


class GivenNorm:
    """(x - mean) * (scale / sqrt(variance + epsilon)) + offset, each step rounded.

    The library's own normalisation rounds otherwise; this gives the bits of NumPy's kernel, and those of a
    convolution that computes it along (`absorbing`).
    """

    def __init__(self, x: tuple[int, ...], data_format: bytes, epsilon: float, *, alone: bool) -> None:
        library = required()
        count, sizes, channels, first = _four_axes(x, data_format)
        self.shape, self.channels = x, (channels,)
        self._epsilon, self._repeat = np.float32(epsilon), 1
        if first:
            values, vector = image(library, count, sizes, channels, True), dense(library, (1, channels, 1, 1))
        else:
            rows = count * math.prod(sizes)
            self._repeat = repeat = _repeats(rows, channels)
            values = dense(library, (rows // repeat, repeat * channels))
            vector = dense(library, (1, repeat * channels))
        attrs = attributes(library, [("binary", _MULTIPLY, vector), ("binary", _ADD, vector)])
        what = Description(
            *(library, "binary", library.engine, _SUBTRACT),
            *(values.value, vector.value, values.value, attrs.value),
        )
        given = {SRC: values, SRC_1: vector, operand_after(0): vector, operand_after(1): vector}
        self._program = one_step(what, alone, {**given, DST: values})

    def __call__(self, x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> Array:
        out: Array = empty(self.shape, np.float32)
        vectors: Any = (mean, scale / np.sqrt(variance + self._epsilon), offset)
        if self._repeat > 1:
            repeated: Array = np.empty((3, self._repeat, mean.size), np.float32)
            for rows, vector in zip(repeated, vectors, strict=True):
                rows[...] = vector
            vectors = repeated
        self._program(address(x), *map(address, vectors), address(out))
        return out


def _repeats(rows: int, channels: int) -> int:
    """How many rows are one long row: they have to come out even."""
    longest = max(1, min(rows, _LONG_ROW // channels))
    return next(n for n in range(longest, 0, -1) if not rows % n)


class BatchNormGradient:
    """The gradients of input, scale and offset."""

    def __init__(
        self, x: tuple[int, ...], data_format: bytes, training: bool, epsilon: float, *, alone: bool
    ) -> None:
        library = required()
        count, sizes, channels, first = _four_axes(x, data_format)
        images, attrs = image(library, count, sizes, channels, first), attributes(library)
        hint = _batch_norm(images, _TRAINING, training, epsilon, attrs)
        same = (images.value,) * 3
        what = Description(
            *(library, "batch_normalization_backward", library.engine, _BACKWARD),
            *(*same, epsilon, _flags(training), hint.value, attrs.value),
        )
        vector = dense(library, (channels,))
        self.shape, self.channels = x, (channels,)
        given = dict.fromkeys((DIFF_DST, SRC, DIFF_SRC), images)
        given.update(dict.fromkeys((SCALE, MEAN, VARIANCE, DIFF_SCALE, DIFF_SHIFT), vector))
        self._program = one_step(what, alone, given)

    def piece(self, nothing: Sequence[Array], *inputs: Array) -> Piece:
        """See `pieces`; behind the gradients `nothing` is given."""
        vector = Like(self.channels, FLOAT32)
        return Piece(
            ((self._program, (0, 1, ~0, 2, 3, 4, ~1, ~2)),),
            (*map(Like.of, inputs[:5]), *[None for _ in inputs[5:]]),
            (Like(self.shape, FLOAT32), vector, vector, *map(Same, nothing)),
            JointProgram,
        )

    def __call__(
        self, gradient: Array, x: Array, scale: Array, mean: Array, variance: Array
    ) -> tuple[Array, Array, Array]:
        out: Array = empty(self.shape, np.float32)
        scale_out: Array = np.empty(self.channels, np.float32)
        offset_out: Array = np.empty(self.channels, np.float32)
        given = (gradient, x, out, scale, mean, variance, scale_out, offset_out)
        self._program(*map(address, given))
        return out, scale_out, offset_out


def _work(x: tuple[int, ...], *_: Any) -> float:
    return math.prod(x) / _ELEMENTS


batch_norm: Final = prepared(BatchNorm, _work)
given_norm: Final = prepared(GivenNorm, _work)
batch_norm_gradient: Final = prepared(BatchNormGradient, _work)


def _vectors(shape: tuple[int, ...], *vectors: Array) -> bool:
    """Whether vectors have this shape and can be given away as they are."""
    return all(v.shape == shape and v.dtype == np.float32 and v.flags.c_contiguous for v in vectors)


@serves("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", types=OF_FLOAT32)
def fused_batch_norm(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    data_format, epsilon = node.attrs["data_format"], float(node.attrs["epsilon"])
    reserved = (np.zeros((), np.float32),) if node.op == "FusedBatchNormV3" else ()

    def in_training(x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> Any:
        layer = batch_norm(x.shape, data_format, epsilon)
        if layer is None or not _vectors(layer.channels, scale, offset) or mean.size or variance.size:
            return otherwise(x, scale, offset, mean, variance)
        own: Array = np.empty(layer.channels, np.float32)
        biased: Array = np.empty(layer.channels, np.float32)
        y = layer(dense_array(x), scale, offset, own, biased)
        if (own * own > _FAR * (biased + layer.epsilon)).any():
            return otherwise(x, scale, offset, mean, variance)
        return (y, own, biased * layer.correction, own.copy(), biased, *reserved)

    def by_given(x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> Any:
        layer = given_norm(x.shape, data_format, epsilon)
        if layer is None or not _vectors(layer.channels, scale, offset, mean, variance):
            return otherwise(x, scale, offset, mean, variance)
        y = layer(dense_array(x), scale, offset, mean, variance)
        return (y, mean.copy(), variance.copy(), mean.copy(), variance.copy(), *reserved)

    return in_training if node.attrs["is_training"] else by_given


class _BatchNormGradientKernel:
    def __init__(self, node: Node, otherwise: Callable[..., Any]) -> None:
        self._data_format, self._epsilon = node.attrs["data_format"], float(node.attrs["epsilon"])
        self._training = bool(node.attrs["is_training"])
        self._otherwise = otherwise
        self._nothing = (np.zeros((), np.float32), np.zeros((), np.float32))

    def _layer(self, gradient: Array, x: Array, *vectors: Array) -> BatchNormGradient | None:
        layer = batch_norm_gradient(x.shape, self._data_format, self._training, self._epsilon)
        if layer is None or gradient.shape != x.shape or not _vectors(layer.channels, *vectors):
            return None
        return layer

    def __call__(
        self, gradient: Array, x: Array, scale: Array, mean: Array, variance: Array, *more: Array
    ) -> Any:
        layer = self._layer(gradient, x, scale, mean, variance)
        if layer is None:
            return self._otherwise(gradient, x, scale, mean, variance, *more)
        return (*layer(dense_array(gradient), dense_array(x), scale, mean, variance), *self._nothing)

    def piece(self, *inputs: Array) -> Piece | None:
        layer = self._layer(*inputs[:5]) if all(map(is_plain, inputs[:5])) else None
        return None if layer is None else layer.piece(self._nothing, *inputs)


@serves("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3", types=OF_FLOAT32)
def fused_batch_norm_grad(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    return _BatchNormGradientKernel(node, otherwise)


class ResponseNorm:
    """x / (bias + alpha * sum of the squares of neighbouring channels) ** beta."""

    def __init__(
        self,
        x: tuple[int, ...],
        radius: int,
        bias: float,
        alpha: float,
        beta: float,
        *,
        alone: bool,
    ) -> None:
        library = required()
        count, sizes, channels, _ = _four_axes(x, b"NHWC")
        if channels % _LANES:
            raise LibraryError("channels that do not fill registers")
        images = image(library, count, sizes, channels, False)
        attrs = attributes(library)
        self.shape = x
        what = _response_norm(images.value, _INFERENCE, radius, bias, alpha, beta, attrs.value)
        self._program = one_step(what, alone, {SRC: images, DST: images})

    def __call__(self, x: Array) -> Array:
        out: Array = empty(self.shape, np.float32)
        self._program(address(x), address(out))
        return out


def _response_norm(
    images: int, prop: int, radius: int, bias: float, alpha: float, beta: float, attrs: int
) -> Description:
    library = required()
    size = 2 * radius + 1
    return Description(
        library,
        "lrn_forward",
        library.engine,
        prop,
        _ACROSS_CHANNELS,
        images,
        images,
        size,
        alpha * size,
        beta,
        bias,
        attrs,
    )


class ResponseNormGradient:
    """The gradient of `ResponseNorm`'s input from the gradient and the input."""

    def __init__(
        self,
        x: tuple[int, ...],
        radius: int,
        bias: float,
        alpha: float,
        beta: float,
        *,
        alone: bool,
    ) -> None:
        library = required()
        count, sizes, channels, _ = _four_axes(x, b"NHWC")
        if channels % _LANES:
            raise LibraryError("channels that do not fill registers")
        images = image(library, count, sizes, channels, False)
        attrs = attributes(library)
        ahead = _response_norm(images.value, _TRAINING, radius, bias, alpha, beta, attrs.value)
        size = 2 * radius + 1
        what = Description(
            library,
            "lrn_backward",
            library.engine,
            _ACROSS_CHANNELS,
            images.value,
            images.value,
            images.value,
            size,
            alpha * size,
            beta,
            bias,
            ahead.value,
            attrs.value,
        )
        self.shape = x
        self._program = program = Program(library, alone)
        source = program.outside(images)
        arguments = {SRC: source, DIFF_DST: program.outside(images), DIFF_SRC: program.outside(images)}
        kept = ahead.memory(QUERY_WORKSPACE)
        if library.size_of(kept.value):
            between = program.inside(kept)
            program.step(ahead, {SRC: source, DST: program.inside(images), WORKSPACE: between})
            arguments[WORKSPACE] = between
        program.step(what, arguments)

    def __call__(self, gradient: Array, x: Array) -> Array:
        out: Array = empty(self.shape, np.float32)
        self._program(address(x), address(gradient), address(out))
        return out


def _response_work(x: tuple[int, ...], radius: int, *_: Any) -> float:
    return math.prod(x) / _RESPONSES


response_norm: Final = prepared(ResponseNorm, _response_work)
response_norm_gradient: Final = prepared(ResponseNormGradient, _response_work)


def _response_attrs(node: Node) -> tuple[int, float, float, float]:
    attrs = node.attrs
    return int(attrs["depth_radius"]), float(attrs["bias"]), float(attrs["alpha"]), float(attrs["beta"])


@serves("LRN", types=OF_FLOAT32)
def lrn(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    parameters = _response_attrs(node)

    def compute(x: Array) -> Any:
        layer = response_norm(x.shape, *parameters)
        return layer(dense_array(x)) if layer is not None else otherwise(x)

    return compute


@serves("LRNGrad", types=OF_FLOAT32)
def lrn_grad(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    parameters = _response_attrs(node)

    def compute(gradient: Array, x: Array, y: Array) -> Any:
        layer = response_norm_gradient(x.shape, *parameters)
        if layer is None or not gradient.shape == x.shape == y.shape:
            return otherwise(gradient, x, y)
        return layer(dense_array(gradient), dense_array(x))

    return compute
