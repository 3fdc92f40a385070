"""A convolution, and what is done to its result: which algorithm computes it, and how it is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import empty
from flowengine.kernels.common.pieces import FLOAT32, FixedMemory, Like, Piece, Same, Source, Want
from flowengine.kernels.onednn.layers.algorithms import (
    PATCHES_SHARE,
    PRODUCT_SHARE,
    Candidate,
    ConvolutionCase,
    cheapest,
    direct_cost,
    tiled_cost,
)
from flowengine.kernels.onednn.layers.conv_products import (
    ConvolutionProduct,
    as_product,
    is_few_rows,
    product_sizes,
)
from flowengine.kernels.onednn.layers.filters import (
    PackedConstants,
    PackedVariable,
    never_changes,
    reordering,
    shared,
)
from flowengine.kernels.onednn.layers.patch_products import as_patches, may_be_patches, suits
from flowengine.kernels.onednn.layers.post_ops import attached
from flowengine.kernels.onednn.layers.shapes import FORWARD, Layer, WindowAttributes, finish, readable
from flowengine.kernels.onednn.layers.winograd_programs import TiledForward
from flowengine.kernels.onednn.library import LibraryError, address
from flowengine.kernels.onednn.objects import (
    QUERY_DST,
    QUERY_SRC,
    QUERY_WEIGHTS,
    Description,
    Handle,
    attributes,
    dense,
)
from flowengine.kernels.onednn.programs.joint import JointProgram
from flowengine.kernels.onednn.programs.program import DST, SRC, WEIGHTS, PrimitiveProgram


@dataclass(frozen=True, slots=True)
class ForwardPrograms:
    """The programs that compute a convolution by primitives.

    packed           keeps constant filters in the primitive's order; None where they are in it
    program          takes the input, the filters, operands and the result
    packed_program   the same with filters that are in order
    """

    shape: tuple[int, ...]
    packed: PackedConstants | None
    program: PrimitiveProgram
    packed_program: PrimitiveProgram


def product_cost(case: ConvolutionCase) -> float | None:
    """Return the cost of a convolution that is a product of few rows; None if it is not."""
    sizes = product_sizes(case.sliding, case.x, case.w)
    return PRODUCT_SHARE if sizes is not None and is_few_rows(sizes[:3], case.constant) else None


def patches_cost(case: ConvolutionCase, of_filters: bool = False) -> float | None:
    """Return the cost of a convolution as a product of patches; None if it cannot be one."""
    if not may_be_patches(case.sliding, case.w):
        return None
    return PATCHES_SHARE if suits(case.layer, of_filters) else None


def product(case: ConvolutionCase) -> ConvolutionProduct | None:
    """The convolution as a product of few rows."""
    return as_product(case.sliding, case.x, case.w, case.forms, case.constant)


def patches(case: ConvolutionCase) -> ConvolutionProduct | None:
    """The convolution as a product of patches."""
    return as_patches(case.sliding, case.x, case.w, case.forms)


def _in_tiles(case: ConvolutionCase) -> ForwardPrograms | None:
    try:
        tiled = TiledForward(case.layer, case.tiles, case.forms, alone=case.alone)
    except LibraryError:
        return None
    return ForwardPrograms(case.layer.output, tiled.packed, tiled.program, tiled.packed_program)


def _direct(case: ConvolutionCase) -> ForwardPrograms:
    layer = case.layer
    library = layer.library
    channels = layer.output[1 if case.sliding.first else 3]
    channel, number = dense(library, (1, channels, 1, 1)), dense(library, (1, 1, 1, 1))
    after, operands = attached(case.forms, channel, number, layer.results)
    what = layer.forward(FORWARD, attributes(library, after))
    wanted = what.memory(QUERY_WEIGHTS)
    packed = None
    if not library.equal(wanted.value, layer.filters.value):
        packed = shared(library, layer.filters, wanted, reordering(layer.attributes))
    program = _run_of(PrimitiveProgram(library, case.alone), layer, what, layer.filters, operands)
    packed_program = _run_of(PrimitiveProgram(library, case.alone), layer, what, wanted, operands)
    return ForwardPrograms(layer.output, packed, program, packed_program)


def _run_of(
    program: PrimitiveProgram,
    layer: Layer,
    what: Description,
    given: Handle,
    operands: Sequence[tuple[int, Handle]],
) -> PrimitiveProgram:
    attrs = layer.attributes
    source = readable(program, layer.images, what.memory(QUERY_SRC), attrs)
    filters = readable(program, given, what.memory(QUERY_WEIGHTS), attrs)
    arguments = {SRC: source, WEIGHTS: filters}
    for argument, form in operands:
        arguments[argument] = program.outside(form)
    finish(program, what, arguments, DST, layer.results, what.memory(QUERY_DST), attrs)
    return program


FORWARD_CANDIDATES: Final[tuple[Candidate[ConvolutionProduct | ForwardPrograms], ...]] = (
    Candidate("product", product_cost, product),
    Candidate("patches", patches_cost, patches),
    Candidate("tiles", tiled_cost, _in_tiles),
    Candidate("direct", direct_cost, _direct),
)


class ConvolutionForward:
    """A convolution of these shapes, and what is done to its result: see `after`.

    shape   of the result
    """

    def __init__(
        self,
        sliding: WindowAttributes,
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
        case = ConvolutionCase(sliding, x, w, forms, constant, alone)
        made = cheapest(FORWARD_CANDIDATES, case)
        self._product = made if isinstance(made, ConvolutionProduct) else None
        self._packed: PackedConstants | None = None
        if isinstance(made, ConvolutionProduct):
            self.shape = made.output
            return
        self.shape, self._packed = made.shape, made.packed
        self._program, self._packed_program = made.program, made.packed_program

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
        lasting: PackedVariable | None = None,
    ) -> Piece | None:
        """See `pieces`; `operands` and `wants` are those of what follows.

        None as long as it is not known whether a variable's filters will be packed.
        """
        if self._product is not None:
            return self._product.piece(x, w, operands, wants)
        packed: FixedMemory | None = None
        if self._packed is not None and lasting is not None:
            held = lasting.held(w, self._packed)
            if held is not None:
                packed = FixedMemory(held[1], held[0])
            elif not lasting.is_restless:
                return None
        elif self._packed is not None:
            where = self._packed.find(w)
            packed = None if where is None else FixedMemory(where, (self._packed, w))
        filters: Source = 1 if packed is None else packed
        program = self._program if packed is None else self._packed_program
        return Piece(
            ((program, (0, filters, *operands, ~0)),),
            # What computes constant filters may compute others by another product.
            (Like.of(x), Like.of(w) if packed is None and not never_changes(w) else Same(w), *wants),
            (Like(self.shape, FLOAT32),),
            JointProgram,
        )

    def __call__(self, x: Array, w: Array, *operands: Array, lasting: PackedVariable | None = None) -> Array:
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
