"""MaxPool, AvgPool and their gradients over height and width.

A maximum passes NaN over, as TensorFlow's does. The gradient of a maximum computes the pooling again to
learn where each maximum is, the first of equals, as TensorFlow does too, unless the pooling has kept that
for it; they differ only for a NaN that is first in its window and for windows without a finite number, which
the NumPy kernel takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import empty
from flowengine.core.errors import InternalError, OpError
from flowengine.ir.graph import Node
from flowengine.kernels.common.parallel import spread
from flowengine.kernels.common.pieces import FLOAT32, Like, Piece, Sizes, Source, is_plain
from flowengine.kernels.common.windows import spatial, windows
from flowengine.kernels.numpy.fused import Follower
from flowengine.kernels.onednn.elementwise import Gate, gate, staying
from flowengine.kernels.onednn.library import LibraryError, address
from flowengine.kernels.onednn.objects import (
    QUERY_WORKSPACE,
    Description,
    attributes,
    dims,
    image,
)
from flowengine.kernels.onednn.programs.joint import JointProgram
from flowengine.kernels.onednn.programs.program import (
    DIFF_DST,
    DIFF_SRC,
    DST,
    LAYER_ALONE_MICROSECONDS,
    SRC,
    WORKSPACE,
    Program,
    dense_array,
    one_step,
    padded,
    prepared,
    required,
)
from flowengine.kernels.onednn.programs.totals import total
from flowengine.kernels.onednn.serving import FLOAT32 as OF_FLOAT32
from flowengine.kernels.onednn.serving import serves

_INFERENCE: Final = 96
_TRAINING: Final = 64
_MAX: Final = 0x1FF
_MEAN: Final = 0x3FF
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


class _Layer:
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
            )
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


class Forward:
    """A pooling of an input of this shape."""

    def __init__(self, pooling: Pooling, x: tuple[int, ...], algorithm: int, *, alone: bool) -> None:
        layer = _Layer(pooling, x)
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
        layer = _Layer(pooling, x)
        self.shape, self._firsts = layer.output, layer.firsts
        what = layer.forward(_TRAINING, _MAX)
        places = what.memory(QUERY_WORKSPACE)
        self._bytes = layer.library.size_of(places.value)
        given = {SRC: layer.images, DST: layer.results, WORKSPACE: places}
        self._program = one_step(what, alone, given)
        #: The same, and a look at it.
        self._reviewed = reviewed = Program(layer.library, alone)
        reviewed.include(self._program, [~number for number in range(len(given))], 0)
        reviewed.by_numpy(self._review, [reviewed.numbers(x), reviewed.numbers(self.shape)])

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """(the maxima, where they are), the second empty where the libraries may not agree on it."""
        out: Array = empty(self.shape, np.float32)
        places = empty((self._bytes,), np.uint8)
        self._program(address(x), address(out), address(places))
        return out, places if _is_plain(x, self._firsts, out) else places[:0].copy()

    def _review(self, arrays: Sequence[Array]) -> None:
        x, y = arrays
        if not _is_plain(x, self._firsts, y):
            raise InternalError("maxima of which the libraries may not agree where they are")

    def piece(self, x: Array) -> Piece:
        """See `pieces`; where maxima are not plain, the joint leaves it to the kernels."""
        results = (Like(self.shape, FLOAT32), Like((self._bytes,), _BYTES))
        return Piece(((self._reviewed, (0, ~0, ~1, 0, ~0)),), (Like.of(x),), results, JointProgram)


class MaxGradientAtPlaces:
    """The gradient of the input from the gradient of the maxima and where they are."""

    def __init__(self, pooling: Pooling, x: tuple[int, ...], *, alone: bool) -> None:
        layer = _Layer(pooling, x)
        self.shape, self.expected = x, layer.output
        ahead = layer.forward(_TRAINING, _MAX)
        places = ahead.memory(QUERY_WORKSPACE)
        self.places = (layer.library.size_of(places.value),)
        what = layer.backward(_MAX, ahead)
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
        self._program = program = Program(required(), alone)
        gated, behind = 0, padded(math.prod(self.expected) * FLOAT32.itemsize)
        program.include(gating.program, [~1, ~3, ~4, ~0, gated], behind)
        program.include(placing.program, [gated, ~2, ~5], behind)

    def call(
        self, gradient: Source, maxima: Source, places: Source, out: Source
    ) -> tuple[Program, tuple[Source, ...]]:
        """The call of a piece, see `pieces`."""
        return self._program, (gradient, maxima, places, *map(staying, Gate.numbers), out)

    def __call__(self, gradient: Array, maxima: Array, places: Array) -> Array:
        out: Array = empty(self.shape, np.float32)
        self._program(*map(address, (gradient, maxima, places, *Gate.numbers, out)))
        return out


class MaxGradient:
    """The gradient of a maximum's input from the input and the gradient of the output."""

    def __init__(self, pooling: Pooling, x: tuple[int, ...], *, alone: bool) -> None:
        layer = _Layer(pooling, x)
        self.shape, self.expected, self.firsts = x, layer.output, layer.firsts
        ahead = layer.forward(_TRAINING, _MAX)
        self._program = program = Program(layer.library, alone)
        images, gradient = program.outside(layer.images), program.outside(layer.results)
        places = program.inside(ahead.memory(QUERY_WORKSPACE))
        program.step(ahead, {SRC: images, DST: program.inside(layer.results), WORKSPACE: places})
        program.step(
            layer.backward(_MAX, ahead),
            {DIFF_DST: gradient, DIFF_SRC: program.outside(layer.images), WORKSPACE: places},
        )

    def __call__(self, x: Array, gradient: Array) -> Array:
        out: Array = empty(self.shape, np.float32)
        self._program(address(x), address(gradient), address(out))
        return out


class MeanGradient:
    """The gradient of a mean's input, of shape x."""

    def __init__(self, pooling: Pooling, x: tuple[int, ...], *, alone: bool) -> None:
        layer = _Layer(pooling, x)
        self.shape, self.expected = x, layer.output
        what = layer.backward(_MEAN, layer.forward(_TRAINING, _MEAN))
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


forward: Final = prepared(Forward, _work, LAYER_ALONE_MICROSECONDS)
max_with_places: Final = prepared(MaxWithPlaces, _work, LAYER_ALONE_MICROSECONDS)
max_gradient_at_places: Final = prepared(MaxGradientAtPlaces, _work, LAYER_ALONE_MICROSECONDS)
max_gradient_of_relu: Final = prepared(MaxGradientOfRelu, _work, LAYER_ALONE_MICROSECONDS)
max_gradient: Final = prepared(MaxGradient, _work, LAYER_ALONE_MICROSECONDS)
mean_gradient: Final = prepared(MeanGradient, _work, LAYER_ALONE_MICROSECONDS)


class _ForwardKernel:
    def __init__(self, pooling: Pooling, algorithm: int, otherwise: Callable[..., Any]) -> None:
        self._pooling, self._algorithm = pooling, algorithm
        self._otherwise = otherwise

    def __call__(self, x: Array) -> Any:
        layer = forward(self._pooling, x.shape, self._algorithm)
        return layer(dense_array(x)) if layer is not None else self._otherwise(x)

    def piece(self, x: Array) -> Piece | None:
        layer = forward(self._pooling, x.shape, self._algorithm) if is_plain(x) else None
        return None if layer is None else layer.piece(x)


def _forward_kernel(algorithm: int) -> Callable[[Node, Callable[..., Any]], Callable[..., Any]]:
    return lambda node, otherwise: _ForwardKernel(Pooling.of(node), algorithm, otherwise)


serves("MaxPool", types=OF_FLOAT32)(_forward_kernel(_MAX))
serves("AvgPool", types=OF_FLOAT32)(_forward_kernel(_MEAN))


@serves("MaxPoolV2", types=OF_FLOAT32)
def max_pool_v2(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    def compute(x: Array, ksize: Array, strides: Array) -> Any:
        layer = None
        if ksize.shape == strides.shape == (4,):
            pooling = Pooling.of(node, ksize.tolist(), strides.tolist())
            layer = forward(pooling, x.shape, _MAX)
        return layer(dense_array(x)) if layer is not None else otherwise(x, ksize, strides)

    return compute


def _is_plain(x: Array, firsts: tuple[Any, ...], y: Array) -> bool:
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


@serves("MaxPoolGrad", types=OF_FLOAT32)
def max_pool_grad(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    pooling = Pooling.of(node)

    def compute(x: Array, y: Array, gradient: Array) -> Any:
        layer = max_gradient(pooling, x.shape)
        if layer is None or not y.shape == gradient.shape == layer.expected:
            return otherwise(x, y, gradient)
        if not _is_plain(x, layer.firsts, y):
            return otherwise(x, y, gradient)
        return layer(dense_array(x), dense_array(gradient))

    return compute


class _MaximaWithPlaces:
    def __init__(self, pooling: Pooling, otherwise: Callable[..., Any]) -> None:
        self._pooling = pooling
        self._otherwise = otherwise

    def __call__(self, x: Array) -> Any:
        layer = max_with_places(self._pooling, x.shape)
        return layer(dense_array(x)) if layer is not None else self._otherwise(x)

    def piece(self, x: Array) -> Piece | None:
        layer = max_with_places(self._pooling, x.shape) if is_plain(x) else None
        return None if layer is None else layer.piece(x)


@serves("_MaxPoolWithPlaces", types=OF_FLOAT32)
def max_pool_with_places(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    return _MaximaWithPlaces(Pooling.of(node), otherwise)


def _fits(layer: MaxGradientAtPlaces | MaxGradientOfRelu, gradient: Array, places: Array) -> bool:
    return places.shape == layer.places and gradient.shape == layer.expected


class GradientAtPlaces:
    """The kernel of the gradient of maxima whose places are known, which may gate what it gives as well."""

    def __init__(self, node: Node, otherwise: Callable[..., Any]) -> None:
        self._pooling = Pooling.of(node)
        #: What has been pooled.
        self._input = node.inputs[0]
        self._otherwise = otherwise

    def _layer(self, x: Array, gradient: Array, places: Array) -> MaxGradientAtPlaces | None:
        layer = max_gradient_at_places(self._pooling, x.shape) if places.size else None
        return layer if layer is not None and _fits(layer, gradient, places) else None

    def layer_of_relu(self, x: Array, y: Array, gradient: Array, places: Array) -> MaxGradientOfRelu | None:
        layer = max_gradient_of_relu(self._pooling, x.shape) if places.size else None
        if layer is None or y.shape != layer.expected or not _fits(layer, gradient, places):
            return None
        return layer

    def _computed(self, x: Array, gradient: Array, places: Array) -> Array | None:
        layer = self._layer(x, gradient, places)
        return None if layer is None else layer(dense_array(gradient), places)

    def __call__(self, x: Array, y: Array, gradient: Array, places: Array) -> Any:
        made = self._computed(x, gradient, places)
        return self._otherwise(x, y, gradient, places) if made is None else made

    def piece(self, x: Array, y: Array, gradient: Array, places: Array) -> Piece | None:
        """See `pieces`."""
        layer = self._layer(x, gradient, places)
        if layer is None or not all(map(is_plain, (x, gradient, places))):
            return None
        wants = (Like.of(x), None, Like.of(gradient), Like.of(places))
        return Piece(((layer.program, (2, 3, ~0)),), wants, (Like(layer.shape, FLOAT32),), JointProgram)

    def absorb(
        self, followers: Sequence[Follower], variables: Collection[int] = ()
    ) -> tuple[int, Callable[..., Any]] | None:
        """See `fused.Absorbing`: the gradient of a Relu, and a sum with others, are computed in place."""
        if not followers:
            return None
        node, place = followers[0]
        if node.op == "ReluGrad" and place == 0:
            return 1, (_GatedBefore if node.inputs[1] == self._input else _Gated)(self)
        return (1, _Added(self, place)) if node.op == "AddN" else None

    def gated(self, x: Array, gradient: Array, places: Array, features: Array) -> Array | None:
        """The gradient behind a Relu that gave these features; None where two kernels have to compute it."""
        layer = gate(features.size) if features.flags.c_contiguous and features.shape == x.shape else None
        made = None if layer is None else self._computed(x, gradient, places)
        if layer is not None and made is not None:
            layer(made, features, made)
        return made

    def added(
        self, x: Array, gradient: Array, places: Array, others: Sequence[Array], place: int
    ) -> Array | None:
        """The sum of the gradient, in this place, and others; None where two kernels have to compute it."""
        if any(other.shape != x.shape for other in others):
            return None
        layer = total(len(others) + 1, x.size)
        made = None if layer is None else self._computed(x, gradient, places)
        if layer is not None and made is not None:
            tensors = [*map(dense_array, others)]
            tensors.insert(place, made)
            layer(tensors, made)
        return made


class _Gated:
    def __init__(self, kernel: GradientAtPlaces) -> None:
        self._kernel = kernel

    def __call__(self, x: Array, y: Array, gradient: Array, places: Array, features: Array) -> Any:
        return self._kernel.gated(x, gradient, places, features)

    def piece(self, x: Array, y: Array, gradient: Array, places: Array, features: Array) -> Piece | None:
        layer = gate(features.size) if is_plain(features) and features.shape == x.shape else None
        found = None if layer is None else self._kernel.piece(x, y, gradient, places)
        if layer is None or found is None:
            return None
        gating = layer.call(~0, 4, ~0)
        return replace(found, calls=(*found.calls, gating), wants=(*found.wants, Like.of(features)))


class _GatedBefore:
    """What a Relu gave has been pooled: its gradient is gated before it is placed."""

    def __init__(self, kernel: GradientAtPlaces) -> None:
        self._kernel = kernel

    def __call__(self, x: Array, y: Array, gradient: Array, places: Array, features: Array) -> Any:
        layer = self._kernel.layer_of_relu(x, y, gradient, places)
        return None if layer is None else layer(dense_array(gradient), dense_array(y), places)

    def piece(self, x: Array, y: Array, gradient: Array, places: Array, features: Array) -> Piece | None:
        layer = self._kernel.layer_of_relu(x, y, gradient, places)
        if layer is None or not all(map(is_plain, (x, y, gradient, places))):
            return None
        wants = (Like.of(x), Like.of(y), Like.of(gradient), Like.of(places), None)
        return Piece((layer.call(2, 1, 3, ~0),), wants, (Like(layer.shape, FLOAT32),), JointProgram)


class _Added:
    """The gradient and others of its shape, added up: its input is taken by several."""

    def __init__(self, kernel: GradientAtPlaces, place: int) -> None:
        """
        place   of the gradient among all of them
        """
        self._kernel = kernel
        self._place = place

    def __call__(self, x: Array, y: Array, gradient: Array, places: Array, *others: Array) -> Any:
        return self._kernel.added(x, gradient, places, others, self._place)

    def piece(self, x: Array, y: Array, gradient: Array, places: Array, *others: Array) -> Piece | None:
        layer = None
        if all(is_plain(other) and other.shape == x.shape for other in others):
            layer = total(len(others) + 1, x.size)
        found = None if layer is None else self._kernel.piece(x, y, gradient, places)
        if layer is None or found is None:
            return None
        tensors = [*range(4, 4 + len(others))]
        tensors.insert(self._place, ~0)
        wants = (*found.wants, *map(Like.of, others))
        return replace(found, calls=(*found.calls, layer.call(tensors, ~0)), wants=wants)


@serves("_MaxPoolGradAtPlaces", types=OF_FLOAT32)
def max_pool_grad_at_places(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    return GradientAtPlaces(node, otherwise)


@serves("MaxPoolGradV2", types=OF_FLOAT32)
def max_pool_grad_v2(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    def compute(x: Array, y: Array, gradient: Array, ksize: Array, strides: Array) -> Any:
        layer = None
        if ksize.shape == strides.shape == (4,):
            layer = max_gradient(Pooling.of(node, ksize.tolist(), strides.tolist()), x.shape)
        if layer is None or not y.shape == gradient.shape == layer.expected:
            return otherwise(x, y, gradient, ksize, strides)
        if not _is_plain(x, layer.firsts, y):
            return otherwise(x, y, gradient, ksize, strides)
        return layer(dense_array(x), dense_array(gradient))

    return compute


class _MeanGradientKernel:
    def __init__(self, pooling: Pooling, otherwise: Callable[..., Any]) -> None:
        self._pooling = pooling
        self._otherwise = otherwise

    def _layer(self, sizes: Array, gradient: Array) -> MeanGradient | None:
        layer = mean_gradient(self._pooling, tuple(sizes.tolist())) if sizes.ndim == 1 else None
        return None if layer is None or gradient.shape != layer.expected else layer

    def __call__(self, sizes: Array, gradient: Array) -> Any:
        layer = self._layer(sizes, gradient)
        return self._otherwise(sizes, gradient) if layer is None else layer(dense_array(gradient))

    def piece(self, sizes: Array, gradient: Array) -> Piece | None:
        layer = self._layer(sizes, gradient) if is_plain(gradient) else None
        return None if layer is None else layer.piece(sizes, gradient)


@serves("AvgPoolGrad", types=OF_FLOAT32)
def avg_pool_grad(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    return _MeanGradientKernel(Pooling.of(node), otherwise)
