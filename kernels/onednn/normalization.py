"""Batch normalisation V1 to V3 with gradients."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import empty
from flowengine.ir.graph import Node
from flowengine.kernels.common.pieces import FLOAT32, Like, Piece, Same, is_plain
from flowengine.kernels.numpy import normalization as nn_norm
from flowengine.kernels.numpy.activations import relu
from flowengine.kernels.onednn.library import Library, address
from flowengine.kernels.onednn.objects import (
    Description,
    Handle,
    attributes,
    dense,
    four_axes,
    image,
)
from flowengine.kernels.onednn.programs.joint import JointProgram
from flowengine.kernels.onednn.programs.preparing import prepared, required
from flowengine.kernels.onednn.programs.program import (
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
    PrimitiveProgram,
    dense_array,
    one_step,
    operand_after,
)
from flowengine.kernels.onednn.serving import FLOAT32 as OF_FLOAT32
from flowengine.kernels.onednn.serving import serves

_TRAINING: Final = 64
_INFERENCE: Final = 96
_ADD: Final = 0x1FFF0
_MULTIPLY: Final = 0x1FFF1
_SUBTRACT: Final = 0x1FFF5
_BACKWARD: Final = 128
_RELU: Final = 0x20
_LINEAR: Final = 0x26
_GLOBAL_STATISTICS: Final = 1
#: Elements of a row up to which several are taken as one: the library begins each anew.
_LONG_ROW: Final = 1024
_SCALE_AND_SHIFT: Final = 2 | 4

#: Elements that one core normalises in a microsecond, in cache.
_ELEMENTS: Final = 5_000.0
#: A mean of so many times the deviation, squared: the last bit of the mean then shows in what is centred by
#: it, and the NumPy kernel rounds that bit as TensorFlow does.
_FAR: Final = np.float32(1e4)
#: A sum of squares of factors with which nothing overflows.
_SANE: Final = 1e30


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

    def __init__(
        self, x: tuple[int, ...], data_format: bytes, epsilon: float, rectified: bool, *, alone: bool
    ) -> None:
        """
        rectified   whether the Relu of it is wanted
        """
        library = required()
        count, sizes, channels, first = four_axes(x, data_format)
        images = image(library, count, sizes, channels, first)
        # It makes 0 of NaN, see `_Statistics`.
        attrs = attributes(library, [("eltwise", _RELU, 0.0, 0.0)] if rectified else [])
        what = _batch_norm(images, _TRAINING, True, epsilon, attrs)
        vector = dense(library, (channels,))
        self.shape, self.channels = x, (channels,)
        samples = count * math.prod(sizes)
        self._correction = np.float32(samples / max(samples - 1, 1))
        vectors = dict.fromkeys((SCALE, SHIFT, MEAN, VARIANCE), vector)
        self._program = one_step(what, alone, {SRC: images, DST: images, **vectors})
        self._scaled = _scaled(library, vector, float(self._correction))
        self._copied = _scaled(library, vector, 1.0)
        self._review = _Statistics(channels, epsilon, rectified)
        self._are_right = self._review.joined([self._review])

    def piece(self, reserved: Sequence[Array], *inputs: Array) -> Piece:
        """See `pieces`; `reserved` is what is given behind the statistics."""
        vector = Like(self.channels, FLOAT32)
        return Piece(
            ((self._program, (0, ~0, 1, 2, ~3, ~4)),),
            (*map(Like.of, inputs[:3]), *map(Like.of, inputs[3:])),
            (Like(self.shape, FLOAT32), vector, vector, vector, vector, *map(Same, reserved)),
            JointProgram,
            ((1, (self._copied, (~3, ~1))), (2, (self._scaled, (~4, ~2)))),
            self._review,
        )

    def __call__(self, x: Array, scale: Array, offset: Array) -> tuple[Array, ...] | None:
        """y, the mean, the unbiased variance, the mean, the variance; None where NumPy has to look at it."""
        out: Array = empty(self.shape, np.float32)
        mean: Array = np.empty(self.channels, np.float32)
        variance: Array = np.empty(self.channels, np.float32)
        given = (x, out, scale, offset, mean, variance)
        self._program(*map(address, given))
        if not self._are_right([(scale, offset, mean, variance)]):
            return None
        return out, mean.copy(), variance * self._correction, mean, variance


def _scaled(library: Library, vector: Handle, factor: float) -> PrimitiveProgram:
    """A vector times a number."""
    attrs = attributes(library)
    what = Description(
        *(library, "eltwise_forward", library.engine, _INFERENCE, _LINEAR),
        *(vector.value, vector.value, factor, 0.0, attrs.value),
    )
    return one_step(what, True, {SRC: vector, DST: vector})


class _Statistics:
    """See `pieces.Review`: whether the library's result is NumPy's, by scale, offset, mean and variance.

    No mean is far from 0. Where there is a Relu, which makes 0 of NaN, nothing is NaN: an input that is not
    finite makes the mean so, and what a finite one is centred to is less than the root of their count
    deviations, which factors of a sane size leave finite.
    """

    sources: Final = (1, 2, ~3, ~4)

    def __init__(self, channels: int, epsilon: float, rectified: bool) -> None:
        self._channels, self._epsilon = channels, epsilon
        self._rectified = rectified

    def joined(self, every: Sequence[_Statistics]) -> Callable[[Sequence[Sequence[Array]]], bool]:
        """See `pieces.Review`."""
        epsilons: Array = np.array([e._epsilon for e in every], np.float32)
        added: Array = np.repeat(epsilons, [e._channels for e in every])

        def are_near(given: Sequence[Sequence[Array]]) -> bool:
            mean, variance = (_as_one([each[n] for each in given]) for n in (2, 3))
            return not np.count_nonzero(mean * mean > _FAR * (variance + added))

        def are_right(given: Sequence[Sequence[Array]]) -> bool:
            mean, variance = (_as_one([each[n] for each in given]) for n in (2, 3))
            # False for NaN, and for a mean that is infinite.
            if np.count_nonzero(mean * mean < _FAR * (variance + added)) < added.size:
                return False
            return all(scale.dot(scale) < _SANE and offset.dot(offset) < _SANE for scale, offset, *_ in given)

        return are_right if any(e._rectified for e in every) else are_near


def _as_one(vectors: Sequence[Array]) -> Array:
    return vectors[0] if len(vectors) == 1 else np.concatenate(vectors)


class GivenNorm:
    """(x - mean) * (scale / sqrt(variance + epsilon)) + offset, each step rounded.

    The library's own normalisation rounds otherwise; this gives the bits of NumPy's kernel, and those of a
    convolution that computes it along (`absorbing`).
    """

    def __init__(self, x: tuple[int, ...], data_format: bytes, epsilon: float, *, alone: bool) -> None:
        library = required()
        count, sizes, channels, first = four_axes(x, data_format)
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
        count, sizes, channels, first = four_axes(x, data_format)
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


class _BatchNormKernel:
    """Batch normalisation in training."""

    _rectified = False

    def __init__(self, node: Node, otherwise: Callable[..., Any]) -> None:
        self._data_format, self._epsilon = node.attrs["data_format"], float(node.attrs["epsilon"])
        self._otherwise = otherwise
        self._reserved = _reserved(node)
        #: Whether the last statistics were nothing for the library.
        self.is_odd = False

    def _layer(self, x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> BatchNorm | None:
        layer = batch_norm(x.shape, self._data_format, self._epsilon, self._rectified)
        if layer is None or not _vectors(layer.channels, scale, offset) or mean.size or variance.size:
            return None
        return layer

    def _computed(self, x: Array, *others: Array) -> tuple[Any, ...] | None:
        layer = self._layer(x, *others)
        made = None if layer is None else layer(dense_array(x), *others[:2])
        self.is_odd = made is None
        return None if made is None else (*made, *self._reserved)

    def __call__(self, x: Array, *others: Array) -> Any:
        made = self._computed(x, *others)
        return self._otherwise(x, *others) if made is None else made

    def piece(self, *inputs: Array) -> Piece | None:
        """See `pieces`."""
        layer = self._layer(*inputs) if not self.is_odd and all(map(is_plain, inputs)) else None
        return None if layer is None else layer.piece(self._reserved, *inputs)


class _BatchNormReluKernel(_BatchNormKernel):
    """The same and the Relu of it, one after the other where the library's Relu could be another."""

    _rectified = True

    def __init__(self, node: Node) -> None:
        plain = _BatchNormKernel(node, functools.partial(nn_norm.fused_batch_norm, node=node))
        super().__init__(node, plain)
        self._plain = plain

    def __call__(self, *inputs: Array) -> Any:
        made = None if self.is_odd else self._computed(*inputs)
        if made is not None:
            return made
        y, *others = self._plain(*inputs)
        self.is_odd = self._plain.is_odd
        return (relu(y), *others)


def _reserved(node: Node) -> tuple[Array, ...]:
    """Return the outputs that follow the statistics."""
    return (np.zeros((), np.float32),) if len(node.output_types) > 5 else ()


@serves("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", types=OF_FLOAT32)
def fused_batch_norm(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    if node.attrs["is_training"]:
        return _BatchNormKernel(node, otherwise)
    data_format, epsilon = node.attrs["data_format"], float(node.attrs["epsilon"])
    reserved = _reserved(node)

    def by_given(x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> Any:
        layer = given_norm(x.shape, data_format, epsilon)
        if layer is None or not _vectors(layer.channels, scale, offset, mean, variance):
            return otherwise(x, scale, offset, mean, variance)
        y = layer(dense_array(x), scale, offset, mean, variance)
        return (y, mean.copy(), variance.copy(), mean.copy(), variance.copy(), *reserved)

    return by_given


@serves("_BatchNormRelu", types=OF_FLOAT32)
def batch_norm_relu(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    return _BatchNormReluKernel(node)


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
