"""Poolings over height and width and their gradients, of given shapes.

A maximum passes NaN over, as TensorFlow's does. The gradient of a maximum computes the pooling again to
learn where each maximum is, the first of equals, as TensorFlow does too, unless the pooling has kept that
for it; they differ only for a NaN that is first in its window and for windows without a finite number, which
the NumPy kernel takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import empty
from flowengine.core.errors import InternalError, OpError
from flowengine.ir.graph import Node
from flowengine.kernels.common.parallel import spread
from flowengine.kernels.common.pieces import FLOAT32, Like, Piece, Sizes, Source
from flowengine.kernels.common.windows import spatial, windows
from flowengine.kernels.onednn.elementwise import Gate, staying
from flowengine.kernels.onednn.library import LibraryError, address
from flowengine.kernels.onednn.objects import (
    QUERY_WORKSPACE,
    Description,
    attributes,
    dims,
    image,
)
from flowengine.kernels.onednn.programs.joint import JointProgram
from flowengine.kernels.onednn.programs.preparing import LAYER_ALONE_MICROSECONDS, prepared, required
from flowengine.kernels.onednn.programs.program import (
    DIFF_DST,
    DIFF_SRC,
    DST,
    SRC,
    WORKSPACE,
    PrimitiveProgram,
    one_step,
    padded,
)

_INFERENCE: Final = 96
_TRAINING: Final = 64
MAX: Final = 0x1FF
MEAN: Final = 0x3FF
_LOWEST: Final = np.finfo(np.float32).min
_BYTES: Final = np.dtype(np.uint8)

#: Bytes of images from which every core looks through some of them; fewer are mostly still in cache, and one
#: core has seen them sooner than another wakes.
_SPREAD_BYTES: Final = 16 << 20
#: Elements of windows that one core reads in a microsecond, where the input is in cache.
_ELEMENTS: Final = 15_000.0


@dataclass(frozen=True, slots=True)
class Pooling:
    """The attributes of a pooling. Layouts other than these two are left to the NumPy kernel."""

    ksize: tuple[int, ...]
    strides: tuple[int, ...]
    padding: bytes
    data_format: bytes

    @classmethod
    def of(cls, node: Node, ksize: Sequence[int] = (), strides: Sequence[int] = ()) -> Pooling:
        attrs = node.attrs
        return cls(
            tuple(ksize or attrs["ksize"]),
            tuple(strides or attrs["strides"]),
            attrs["padding"],
            attrs["data_format"],
        )

    @property
    def first(self) -> bool:
        return self.data_format == b"NCHW"


class PoolingLayer:
    """The descriptors of a pooling of an input of shape x."""

    def __init__(self, pooling: Pooling, x: tuple[int, ...]) -> None:
        self.library = library = required()
        first = pooling.first
        if pooling.data_format not in (b"NHWC", b"NCHW"):
            raise LibraryError("a layout of its own")
        if len(x) != 4 or len(pooling.ksize) != 4 or len(pooling.strides) != 4 or 0 in x:
            raise LibraryError("not four axes with something in them")
        channel = 1 if first else 3
        for values in (pooling.ksize, pooling.strides):
            if values[0] != 1 or values[channel] != 1 or min(values) < 1:
                raise LibraryError("a window over batch or channels")
        try:
            geometry = windows(
                spatial(x, first),
                spatial(pooling.ksize, first),
                spatial(pooling.strides, first),
                (1, 1),
                pooling.padding,
            ).clipped()
        except OpError as error:
            raise LibraryError("windows that do not fit") from error
        if 0 in geometry.out:
            raise LibraryError("an empty output")
        count, channels = x[0], x[channel]
        self.images = image(library, count, geometry.sizes, channels, first)
        self.results = image(library, count, geometry.out, channels, first)
        self.output = (count, channels, *geometry.out) if first else (count, *geometry.out, channels)
        self.slides = (
            dims(geometry.strides),
            dims(geometry.window),
            dims((0, 0)),
            dims(geometry.before),
            dims(geometry.after),
        )
        self.attributes = attributes(library)
        #: The elements that are first in their windows; all, where some windows begin outside.
        self.firsts: tuple[Any, ...] = (...,)
        if not first and not any(geometry.before):
            self.firsts = (slice(None), *map(_every, geometry.strides, geometry.out))

    def forward(self, prop: int, algorithm: int) -> Description:
        return Description(
            self.library,
            "pooling_forward",
            self.library.engine,
            prop,
            algorithm,
            self.images.value,
            self.results.value,
            *self.slides,
            self.attributes.value,
        )

    def backward(self, algorithm: int, hint: Description) -> Description:
        return Description(
            self.library,
            "pooling_backward",
            self.library.engine,
            algorithm,
            self.images.value,
            self.results.value,
            *self.slides,
            hint.value,
            self.attributes.value,
        )


def _every(stride: int, count: int) -> slice:
    return slice(0, stride * count, stride)


def has_plain_maxima(x: Array, firsts: tuple[Any, ...], y: Array) -> bool:
    """Whether maxima y of x are where both libraries say they are; `firsts` are first in their windows."""
    seen = x[firsts]
    # Mostly one look will do: where all windows begin with numbers above the lowest, maxima are above it.
    if _least(seen) > _LOWEST:
        return True
    return bool(y.min() > _LOWEST) and not bool(np.isnan(seen.max()))


def _least(images: Array) -> float:
    """The least of images' elements; NaN if there is one."""
    # From the first image to the last, with what a view of them leaves out.
    if len(images) * abs(images.strides[0]) < _SPREAD_BYTES:
        return float(images.min())
    least = np.empty(len(images), np.float32)

    def look(number: int) -> None:
        least[number] = images[number].min()

    spread(look, len(images))
    return float(least.min())


class PoolingForward:
    """A pooling of an input of this shape."""

    def __init__(self, pooling: Pooling, x: tuple[int, ...], algorithm: int, *, alone: bool) -> None:
        layer = PoolingLayer(pooling, x)
        self.shape = layer.output
        what = layer.forward(_INFERENCE, algorithm)
        self._program = one_step(what, alone, {SRC: layer.images, DST: layer.results})

    def piece(self, x: Array) -> Piece:
        """See `pieces`."""
        return Piece(((self._program, (0, ~0)),), (Like.of(x),), (Like(self.shape, FLOAT32),), JointProgram)

    def __call__(self, x: Array) -> Array:
        out: Array = empty(self.shape, np.float32)
        self._program(address(x), address(out))
        return out


class MaxWithPlaces:
    """The maxima of an input of this shape, and where they are."""

    def __init__(self, pooling: Pooling, x: tuple[int, ...], *, alone: bool) -> None:
        layer = PoolingLayer(pooling, x)
        self.shape, self._firsts = layer.output, layer.firsts
        what = layer.forward(_TRAINING, MAX)
        places = what.memory(QUERY_WORKSPACE)
        self._bytes = layer.library.size_of(places.value)
        given = {SRC: layer.images, DST: layer.results, WORKSPACE: places}
        self._program = one_step(what, alone, given)
        #: The same, and a look at it.
        self._reviewed = reviewed = PrimitiveProgram(layer.library, alone)
        reviewed.include(self._program, [~number for number in range(len(given))], 0)
        reviewed.by_numpy(self._review, [reviewed.numbers(x), reviewed.numbers(self.shape)])

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """(the maxima, where they are), the second empty where the libraries may not agree on it."""
        out: Array = empty(self.shape, np.float32)
        places = empty((self._bytes,), np.uint8)
        self._program(address(x), address(out), address(places))
        return out, places if has_plain_maxima(x, self._firsts, out) else places[:0].copy()

    def _review(self, arrays: Sequence[Array]) -> None:
        x, y = arrays
        if not has_plain_maxima(x, self._firsts, y):
            raise InternalError("maxima of which the libraries may not agree where they are")

    def piece(self, x: Array) -> Piece:
        """See `pieces`; where maxima are not plain, the joint leaves it to the kernels."""
        results = (Like(self.shape, FLOAT32), Like((self._bytes,), _BYTES))
        return Piece(((self._reviewed, (0, ~0, ~1, 0, ~0)),), (Like.of(x),), results, JointProgram)


class MaxGradientAtPlaces:
    """The gradient of the input from the gradient of the maxima and where they are."""

    def __init__(self, pooling: Pooling, x: tuple[int, ...], *, alone: bool) -> None:
        layer = PoolingLayer(pooling, x)
        self.shape, self.expected = x, layer.output
        ahead = layer.forward(_TRAINING, MAX)
        places = ahead.memory(QUERY_WORKSPACE)
        self.places = (layer.library.size_of(places.value),)
        what = layer.backward(MAX, ahead)
        given = {DIFF_DST: layer.results, WORKSPACE: places, DIFF_SRC: layer.images}
        self.program = one_step(what, alone, given)

    def __call__(self, gradient: Array, places: Array) -> Array:
        out: Array = empty(self.shape, np.float32)
        self.program(address(gradient), address(places), address(out))
        return out


class MaxGradientOfRelu:
    """The gradient of what a Relu gave, behind that Relu, from that of its maxima: gated before it is placed.

    A maximum is the very element that its gradient goes to, so that both are above 0 or none is: to gate
    the few gradients of maxima instead of all elements' gives the same, but for the signs of zeros.
    """

    def __init__(self, pooling: Pooling, x: tuple[int, ...], *, alone: bool) -> None:
        placing = MaxGradientAtPlaces(pooling, x, alone=alone)
        self.shape, self.expected, self.places = x, placing.expected, placing.places
        gating = Gate(math.prod(self.expected), alone=alone)
        self._program = program = PrimitiveProgram(required(), alone)
        gated, behind = 0, padded(math.prod(self.expected) * FLOAT32.itemsize)
        program.include(gating.program, [~1, ~3, ~4, ~0, gated], behind)
        program.include(placing.program, [gated, ~2, ~5], behind)

    def call(
        self, gradient: Source, maxima: Source, places: Source, out: Source
    ) -> tuple[PrimitiveProgram, tuple[Source, ...]]:
        """The call of a piece, see `pieces`."""
        return self._program, (gradient, maxima, places, *map(staying, Gate.numbers), out)

    def __call__(self, gradient: Array, maxima: Array, places: Array) -> Array:
        out: Array = empty(self.shape, np.float32)
        self._program(*map(address, (gradient, maxima, places, *Gate.numbers, out)))
        return out


class MaxGradient:
    """The gradient of a maximum's input from the input and the gradient of the output."""

    def __init__(self, pooling: Pooling, x: tuple[int, ...], *, alone: bool) -> None:
        layer = PoolingLayer(pooling, x)
        self.shape, self.expected, self.firsts = x, layer.output, layer.firsts
        ahead = layer.forward(_TRAINING, MAX)
        self._program = program = PrimitiveProgram(layer.library, alone)
        images, gradient = program.outside(layer.images), program.outside(layer.results)
        places = program.inside(ahead.memory(QUERY_WORKSPACE))
        program.step(ahead, {SRC: images, DST: program.inside(layer.results), WORKSPACE: places})
        program.step(
            layer.backward(MAX, ahead),
            {DIFF_DST: gradient, DIFF_SRC: program.outside(layer.images), WORKSPACE: places},
        )

    def __call__(self, x: Array, gradient: Array) -> Array:
        out: Array = empty(self.shape, np.float32)
        self._program(address(x), address(gradient), address(out))
        return out


class MeanGradient:
    """The gradient of a mean's input, of shape x."""

    def __init__(self, pooling: Pooling, x: tuple[int, ...], *, alone: bool) -> None:
        layer = PoolingLayer(pooling, x)
        self.shape, self.expected = x, layer.output
        what = layer.backward(MEAN, layer.forward(_TRAINING, MEAN))
        self._program = one_step(what, alone, {DIFF_DST: layer.results, DIFF_SRC: layer.images})

    def piece(self, sizes: Array, gradient: Array) -> Piece:
        """See `pieces`; `sizes` are those of the input."""
        wants = (Sizes.of(sizes), Like.of(gradient))
        return Piece(((self._program, (1, ~0)),), wants, (Like(self.shape, FLOAT32),), JointProgram)

    def __call__(self, gradient: Array) -> Array:
        out: Array = empty(self.shape, np.float32)
        self._program(address(gradient), address(out))
        return out


def _work(pooling: Pooling, x: tuple[int, ...], *_: Any) -> float:
    steps = max(1, math.prod(pooling.strides))
    return math.prod(x) * max(1.0, math.prod(pooling.ksize) / steps) / _ELEMENTS


forward: Final = prepared(PoolingForward, _work, LAYER_ALONE_MICROSECONDS)
max_with_places: Final = prepared(MaxWithPlaces, _work, LAYER_ALONE_MICROSECONDS)
max_gradient_at_places: Final = prepared(MaxGradientAtPlaces, _work, LAYER_ALONE_MICROSECONDS)
max_gradient_of_relu: Final = prepared(MaxGradientOfRelu, _work, LAYER_ALONE_MICROSECONDS)
max_gradient: Final = prepared(MaxGradient, _work, LAYER_ALONE_MICROSECONDS)
mean_gradient: Final = prepared(MeanGradient, _work, LAYER_ALONE_MICROSECONDS)
