"""Products of a large matrix and few rows or columns, which walk through the large one as it lies.

They cost what it costs to pass that matrix through memory. The library's own product walks through it a few
columns at a time, from row to row, so that each line it touches is in another page, and for widths near a
power of two in the same sets of the cache: for 8 rows and 25088 x 4096 the gradient of the matrix took 158 ms
and the product 68. In blocks of rows, which lie in one piece, it is 58 and 51.

Blocks are spread over the cores. What is added is divided in the same way whatever the number of cores is, so
that no bit depends on it; where the large matrix is the result, each element is the sum that it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import aligned
from flowengine.kernels.onednn.library import address
from flowengine.kernels.onednn.objects import Description, attributes, dense
from flowengine.kernels.onednn.program import DST, SRC, WEIGHTS, one_step, prepared, required
from flowengine.kernels.parallel import slices, spread

#: Rows of the large matrix in a block.
BLOCK: Final = 32
#: Blocks that a thread takes at a time.
_BLOCKS: Final = 8
#: Parts of a sum that are taken apart.
_PARTS: Final = 8
#: With more rows than these, or longer sums, the library's own product is as quick;
_ROWS_MAX: Final = 16
_TERMS_MAX: Final = 32
#: so it is for large matrices that are narrower or have fewer elements, as a result and as a factor.
_WIDE: Final = 2048
_LARGE: Final = 1 << 21
_LARGE_FACTOR: Final = 1 << 25

_float32: Final = np.dtype(np.float32)


class _Block:
    """(M, K) by (K, N), C-contiguous, on the calling thread; added to what is there, if it `adds`."""

    def __init__(self, rows: int, inner: int, columns: int, adds: bool, *, alone: bool) -> None:
        found = required()
        one, other = dense(found, (rows, inner)), dense(found, (inner, columns))
        result = dense(found, (rows, columns))
        attrs = attributes(found, [("sum", 1.0, 0, 0)] if adds else ())
        what = Description(
            *(found, "matmul", found.engine),
            *(one.value, other.value, None, result.value, attrs.value),
        )
        self._program = one_step(what, alone, {SRC: one, WEIGHTS: other, DST: result})

    def __call__(self, a: Array, b: Array, out: Array) -> None:
        self._program(address(a), address(b), address(out))


_block: Final = prepared(_Block, lambda *sizes: 0.0)


def gives_large(rows: int, inner: int, columns: int) -> bool:
    """Whether the result is the large matrix."""
    return rows >= BLOCK and inner <= _TERMS_MAX and columns >= _WIDE and rows * columns >= _LARGE


def takes_large(rows: int, inner: int, columns: int) -> bool:
    """Whether what few rows are multiplied by is the large matrix."""
    wide = columns >= _WIDE and inner * columns >= _LARGE_FACTOR
    return rows <= _ROWS_MAX and wide and inner % BLOCK == 0 and inner >= _PARTS * BLOCK


def large_result(
    a: Array, b: Array, out: Array, change: Callable[[Array, Array], object] | None = None
) -> bool:
    """out = a b, where it is `gives_large`; False, and nothing done, where the library has no such product.

    a, b     (M, K) and (K, N), in any order in memory
    change   what is called with each block of `out` and the block of a b, which is lost then, instead
    """
    count, inner = a.shape
    block = _block(BLOCK, inner, out.shape[1], False)
    rest = _block(count % BLOCK, inner, out.shape[1], False) if count % BLOCK else block
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
    first, further = (_block(rows, BLOCK, out.shape[1], adds) for adds in (False, True))
    if first is None or further is None:
        return False
    count = inner // BLOCK
    columns = aligned((count, rows, BLOCK), _float32)
    columns[...] = a.reshape(rows, count, BLOCK).transpose(1, 0, 2)
    blocks = b.reshape(count, BLOCK, -1)
    ends = [count * number // _PARTS for number in range(_PARTS + 1)]
    sums = aligned((_PARTS, *out.shape), _float32)

    def piece(number: int) -> None:
        total, layer = sums[number], first
        for place in range(ends[number], ends[number + 1]):
            layer(columns[place], blocks[place], total)
            layer = further

    spread(piece, _PARTS)
    np.add.reduce(sums, 0, out=out)
    return True
