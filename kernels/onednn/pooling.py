"""MaxPool, AvgPool and their gradients as kernels: calls that suit `layers/poolings.py` go there.

A NaN that is first in its window, and windows without a finite number, are for NumPy's kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from flowengine.core.arrays import Array
from flowengine.ir.graph import Node
from flowengine.kernels.common.pieces import FLOAT32, Like, Piece, is_plain
from flowengine.kernels.numpy.fused import Follower
from flowengine.kernels.onednn.elementwise import gate
from flowengine.kernels.onednn.layers.poolings import (
    MAX,
    MEAN,
    MaxGradientAtPlaces,
    MaxGradientOfRelu,
    MeanGradient,
    Pooling,
    forward,
    has_plain_maxima,
    max_gradient,
    max_gradient_at_places,
    max_gradient_of_relu,
    max_with_places,
    mean_gradient,
)
from flowengine.kernels.onednn.programs.joint import JointProgram
from flowengine.kernels.onednn.programs.program import dense_array
from flowengine.kernels.onednn.programs.sum_tensors import total
from flowengine.kernels.onednn.serving import FLOAT32 as OF_FLOAT32
from flowengine.kernels.onednn.serving import serves


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


serves("MaxPool", types=OF_FLOAT32)(_forward_kernel(MAX))
serves("AvgPool", types=OF_FLOAT32)(_forward_kernel(MEAN))


@serves("MaxPoolV2", types=OF_FLOAT32)
def max_pool_v2(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    def compute(x: Array, ksize: Array, strides: Array) -> Any:
        layer = None
        if ksize.shape == strides.shape == (4,):
            pooling = Pooling.of(node, ksize.tolist(), strides.tolist())
            layer = forward(pooling, x.shape, MAX)
        return layer(dense_array(x)) if layer is not None else otherwise(x, ksize, strides)

    return compute


@serves("MaxPoolGrad", types=OF_FLOAT32)
def max_pool_grad(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    pooling = Pooling.of(node)

    def compute(x: Array, y: Array, gradient: Array) -> Any:
        layer = max_gradient(pooling, x.shape)
        if layer is None or not y.shape == gradient.shape == layer.expected:
            return otherwise(x, y, gradient)
        if not has_plain_maxima(x, layer.firsts, y):
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
        """See `fused.EpilogueKernel`: a Relu's gradient, and a sum with others, are computed in place."""
        if not followers:
            return None
        node, place = followers[0]
        if node.op == "ReluGrad" and place == 0:
            return 1, (_PreGatedGradient if node.inputs[1] == self._input else _GatedGradient)(self)
        return (1, _SummedGradient(self, place)) if node.op == "AddN" else None

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


class _GatedGradient:
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


class _PreGatedGradient:
    """A kernel for the gradient of a pooled Relu, which is gated before it is placed."""

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


class _SummedGradient:
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
        if not has_plain_maxima(x, layer.firsts, y):
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
