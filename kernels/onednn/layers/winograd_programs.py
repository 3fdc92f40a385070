"""Programs of convolutions in tiles of rows (see `winograd`): they take the addresses that others would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flowengine.core.buffers import STAGGER
from flowengine.kernels.onednn.layers.filters import PackedConstants, shared
from flowengine.kernels.onednn.layers.post_ops import attached
from flowengine.kernels.onednn.layers.shapes import FORWARD, Layer
from flowengine.kernels.onednn.layers.winograd import (
    BLOCK_BYTES,
    LARGE_BLOCK_BYTES,
    PRODUCTS,
    Tiles,
    add_products,
    blocks,
    cross,
    gather,
    interleave,
    mix_filters,
    one_row,
    spread,
    spread_result,
    unmix_filters,
)
from flowengine.kernels.onednn.objects import (
    QUERY_DIFF_WEIGHTS,
    QUERY_WEIGHTS,
    After,
    Description,
    Handle,
    attributes,
    dense,
)
from flowengine.kernels.onednn.programs.program import (
    DIFF_DST,
    DIFF_SRC,
    DIFF_WEIGHTS,
    DST,
    SRC,
    WEIGHTS,
    PrimitiveProgram,
    padded,
)

#: Bytes of a float32.
_SIZE: Final = 4
#: What has a primitive add to what lies where its result goes.
_ADDED: Final[After] = ("sum", 1.0, 0, 0)


class _Filters:
    """Four rows made of the three of filters, as primitives take them, one after another.

    wanted   the order of each
    places   where the three rows are put before the four are made
    """

    def __init__(self, layer: Layer, row: Layer, wanted: Handle, places: Sequence[int]) -> None:
        self._library = library = layer.library
        self._whole, self._row, self.wanted, self._places = layer.filters, row, wanted, places
        self._bytes = library.size_of(wanted.value)
        self._slot = padded(self._bytes)
        self._skipped = _row_bytes(row)

    @property
    def bytes(self) -> int:
        return PRODUCTS * self._slot

    def made(self, program: PrimitiveProgram) -> int:
        """Have the program make the filters from those at its next outside address; return their memory."""
        given, made = program.outside(self._whole), program.room(self.wanted, self.bytes)
        self._mix(program, given, made)
        return made

    def each(self, program: PrimitiveProgram, made: int) -> list[int]:
        """The memories of the four."""
        return [program.within(made, self.wanted, k * self._slot) for k in range(PRODUCTS)]

    def packed(self) -> PackedConstants:
        """Return the `PackedConstants` that holds filters that never change."""
        return shared(self._library, self._whole, self.wanted, self._mix, self.bytes)

    def _mix(self, program: PrimitiveProgram, given: int, made: int) -> None:
        row, each = self._row, self.each(program, made)
        for number, place in enumerate(self._places):
            taken = program.within(given, row.filters, number * self._skipped)
            program.reorder(taken, each[place], row.attributes)
        seen = program.within(made, (PRODUCTS, self._slot // _SIZE))
        program.by_numpy(mix_filters(self._bytes // _SIZE), [seen])


class TiledForward:
    """A convolution in tiles of rows.

    program         takes the input, the filters, operands and the result
    packed          makes filters ready that never change; and what takes those:
    packed_program
    """

    def __init__(self, layer: Layer, tiles: Tiles, forms: Sequence[str], *, alone: bool) -> None:
        """LibraryError where a part of it has no good implementation."""
        self._layer, self._tiles = layer, tiles
        # The library does what follows the result until an operand is as large, whose rows are elsewhere.
        whole = next((n for n, form in enumerate(forms) if form.endswith("whole")), len(forms))
        self._forms, self._forms_left = tuple(forms[:whole]), tuple(forms[whole:])
        self._blocks = blocks(layer.input[0], tiles.count, _row_of_tiles(layer), BLOCK_BYTES)
        self._rows = {shape: one_row(layer, shape) for shape in {block.shape for block in self._blocks}}
        first = self._rows[self._blocks[0].shape]
        wanted = self._described(first, first.any_filters).memory(QUERY_WEIGHTS)
        self._filters = _Filters(layer, first, wanted, (0, 1, 3))
        #: Of each shape, what computes a product, and what adds one and does what follows.
        self._each = {
            shape: (self._described(row, wanted), self._described(row, wanted, is_last=True))
            for shape, row in self._rows.items()
        }
        self.packed = self._filters.packed()
        self.program = self._made(PrimitiveProgram(layer.library, alone), is_packed=False)
        self.packed_program = self._made(PrimitiveProgram(layer.library, alone), is_packed=True)

    def _described(self, row: Layer, filters: Handle, is_last: bool = False) -> Description:
        attrs = attributes(row.library, self._after()[0]) if is_last else row.attributes
        return row.forward(FORWARD, attrs, filters)

    def _after(self) -> tuple[list[After], list[tuple[int, Handle]]]:
        library = self._layer.library
        channels = self._layer.output[3]
        channel, number = dense(library, (1, channels, 1, 1)), dense(library, (1, 1, 1, 1))
        return attached(self._forms, channel, number, self._layer.results, (_ADDED,))

    def _made(self, program: PrimitiveProgram, is_packed: bool) -> PrimitiveProgram:
        layer, filters = self._layer, self._filters
        source = program.numbers(layer.input)
        made = program.outside(filters.wanted) if is_packed else filters.made(program)
        u = filters.each(program, made)
        operands = {number: program.outside(form) for number, form in self._after()[1]}
        reaches = {"channel": layer.output[3:], "whole": layer.output}
        left = [program.numbers(reaches.get(form.split()[-1], (1,))) for form in self._forms_left]
        result = program.numbers(layer.output)
        first = self._rows[self._blocks[0].shape]
        spreads, products = _rooms(program, first.images), _rooms(program, first.results)
        for block in self._blocks:
            row = self._rows[block.shape]
            product, adding = self._each[block.shape]
            v = [program.within(memory, row.images) for memory in spreads]
            m = [program.within(memory, row.results) for memory in products]
            m0, m1, m2, m3 = _seen(program, products, row.output)
            program.by_numpy(spread(self._tiles, block), [source, *_seen(program, spreads, row.input)])
            for k in (1, 2):
                program.step(product, {SRC: v[k], WEIGHTS: u[k], DST: m[k]})
            program.by_numpy(cross, [m1, m2, m0, m3])
            for k in (0, 3):
                program.step(adding, {SRC: v[k], WEIGHTS: u[k], DST: m[k], **operands})
            program.by_numpy(interleave(self._tiles, block, self._forms_left), [m0, m3, *left, result])
        return program


def input_gradient(layer: Layer, tiles: Tiles, *, alone: bool) -> PrimitiveProgram:
    """The gradient of the input: takes the result's, the filters and where it is put.

    LibraryError where a part of it has no good implementation.
    """
    library = layer.library
    program = PrimitiveProgram(library, alone)
    tiles = tiles.reversed()
    parts = blocks(layer.input[0], tiles.count, _row_of_tiles(layer), BLOCK_BYTES)
    rows = {shape: one_row(layer, shape) for shape in {block.shape for block in parts}}
    first = rows[parts[0].shape]
    wanted = first.input_gradient().memory(QUERY_WEIGHTS)
    each = {shape: row.input_gradient(wanted) for shape, row in rows.items()}
    filters = _Filters(layer, first, wanted, (3, 1, 0))
    source = program.numbers(layer.output)
    u = filters.each(program, filters.made(program))
    result = program.numbers(layer.input)
    spreads, products = _rooms(program, first.results), _rooms(program, first.images)
    for block in parts:
        row = rows[block.shape]
        program.by_numpy(spread(tiles, block), [source, *_seen(program, spreads, row.output)])
        for k in range(PRODUCTS):
            given = program.within(spreads[k], row.results)
            product = program.within(products[k], row.images)
            program.step(each[block.shape], {DIFF_DST: given, WEIGHTS: u[k], DIFF_SRC: product})
        program.by_numpy(gather(tiles, block), [*_seen(program, products, row.input), result])
    return program


def filter_gradient(layer: Layer, tiles: Tiles, *, alone: bool) -> PrimitiveProgram:
    """The gradient of the filters: takes the input, the result's gradient and where it is put.

    LibraryError where a part of it has no good implementation.
    """
    library = layer.library
    program = PrimitiveProgram(library, alone)
    source, gradient = program.numbers(layer.input), program.numbers(layer.output)
    out = program.outside(layer.filters)
    parts = blocks(layer.input[0], tiles.count, _row_of_tiles(layer), LARGE_BLOCK_BYTES)
    rows = {shape: one_row(layer, shape) for shape in {block.shape for block in parts}}
    first = rows[parts[0].shape]
    wanted = first.filter_gradient().memory(QUERY_DIFF_WEIGHTS)
    each = {shape: row.filter_gradient(wanted) for shape, row in rows.items()}
    size = library.size_of(wanted.value)
    slot = padded(size)
    total = program.room(wanted, PRODUCTS * slot)
    totals = [program.within(total, wanted, k * slot) for k in range(PRODUCTS)]
    more = program.inside(wanted) if len(parts) > 1 else total
    spreads, spread_results = _rooms(program, first.images), _rooms(program, first.results)
    for number, block in enumerate(parts):
        row = rows[block.shape]
        program.by_numpy(spread(tiles, block), [source, *_seen(program, spreads, row.input)])
        program.by_numpy(spread_result(tiles, block), [gradient, *_seen(program, spread_results, row.output)])
        for k in range(PRODUCTS):
            given = {
                SRC: program.within(spreads[k], row.images),
                DIFF_DST: program.within(spread_results[k], row.results),
                DIFF_WEIGHTS: more if number else totals[k],
            }
            program.step(each[block.shape], given)
            if number:
                program.by_numpy(add_products, _seen(program, (totals[k], more), (size // _SIZE,)))
    program.by_numpy(unmix_filters(size // _SIZE), _seen(program, (total,), (PRODUCTS, slot // _SIZE)))
    for k in range(PRODUCTS - 1):
        made = program.within(out, first.filters, k * _row_bytes(first))
        program.reorder(totals[k], made, first.attributes)
    return program


def _row_of_tiles(layer: Layer) -> int:
    """Bytes of what is made of a row of tiles, of the input's and of the result's."""
    return _SIZE * PRODUCTS * (layer.input[2] * layer.input[3] + layer.output[2] * layer.output[3])


def _row_bytes(row: Layer) -> int:
    _, wide, inward, outward = row.filter_shape
    return _SIZE * wide * inward * outward


def _rooms(program: PrimitiveProgram, form: Handle) -> list[int]:
    """Four memories of this form, which do not begin at one place of their pages."""
    size = program.library.size_of(form.value) + STAGGER
    return [program.room(form, size) for _ in range(PRODUCTS)]


def _seen(program: PrimitiveProgram, memories: Sequence[int], shape: tuple[int, ...]) -> list[int]:
    """Memories for NumPy, of this shape."""
    return [program.within(memory, shape) for memory in memories]
