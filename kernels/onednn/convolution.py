"""Conv2D and its two gradients: NHWC and NCHW, strides, dilations, any padding, groups.

Images stay in the layout of the graph; filters, which are small, are brought into the order that the
primitive prefers at each call, or once for filters that never change, or have not for a while.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import empty
from flowengine.ir.graph import Node
from flowengine.kernels.common.pieces import FLOAT32, Fixed, Like, Piece, Same, Sizes, Source, Want, is_plain
from flowengine.kernels.common.windows import Windows, spatial
from flowengine.kernels.nn import conv_planes
from flowengine.kernels.numpy.fused import Follower
from flowengine.kernels.onednn.layers.absorbing import Taken, absorbed, fits, forms_of, operands_of
from flowengine.kernels.onednn.layers.after import ZERO, attached
from flowengine.kernels.onednn.layers.conv_products import as_product
from flowengine.kernels.onednn.layers.filter_products import filter_product
from flowengine.kernels.onednn.layers.filters import Lasting, Packed, never_changes, reordering, shared
from flowengine.kernels.onednn.layers.first_layers import BlockGradient, block_gradient
from flowengine.kernels.onednn.layers.patch_products import as_patches
from flowengine.kernels.onednn.layers.shapes import FORWARD, Layer, Sliding, finish, readable
from flowengine.kernels.onednn.layers.winograd import Tiles, tiles_of
from flowengine.kernels.onednn.layers.winograd_programs import TiledForward
from flowengine.kernels.onednn.layers.winograd_programs import filter_gradient as tiled_filter_gradient
from flowengine.kernels.onednn.layers.winograd_programs import input_gradient as tiled_input_gradient
from flowengine.kernels.onednn.library import LibraryError, address, library
from flowengine.kernels.onednn.objects import (
    QUERY_DIFF_DST,
    QUERY_DIFF_SRC,
    QUERY_DIFF_WEIGHTS,
    QUERY_DST,
    QUERY_SRC,
    QUERY_WEIGHTS,
    Description,
    Handle,
    attributes,
    dense,
)
from flowengine.kernels.onednn.programs.joint import JointProgram
from flowengine.kernels.onednn.programs.matrix_product import product_alone
from flowengine.kernels.onednn.programs.program import (
    DIFF_DST,
    DIFF_SRC,
    DIFF_WEIGHTS,
    DST,
    LAYER_ALONE_MICROSECONDS,
    SRC,
    WEIGHTS,
    Program,
    dense_array,
    prepared,
)
from flowengine.kernels.onednn.serving import FLOAT32 as OF_FLOAT32
from flowengine.kernels.onednn.serving import serves

Result = TypeVar("Result")

#: Multiplications and additions of one core in a microsecond; of depthwise ones, which are memory-bound.
_PRODUCTS: Final = 70_000.0
_DEPTHWISE_PRODUCTS: Final = 20_000.0


def _in_tiles(
    sliding: Sliding, layer: Layer, make: Callable[[Tiles], Result], constant: bool = False
) -> Result | None:
    """What is made of a convolution in tiles of rows, where that takes less time."""
    tiles = tiles_of(sliding, layer, layer.library.threads(), constant)
    try:
        return None if tiles is None else make(tiles)
    except LibraryError:
        return None


class Forward:
    """A convolution of these shapes, and what is done to its result: see `after`.

    shape   of the result
    """

    def __init__(
        self,
        sliding: Sliding,
        x: tuple[int, ...],
        w: tuple[int, ...],
        forms: tuple[str, ...] = (),
        constant: bool = False,
        *,
        alone: bool,
    ) -> None:
        """
        constant   whether the filters never change: they are kept in order
        """
        self._packed: Packed | None = None
        self._product = as_product(sliding, x, w, forms, constant) or as_patches(sliding, x, w, forms)
        if self._product is not None:
            self.shape = self._product.output
            return
        layer = Layer(sliding, x, w)
        library = layer.library
        tiled = _in_tiles(
            sliding, layer, lambda tiles: TiledForward(layer, tiles, forms, alone=alone), constant
        )
        if tiled is not None:
            self.shape, self._packed = layer.output, tiled.packed
            self._program, self._packed_program = tiled.program, tiled.packed_program
            return
        channels = layer.output[1 if sliding.first else 3]
        channel, number = dense(library, (1, channels, 1, 1)), dense(library, (1, 1, 1, 1))
        after, operands = attached(forms, channel, number, layer.results)
        attrs = attributes(library, after)
        what = layer.forward(FORWARD, attrs)
        self.shape = layer.output
        wanted = what.memory(QUERY_WEIGHTS)
        if not library.equal(wanted.value, layer.filters.value):
            self._packed = shared(library, layer.filters, wanted, reordering(layer.attributes))
        self._program = self._run_of(Program(library, alone), layer, what, layer.filters, operands)
        self._packed_program = self._run_of(Program(library, alone), layer, what, wanted, operands)

    @staticmethod
    def _run_of(
        program: Program,
        layer: Layer,
        what: Description,
        given: Handle,
        operands: Sequence[tuple[int, Handle]],
    ) -> Program:
        attrs = layer.attributes
        source = readable(program, layer.images, what.memory(QUERY_SRC), attrs)
        filters = readable(program, given, what.memory(QUERY_WEIGHTS), attrs)
        arguments = {SRC: source, WEIGHTS: filters}
        for argument, form in operands:
            arguments[argument] = program.outside(form)
        finish(program, what, arguments, DST, layer.results, what.memory(QUERY_DST), attrs)
        return program

    def kept(self) -> int:
        """How many constant filters are kept in the primitive's order."""
        return 0 if self._packed is None else len(self._packed)

    def settled(self, w: Array, operands: Sequence[Array]) -> Callable[[Array], Array]:
        """The convolution by filters and operands that never change: a call gives its input alone."""
        packed = self._packed.find(w) if self._packed is not None and self._product is None else None
        if packed is None:
            return lambda x: self(x, w, *operands)
        program, shape = self._packed_program, self.shape
        known = (packed, *map(address, operands))
        owners = (self._packed, w, operands)  # of what lies at these addresses

        def compute(x: Array, _: Any = owners) -> Array:
            out: Array = empty(shape, np.float32)
            program(address(x), *known, address(out))
            return out

        return compute

    def piece(
        self,
        x: Array,
        w: Array,
        operands: Sequence[Source],
        wants: Sequence[Want],
        lasting: Lasting | None = None,
    ) -> Piece | None:
        """See `pieces`; `operands` and `wants` are those of what follows.

        None as long as it is not known whether a variable's filters will be packed.
        """
        if self._product is not None:
            return self._product.piece(x, w, operands, wants)
        packed: Fixed | None = None
        if self._packed is not None and lasting is not None:
            held = lasting.held(w, self._packed)
            if held is not None:
                packed = Fixed(held[1], held[0])
            elif not lasting.is_restless:
                return None
        elif self._packed is not None:
            where = self._packed.find(w)
            packed = None if where is None else Fixed(where, (self._packed, w))
        filters: Source = 1 if packed is None else packed
        program = self._program if packed is None else self._packed_program
        return Piece(
            ((program, (0, filters, *operands, ~0)),),
            # What computes constant filters may compute others by another product.
            (Like.of(x), Like.of(w) if packed is None and not never_changes(w) else Same(w), *wants),
            (Like(self.shape, FLOAT32),),
            JointProgram,
        )

    def __call__(self, x: Array, w: Array, *operands: Array, lasting: Lasting | None = None) -> Array:
        """The result; `lasting` knows the filters if a variable holds them."""
        if self._product is not None:
            return self._product.forward(x, w, *operands)
        out: Array = empty(self.shape, np.float32)
        packed = None
        if self._packed is not None:
            packed = self._packed.find(w) if lasting is None else lasting.find(w, self._packed)
        if packed is None:
            self._program(address(x), address(w), *map(address, operands), address(out))
        else:
            self._packed_program(address(x), packed, *map(address, operands), address(out))
        return out


class InputGradient:
    """The gradient of a convolution's input."""

    def __init__(self, sliding: Sliding, x: tuple[int, ...], w: tuple[int, ...], *, alone: bool) -> None:
        self._planes: Windows | None = None
        self._blocks: BlockGradient | None = None
        self._product = as_product(sliding, x, w) or as_patches(sliding, x, w)
        if self._product is not None:
            self.expected = self._product.output
            return
        layer = Layer(sliding, x, w)
        planes = not sliding.first and not sliding.depthwise and conv_planes.serves(layer.geometry, w[2])
        if not sliding.depthwise:
            self._blocks = block_gradient(layer, sliding.first, planes, alone=alone)
        if planes:
            self.expected, self._planes = layer.output, layer.geometry
            return
        library = layer.library
        self.shape, self.expected = x, layer.output
        in_tiles = _in_tiles(sliding, layer, lambda tiles: tiled_input_gradient(layer, tiles, alone=alone))
        if in_tiles is not None:
            self._program = in_tiles
            return
        what = layer.input_gradient()
        attrs = layer.attributes
        self._program = program = Program(library, alone)
        upstream = readable(program, layer.results, what.memory(QUERY_DIFF_DST), attrs)
        filters = readable(program, layer.filters, what.memory(QUERY_WEIGHTS), attrs)
        produced = what.memory(QUERY_DIFF_SRC)
        finish(program, what, {DIFF_DST: upstream, WEIGHTS: filters}, DIFF_SRC, layer.images, produced, attrs)

    def piece(self, sizes: Array, w: Array, gradient: Array) -> Piece | None:
        """See `pieces`; `sizes` are those of the input."""
        if self._product is not None or self._blocks is not None or self._planes is not None:
            return None
        return Piece(
            ((self._program, (2, 1, ~0)),),
            (Sizes.of(sizes), Like.of(w), Like.of(gradient)),
            (Like(self.shape, FLOAT32),),
            JointProgram,
        )

    def __call__(self, w: Array, gradient: Array) -> Array:
        if self._product is not None:
            return self._product.input_gradient(w, gradient)
        in_blocks = self._blocks(w, gradient) if self._blocks is not None else None
        if in_blocks is not None:
            return in_blocks
        if self._planes is not None:
            return conv_planes.input_gradient(w, gradient, self._planes, _multiply_alone)
        out: Array = empty(self.shape, np.float32)
        self._program(address(gradient), address(w), address(out))
        return out


def _multiply_alone(a: Array, b: Array, out: Array) -> None:
    """out = a b^T on this thread."""
    layer = product_alone(len(a), a.shape[1], len(b), False, True)
    if layer is None:
        np.dot(a, b.T, out=out)
    else:
        layer(a, b, out)


class FilterGradient:
    """The gradient of a convolution's filters."""

    def __init__(self, sliding: Sliding, x: tuple[int, ...], w: tuple[int, ...], *, alone: bool) -> None:
        self._product = as_product(sliding, x, w) or as_patches(sliding, x, w, of_filters=True)
        if self._product is not None:
            self.expected = self._product.output
            return
        layer = Layer(sliding, x, w)
        library = layer.library
        self.shape, self.expected = w, layer.output
        of_matrices = filter_product(sliding, x, w, alone)
        if of_matrices is not None:
            self._program = of_matrices
            return
        in_tiles = _in_tiles(sliding, layer, lambda tiles: tiled_filter_gradient(layer, tiles, alone=alone))
        if in_tiles is not None:
            self._program = in_tiles
            return
        what = layer.filter_gradient()
        attrs = layer.attributes
        self._program = program = Program(library, alone)
        source = readable(program, layer.images, what.memory(QUERY_SRC), attrs)
        upstream = readable(program, layer.results, what.memory(QUERY_DIFF_DST), attrs)
        produced = what.memory(QUERY_DIFF_WEIGHTS)
        finish(program, what, {SRC: source, DIFF_DST: upstream}, DIFF_WEIGHTS, layer.filters, produced, attrs)

    def piece(self, x: Array, sizes: Array, gradient: Array) -> Piece | None:
        """See `pieces`; `sizes` are those of the filters."""
        if self._product is not None:
            return None
        return Piece(
            ((self._program, (0, 2, ~0)),),
            (Like.of(x), Sizes.of(sizes), Like.of(gradient)),
            (Like(self.shape, FLOAT32),),
            JointProgram,
        )

    def __call__(self, x: Array, gradient: Array) -> Array:
        if self._product is not None:
            return self._product.filter_gradient(x, gradient)
        out: Array = empty(self.shape, np.float32)
        self._program(address(x), address(gradient), address(out))
        return out


def _work(sliding: Sliding, x: tuple[int, ...], w: tuple[int, ...], *_: Any) -> float:
    pixels = math.prod(x) / max(1, math.prod(spatial(sliding.strides, sliding.first)))
    if sliding.depthwise:
        return pixels * math.prod(w[:2]) * w[-1] / _DEPTHWISE_PRODUCTS
    return pixels / max(x[1 if sliding.first else -1], 1) * math.prod(w) / _PRODUCTS


forward: Final = prepared(Forward, _work, LAYER_ALONE_MICROSECONDS)
input_gradient: Final = prepared(InputGradient, _work, LAYER_ALONE_MICROSECONDS)
filter_gradient: Final = prepared(FilterGradient, _work, LAYER_ALONE_MICROSECONDS)


class Convolution:
    """The kernel of a convolution's node, which may compute what follows it as well."""

    def __init__(self, sliding: Sliding, otherwise: Callable[..., Any]) -> None:
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
        """See `fused.Absorbing`."""
        taken = absorbed(followers, self._sliding.first)
        if not taken:
            return None
        return len(taken), Followed(self._sliding, taken, Lasting() if 1 in variables else None)

    def piece(self, x: Array, filters: Array) -> Piece | None:
        """See `pieces`."""
        if not (is_plain(x) and is_plain(filters)):
            return None
        layer = forward(self._sliding, x.shape, filters.shape, (), never_changes(filters))
        return None if layer is None else layer.piece(x, filters, (), ())


class Followed:
    """A convolution and what follows it as one kernel; None is what it gives where they are not one."""

    def __init__(self, sliding: Sliding, taken: Sequence[Taken], lasting: Lasting | None) -> None:
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
    ) -> tuple[Forward, Sequence[Array]] | None:
        """What computes it, and its operands."""
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
        many runs ago. Who refers to what a variable holds keeps it as it is.
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
                sources += [Fixed(address(ZERO), ZERO) if each is ZERO else next(places) for each in given]
                wants += map(Like.of, taken)
            else:
                sources += [Fixed(address(operand), operand) for operand in given]
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
    return Convolution(Sliding.of(node), otherwise)


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
    return input_gradient_kernel(Sliding.of(node), otherwise)


def input_gradient_kernel(sliding: Sliding, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of an op that takes (sizes of the input, filters, gradient)."""

    def find(input_sizes: Array, filters: Array) -> InputGradient | None:
        return input_gradient(sliding, tuple(input_sizes.tolist()), filters.shape)

    return _GradientKernel(find, 1, otherwise)


@serves("Conv2DBackpropFilter", types=OF_FLOAT32, heavy=_filter_cost)
def conv2d_backprop_filter(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    return filter_gradient_kernel(Sliding.of(node), otherwise)


def filter_gradient_kernel(sliding: Sliding, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of an op that takes (input, sizes of the filters, gradient)."""

    def find(x: Array, filter_sizes: Array) -> FilterGradient | None:
        return filter_gradient(sliding, x.shape, tuple(filter_sizes.tolist()))

    return _GradientKernel(find, 0, otherwise)
