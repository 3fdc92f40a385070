"""Products of a large matrix and few rows or columns, which read the large one as it lies.

They cost what it costs to pass that matrix through memory. The library's own product walks through it a few
columns at a time, from row to row, so that each line it touches is in another page, and for widths near a
power of two in the same sets of the cache: for 8 rows and 25088 x 4096 the gradient of the matrix took 158 ms
and the product 68. In blocks of rows, which lie in one piece, the gradient takes 58.

As a factor the large matrix is that of an inner product, whose routine for few rows brings nothing into
another order: 19 ms where the product takes 45, and half as much for matrices that a cache holds.

Work is spread over the cores. What is added is divided in the same way whatever the number of cores is, so
that no bit depends on it; where the large matrix is the result, each element is the sum that it was.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import aligned
from flowengine.kernels.common.parallel import slices, spread
from flowengine.kernels.onednn.library import address
from flowengine.kernels.onednn.objects import Description, attributes, dense, strided
from flowengine.kernels.onednn.programs.matrix_product import product_alone
from flowengine.kernels.onednn.programs.preparing import prepared, required
from flowengine.kernels.onednn.programs.program import DST, SRC, WEIGHTS, one_step

_INFERENCE: Final = 96
#: Rows of the large matrix in a block.
BLOCK: Final = 32
#: Blocks that a thread takes at a time.
_BLOCKS: Final = 8
#: With longer sums than these, or in narrower results or with fewer elements, the library's own product is as
#: quick for a large result;
_TERMS_MAX: Final = 32
_WIDE: Final = 2048
_LARGE: Final = 1 << 21
#: with more rows, shorter sums, fewer columns or elements, for a large factor.
_ROWS_MAX: Final = 64
_TERMS_MIN: Final = 256
_COLUMNS_MIN: Final = 512
_LARGE_FACTOR: Final = 1 << 18
#: Parts of a sum that are taken apart, at most, and elements of the large factor from which there is another.
_PARTS: Final = 8
_PART: Final = 1 << 20

_float32: Final = np.dtype(np.float32)


class _ThinPart:
    """(M, K) by (K, N), C-contiguous, on the calling thread, the second matrix read as it lies.

    The routine is a relative of `dnnl_sgemm`, see `matrix_product`, but was seen to keep within its
    memory: 2,800 calls of 1 to 64 rows, with pages that may not be touched behind all that the library
    allocates and behind the result (3.2.0; AVX2 and AVX-512, one thread and two), wrote nothing beyond.
    """

    def __init__(self, rows: int, inner: int, columns: int, *, alone: bool) -> None:
        found = required()
        one, result = dense(found, (rows, inner)), dense(found, (rows, columns))
        # (outputs, inputs) to the library, in memory inputs first.
        other = strided(found, (columns, inner), (1, columns))
        attrs = attributes(found)
        what = Description(
            *(found, "inner_product_forward", found.engine, _INFERENCE),
            *(one.value, other.value, None, result.value, attrs.value),
        )
        self._program = one_step(what, alone, {SRC: one, WEIGHTS: other, DST: result})

    def __call__(self, a: Array, b: Array, out: Array) -> None:
        self._program(address(a), address(b), address(out))


_part: Final = prepared(_ThinPart, lambda *sizes: 0.0)


def gives_large(rows: int, inner: int, columns: int) -> bool:
    """Whether the result is the large matrix."""
    return rows >= BLOCK and inner <= _TERMS_MAX and columns >= _WIDE and rows * columns >= _LARGE


def takes_large(rows: int, inner: int, columns: int) -> bool:
    """Whether what few rows are multiplied by is the large matrix."""
    return (
        rows <= _ROWS_MAX
        and inner >= _TERMS_MIN
        and columns >= _COLUMNS_MIN
        and inner * columns >= _LARGE_FACTOR
    )


def large_result(
    a: Array, b: Array, out: Array, change: Callable[[Array, Array], object] | None = None
) -> bool:
    """out = a b, where it is `gives_large`; False, and nothing done, where the library has no such product.

    a, b     (M, K) and (K, N), in any order in memory
    change   what is called with each block of `out` and the block of a b, which is lost then, instead
    """
    count, inner = a.shape
    block = product_alone(BLOCK, inner, out.shape[1], False, False)
    rest = product_alone(count % BLOCK, inner, out.shape[1], False, False) if count % BLOCK else block
    if block is None or rest is None:
        return False
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    parts = slices(count, BLOCK * _BLOCKS)

    def piece(number: int) -> None:
        part = parts[number]
        made = None if change is None else aligned((BLOCK, out.shape[1]), _float32)
        for start in range(part.start, part.stop, BLOCK):
            rows = slice(start, min(start + BLOCK, count))
            layer = block if rows.stop - start == BLOCK else rest
            if change is None or made is None:
                layer(a[rows], b, out[rows])
            else:
                layer(a[rows], b, made)
                change(out[rows], made[: rows.stop - start])

    spread(piece, len(parts))
    return True


def large_factor(a: Array, b: Array, out: Array) -> bool:
    """out = a b, where it is `takes_large`; False, and nothing done, where the library has no such product.

    a   (M, K), in any order in memory
    b   (K, N), C-contiguous
    """
    rows, inner = a.shape
    columns = out.shape[1]
    count = min(_PARTS, max(1, inner * columns // _PART))
    ends = [inner * number // count for number in range(count + 1)]
    layers = {size: _part(rows, size, columns) for size in {b - a for a, b in pairwise(ends)}}
    if None in layers.values():
        return False

    def piece(number: int, out: Array) -> None:
        terms = slice(ends[number], ends[number + 1])
        layer = layers[terms.stop - terms.start]
        assert layer is not None
        layer(np.ascontiguousarray(a[:, terms]), b[terms], out)

    if count == 1:
        piece(0, out)
        return True
    sums = aligned((count, *out.shape), _float32)
    spread(lambda number: piece(number, sums[number]), count)
    np.add.reduce(sums, 0, out=out)
    return True
