"""The two gradients of a convolution: which algorithm computes each, and how it is called."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import empty
from flowengine.kernels.common.pieces import FLOAT32, Like, Piece, Sizes
from flowengine.kernels.common.windows import Windows
from flowengine.kernels.numpy import conv_planes
from flowengine.kernels.onednn.layers.algorithms import (
    FILTER_PRODUCT_SHARE,
    PLANES_SHARE,
    Candidate,
    ConvolutionCase,
    cheapest,
    direct_cost,
    tiled_cost,
)
from flowengine.kernels.onednn.layers.conv_products import ConvolutionProduct
from flowengine.kernels.onednn.layers.filter_products import filter_product, may_be_product
from flowengine.kernels.onednn.layers.first_layers import BlockGradient, block_gradient
from flowengine.kernels.onednn.layers.forward import patches, patches_cost, product, product_cost
from flowengine.kernels.onednn.layers.patch_products import as_patches
from flowengine.kernels.onednn.layers.shapes import WindowAttributes, finish, readable
from flowengine.kernels.onednn.layers.winograd_programs import filter_gradient as tiled_filter_gradient
from flowengine.kernels.onednn.layers.winograd_programs import input_gradient as tiled_input_gradient
from flowengine.kernels.onednn.library import LibraryError, address
from flowengine.kernels.onednn.objects import (
    QUERY_DIFF_DST,
    QUERY_DIFF_SRC,
    QUERY_DIFF_WEIGHTS,
    QUERY_SRC,
    QUERY_WEIGHTS,
)
from flowengine.kernels.onednn.programs.joint import JointProgram
from flowengine.kernels.onednn.programs.matrix_product import product_alone
from flowengine.kernels.onednn.programs.program import (
    DIFF_DST,
    DIFF_SRC,
    DIFF_WEIGHTS,
    SRC,
    WEIGHTS,
    PrimitiveProgram,
)


def _planes_cost(case: ConvolutionCase) -> float | None:
    sliding = case.sliding
    # Planes are gathered of images whose channels come last, and of all channels by each filter.
    if sliding.first or sliding.depthwise or case.layer.is_grouped:
        return None
    if not conv_planes.serves(case.layer.geometry, case.w[2]):
        return None
    return PLANES_SHARE


def _planes(case: ConvolutionCase) -> Windows:
    return case.layer.geometry


def _input_in_tiles(case: ConvolutionCase) -> PrimitiveProgram | None:
    try:
        return tiled_input_gradient(case.layer, case.tiles, alone=case.alone)
    except LibraryError:
        return None


def _input_direct(case: ConvolutionCase) -> PrimitiveProgram:
    layer = case.layer
    what, attrs = layer.input_gradient(), layer.attributes
    program = PrimitiveProgram(layer.library, case.alone)
    upstream = readable(program, layer.results, what.memory(QUERY_DIFF_DST), attrs)
    filters = readable(program, layer.filters, what.memory(QUERY_WEIGHTS), attrs)
    produced = what.memory(QUERY_DIFF_SRC)
    finish(program, what, {DIFF_DST: upstream, WEIGHTS: filters}, DIFF_SRC, layer.images, produced, attrs)
    return program


def _filter_product_cost(case: ConvolutionCase) -> float | None:
    return FILTER_PRODUCT_SHARE if may_be_product(case.sliding, case.x, case.w) else None


def _filter_product(case: ConvolutionCase) -> PrimitiveProgram | None:
    return filter_product(case.sliding, case.x, case.w, case.alone)


def _filters_of_patches(case: ConvolutionCase) -> ConvolutionProduct | None:
    return as_patches(case.sliding, case.x, case.w, of_filters=True)


def _filters_in_tiles(case: ConvolutionCase) -> PrimitiveProgram | None:
    try:
        return tiled_filter_gradient(case.layer, case.tiles, alone=case.alone)
    except LibraryError:
        return None


def _filters_direct(case: ConvolutionCase) -> PrimitiveProgram:
    layer = case.layer
    what, attrs = layer.filter_gradient(), layer.attributes
    program = PrimitiveProgram(layer.library, case.alone)
    source = readable(program, layer.images, what.memory(QUERY_SRC), attrs)
    upstream = readable(program, layer.results, what.memory(QUERY_DIFF_DST), attrs)
    produced = what.memory(QUERY_DIFF_WEIGHTS)
    finish(program, what, {SRC: source, DIFF_DST: upstream}, DIFF_WEIGHTS, layer.filters, produced, attrs)
    return program


INPUT_CANDIDATES: Final[tuple[Candidate[ConvolutionProduct | PrimitiveProgram | Windows], ...]] = (
    Candidate("product", product_cost, product),
    Candidate("patches", patches_cost, patches),
    Candidate("planes", _planes_cost, _planes),
    Candidate("tiles", tiled_cost, _input_in_tiles),
    Candidate("direct", direct_cost, _input_direct),
)
FILTER_CANDIDATES: Final[tuple[Candidate[ConvolutionProduct | PrimitiveProgram], ...]] = (
    Candidate("product", product_cost, product),
    Candidate("patches", partial(patches_cost, of_filters=True), _filters_of_patches),
    Candidate("filter product", _filter_product_cost, _filter_product),
    Candidate("tiles", tiled_cost, _filters_in_tiles),
    Candidate("direct", direct_cost, _filters_direct),
)


class InputGradient:
    """The gradient of a convolution's input."""

    def __init__(
        self, sliding: WindowAttributes, x: tuple[int, ...], w: tuple[int, ...], *, alone: bool
    ) -> None:
        case = ConvolutionCase(sliding, x, w, alone=alone)
        made = cheapest(INPUT_CANDIDATES, case)
        self._product = made if isinstance(made, ConvolutionProduct) else None
        self._planes = made if isinstance(made, Windows) else None
        #: Before all but products: what is not finite has to be computed by the others again.
        self._blocks: BlockGradient | None = None
        if isinstance(made, ConvolutionProduct):
            self.expected = made.output
            return
        self.shape, self.expected = x, case.layer.output
        if not sliding.depthwise:
            self._blocks = block_gradient(case.layer, sliding.first, self._planes is not None, alone=alone)
        if isinstance(made, PrimitiveProgram):
            self._program = made

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

    def __init__(
        self, sliding: WindowAttributes, x: tuple[int, ...], w: tuple[int, ...], *, alone: bool
    ) -> None:
        case = ConvolutionCase(sliding, x, w, alone=alone)
        made = cheapest(FILTER_CANDIDATES, case)
        self._product = made if isinstance(made, ConvolutionProduct) else None
        if isinstance(made, ConvolutionProduct):
            self.expected = made.output
            return
        self.shape, self.expected = w, case.layer.output
        self._program = made

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
