"""Products with a constant matrix on the right, which is kept in the order that the primitive prefers.

The weights of a frozen graph are multiplied by a few rows at a time, and what such a product costs is
walking through them: 10 rows by 256 x 512 take 41 us as the graph holds them and 27 in blocks. The same
numbers are added in the same order; no bit changes.
"""

from __future__ import annotations

from typing import Final

from flowengine.core.arrays import Array
from flowengine.kernels.onednn.layers.filters import reordering, shared
from flowengine.kernels.onednn.library import address
from flowengine.kernels.onednn.objects import (
    QUERY_WEIGHTS,
    Description,
    anyhow,
    attributes,
    strided,
)
from flowengine.kernels.onednn.programs.preparing import prepared, required
from flowengine.kernels.onednn.programs.program import DST, SRC, WEIGHTS, PrimitiveProgram

#: With more rows the constant is walked through so often that its order in memory hardly matters.
ROWS_MAX: Final = 64


class ConstantProduct:
    """(M, K), stored transposed if `left`, by a constant (K, N), stored transposed if `right`.

    kept   the constants in the order that is wanted
    """

    def __init__(self, rows: int, inner: int, columns: int, left: bool, right: bool, *, alone: bool) -> None:
        found = required()
        one = strided(found, (rows, inner), (1, rows) if left else (inner, 1))
        other = anyhow(found, (inner, columns))
        result = strided(found, (rows, columns), (columns, 1))
        attrs = attributes(found)
        what = Description(
            *(found, "matmul", found.engine),
            *(one.value, other.value, None, result.value, attrs.value),
        )
        wanted = what.memory(QUERY_WEIGHTS)
        plain = strided(found, (inner, columns), (1, inner) if right else (columns, 1))
        self.kept = shared(found, plain, wanted, reordering(attrs))
        self._program = program = PrimitiveProgram(found, alone)
        program.step(
            what,
            {SRC: program.outside(one), WEIGHTS: program.outside(wanted), DST: program.outside(result)},
        )

    def __call__(self, a: Array, constant: Array, out: Array) -> bool:
        """out = a constant, all C-contiguous; False, and nothing done, if it is none that never changes."""
        where = self.kept.find(constant)
        if where is None:
            return False
        self._program(address(a), where, address(out))
        return True


def work(rows: int, inner: int, columns: int, left: bool, right: bool) -> float:
    """Microseconds on one core: 60,000 multiplications and additions each."""
    return rows * inner * columns / 60_000.0


constant_product: Final = prepared(ConstantProduct, work)


__all__ = ["ROWS_MAX", "ConstantProduct", "constant_product", "work"]
