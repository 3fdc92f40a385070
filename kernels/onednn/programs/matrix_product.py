"""One product of two matrices by a primitive."""

from __future__ import annotations

from typing import Final

from flowengine.core.arrays import Array
from flowengine.kernels.onednn.library import address
from flowengine.kernels.onednn.objects import Description, attributes, strided
from flowengine.kernels.onednn.programs.constant_products import work
from flowengine.kernels.onednn.programs.preparing import prepared, required
from flowengine.kernels.onednn.programs.program import DST, SRC, WEIGHTS, PrimitiveProgram


class MatrixProduct:
    """(M, K) by (K, N), either side stored transposed.

    By a primitive: `dnnl_sgemm`, which needs none, was seen to write beyond its own work space (3.x, AVX-512,
    200 x 200 x 200 on one thread), and what it destroys is the host's heap.
    """

    def __init__(self, rows: int, inner: int, columns: int, left: bool, right: bool, *, alone: bool) -> None:
        found = required()
        one = strided(found, (rows, inner), (1, rows) if left else (inner, 1))
        other = strided(found, (inner, columns), (1, inner) if right else (columns, 1))
        result = strided(found, (rows, columns), (columns, 1))
        attrs = attributes(found)
        what = Description(
            *(found, "matmul", found.engine),
            *(one.value, other.value, None, result.value, attrs.value),
        )
        self._program = program = PrimitiveProgram(found, alone)
        program.step(
            what,
            {SRC: program.outside(one), WEIGHTS: program.outside(other), DST: program.outside(result)},
        )

    def __call__(self, a: Array, b: Array, out: Array) -> None:
        self._program(address(a), address(b), address(out))


matrix_product: Final = prepared(MatrixProduct, work)
#: A product on the calling thread alone, however much it has to do.
product_alone: Final = prepared(MatrixProduct, lambda *sizes: 0.0)
