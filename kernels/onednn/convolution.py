"""Conv2D and its two gradients: NHWC and NCHW, strides, dilations, any padding, groups.

Images stay in the layout of the graph; filters, which are small, are brought into the order that the
primitive prefers at each call, or once for filters that never change, or have not for a while.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.ir.graph import Node
from flowengine.kernels.common.array_args import integers
from flowengine.kernels.common.pieces import FixedMemory, Like, Piece, Same, Source, Want, is_plain
from flowengine.kernels.common.windows import spatial
from flowengine.kernels.numpy.fused import Follower
from flowengine.kernels.onednn.layers.absorbing import Taken, absorbed, fits, forms_of, operands_of
from flowengine.kernels.onednn.layers.backward import FilterGradient, InputGradient
from flowengine.kernels.onednn.layers.filters import PackedVariable, never_changes
from flowengine.kernels.onednn.layers.forward import ConvolutionForward
from flowengine.kernels.onednn.layers.post_ops import ZERO
from flowengine.kernels.onednn.layers.shapes import WindowAttributes
from flowengine.kernels.onednn.library import address, library
from flowengine.kernels.onednn.programs.preparing import LAYER_ALONE_MICROSECONDS, prepared
from flowengine.kernels.onednn.programs.program import dense_array
from flowengine.kernels.onednn.serving import FLOAT32 as OF_FLOAT32
from flowengine.kernels.onednn.serving import serves

#: Multiplications and additions of one core in a microsecond; of depthwise ones, which are memory-bound.
_PRODUCTS: Final = 70_000.0
_DEPTHWISE_PRODUCTS: Final = 20_000.0


def _work(sliding: WindowAttributes, x: tuple[int, ...], w: tuple[int, ...], *_: Any) -> float:
    pixels = math.prod(x) / max(1, math.prod(spatial(sliding.strides, sliding.first)))
    if sliding.depthwise:
        return pixels * math.prod(w[:2]) * w[-1] / _DEPTHWISE_PRODUCTS
    return pixels / max(x[1 if sliding.first else -1], 1) * math.prod(w) / _PRODUCTS


forward: Final = prepared(ConvolutionForward, _work, LAYER_ALONE_MICROSECONDS)
input_gradient: Final = prepared(InputGradient, _work, LAYER_ALONE_MICROSECONDS)
filter_gradient: Final = prepared(FilterGradient, _work, LAYER_ALONE_MICROSECONDS)


class Convolution:
    """The kernel of a convolution's node, which may compute what follows it as well."""

    def __init__(self, sliding: WindowAttributes, otherwise: Callable[..., Any]) -> None:
        self._sliding = sliding
        self._otherwise = otherwise

    def __call__(self, x: Array, filters: Array) -> Any:
        layer = forward(self._sliding, x.shape, filters.shape, (), never_changes(filters))
        if layer is None:
            return self._otherwise(x, filters)
        return layer(dense_array(x), dense_array(filters))

    def absorb(
        self, followers: Sequence[Follower], variables: Collection[int] = ()
    ) -> tuple[int, Callable[..., Any]] | None:
        """See `fused.EpilogueKernel`."""
        taken = absorbed(followers, self._sliding.first)
        if not taken:
            return None
        return len(taken), FusedConvolution(
            self._sliding, taken, PackedVariable() if 1 in variables else None
        )

    def piece(self, x: Array, filters: Array) -> Piece | None:
        """See `pieces`."""
        if not (is_plain(x) and is_plain(filters)):
            return None
        layer = forward(self._sliding, x.shape, filters.shape, (), never_changes(filters))
        return None if layer is None else layer.piece(x, filters, (), ())


class FusedConvolution:
    """A convolution and what follows it as one kernel; None is what it gives where they are not one."""

    def __init__(
        self, sliding: WindowAttributes, taken: Sequence[Taken], lasting: PackedVariable | None
    ) -> None:
        self._sliding = sliding
        self._taken = taken
        self._lasting = lasting
        #: (shape, filters and others that never change, what computes the rest) of the call before.
        self._known: tuple[Any, ...] = ()
        #: (all shapes, whether the filters never change, the layer) of the last call where others may change.
        self._seen: tuple[Any, ...] = (None, None, None)
        #: What was made of variables' values when it was asked for its piece before.
        self._made: list[bytes] | None = None

    def _layer(
        self, x: Array, filters: Array, others: Sequence[Any], constant: bool
    ) -> tuple[ConvolutionForward, Sequence[Array]] | None:
        """Return the layer that computes the convolution, and its operands."""
        shapes = (x.shape, filters.shape, *[other.shape for other in others])
        same = self._seen
        if same[0] == shapes and same[1] is constant:
            return same[2], operands_of(self._taken, others)
        width = filters.shape[-2] * filters.shape[-1] if self._sliding.depthwise else filters.shape[-1]
        asked = forms_of(self._taken, others, width)
        if asked is None:
            return None
        forms, operands = asked
        layer = forward(self._sliding, x.shape, filters.shape, forms, constant)
        if layer is None or not fits(forms, operands, layer.shape):
            return None
        self._seen = (shapes, constant, layer)
        return layer, operands

    def __call__(self, x: Array, filters: Array, *others: Any) -> Any:
        if library() is None:  # any more, in a process that is a fork
            return None
        before = self._known
        if before and before[0] == x.shape and before[1] is filters and _same(before[2], others):
            return before[3](dense_array(x))
        constant = never_changes(filters)
        found = self._layer(x, filters, others, constant)
        if found is None:
            return None
        layer, operands = found
        filters = dense_array(filters)
        if constant and all(map(never_changes, others)):
            self._known = (x.shape, filters, others, layer.settled(filters, operands))
        return layer(dense_array(x), filters, *operands, lasting=self._lasting)

    def piece(self, x: Array, filters: Array, *others: Any) -> Piece | None:
        """See `pieces`: where operands are the inputs themselves, or made of what does not change.

        That are constants, and what variables hold if the same was made of it when this was asked before,
        many runs ago. A reference to the value of a variable keeps it unchanged.
        """
        if library() is None or not all(map(is_plain, (x, filters, *others))):
            return None
        found = self._layer(x, filters, others, never_changes(filters))
        if found is None:
            return None
        layer, operands = found
        sources: list[Source] = []
        wants: list[Want] = []
        made: list[bytes] = []
        left = iter(operands)
        first = 0
        for count, _, values in self._taken:
            taken = others[first : first + count]
            given = [next(left) for _ in values(taken)]
            is_fixed = all(map(never_changes, taken))
            if not is_fixed and all(operand is ZERO or _is_among(operand, taken) for operand in given):
                # What is added as it is comes in the order of the inputs; two may be one array, this time.
                places = iter(range(first + 2, first + 2 + count))
                sources += [
                    FixedMemory(address(ZERO), ZERO) if each is ZERO else next(places) for each in given
                ]
                wants += map(Like.of, taken)
            else:
                sources += [FixedMemory(address(operand), operand) for operand in given]
                wants += map(Same, taken)
                made += [operand.tobytes() for operand in given if not is_fixed]
            first += count
        before, self._made = self._made, made
        if made and made != before:
            return None
        return layer.piece(x, filters, sources, wants, self._lasting)


def _is_among(one: Any, others: Sequence[Any]) -> bool:
    return any(one is other for other in others)


def _same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return all(map(operator.is_, some, others))


def _forward_cost(x: Array, filters: Array) -> float:
    pixels = x.size / max(x.shape[-1], 1) if x.ndim else 1
    return float(pixels * filters.size / _PRODUCTS)


def _filter_cost(x: Array, filter_sizes: Array, gradient: Array) -> float:
    window = float(np.prod(filter_sizes.reshape(-1)[:-1].astype(np.float64)))
    return gradient.size * window / _PRODUCTS


def _input_cost(input_sizes: Array, filters: Array, gradient: Array) -> float:
    width = max(filters.shape[-1], 1) if filters.ndim else 1
    return float(gradient.size * filters.size / width / _PRODUCTS)


@serves("Conv2D", types=OF_FLOAT32, heavy=_forward_cost)
def conv2d(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    return Convolution(WindowAttributes.of(node), otherwise)


class _GradientKernel:
    """The kernel of an op that takes a tensor, the sizes of the other, in some order, and the gradient."""

    def __init__(
        self,
        find: Callable[[Array, Array], InputGradient | FilterGradient | None],
        tensor: int,
        otherwise: Callable[..., Any],
    ) -> None:
        """
        find     what computes it, from the first two inputs
        tensor   which of these is the tensor
        """
        self._find = find
        self._tensor = tensor
        self._otherwise = otherwise

    def _layer(self, one: Array, other: Array, gradient: Array) -> InputGradient | FilterGradient | None:
        layer = self._find(one, other)
        return None if layer is None or gradient.shape != layer.expected else layer

    def __call__(self, one: Array, other: Array, gradient: Array) -> Any:
        layer = self._layer(one, other, gradient)
        if layer is None:
            return self._otherwise(one, other, gradient)
        return layer(dense_array(other if self._tensor else one), dense_array(gradient))

    def piece(self, one: Array, other: Array, gradient: Array) -> Piece | None:
        layer = self._layer(one, other, gradient)
        if layer is None or not (is_plain(other if self._tensor else one) and is_plain(gradient)):
            return None
        return layer.piece(one, other, gradient)


@serves("Conv2DBackpropInput", types=OF_FLOAT32, heavy=_input_cost)
def conv2d_backprop_input(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    return input_gradient_kernel(WindowAttributes.of(node), otherwise)


def input_gradient_kernel(sliding: WindowAttributes, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of an op that takes (sizes of the input, filters, gradient)."""

    def find(input_sizes: Array, filters: Array) -> InputGradient | None:
        sizes = tuple(integers(input_sizes, "input_sizes"))
        return input_gradient(sliding, sizes, filters.shape)

    return _GradientKernel(find, 1, otherwise)


@serves("Conv2DBackpropFilter", types=OF_FLOAT32, heavy=_filter_cost)
def conv2d_backprop_filter(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    return filter_gradient_kernel(WindowAttributes.of(node), otherwise)


def filter_gradient_kernel(sliding: WindowAttributes, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of an op that takes (input, sizes of the filters, gradient)."""

    def find(x: Array, filter_sizes: Array) -> FilterGradient | None:
        return filter_gradient(sliding, x.shape, tuple(integers(filter_sizes, "filter_sizes")))

    return _GradientKernel(find, 0, otherwise)
