"""The sum of several tensors of one shape in one pass, in the memory of one of them.

Each element is the sum in the order of the tensors, to the last bit that of one addition after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flowengine.core.arrays import Array
from flowengine.kernels.common.pieces import Source
from flowengine.kernels.onednn.library import LibraryError, address
from flowengine.kernels.onednn.objects import Description, attributes, dense
from flowengine.kernels.onednn.programs.preparing import LAYER_ALONE_MICROSECONDS, prepared, required
from flowengine.kernels.onednn.programs.program import (
    DST,
    SRC,
    SRC_1,
    PrimitiveProgram,
    one_step,
    operand_after,
)

_ADD: Final = 0x1FFF0
#: More than these the library does not take.
_COUNT_MAX: Final = 16
#: Elements of one tensor that one core adds in a microsecond, in cache.
_ELEMENTS: Final = 15_000.0


class Total:
    """The sum of so many tensors of so many elements."""

    def __init__(self, count: int, size: int, *, alone: bool) -> None:
        if not 1 < count <= _COUNT_MAX:
            raise LibraryError("too few, or too many")
        found = required()
        elements = dense(found, (size,))
        attrs = attributes(found, [("binary", _ADD, elements)] * (count - 2))
        what = Description(
            *(found, "binary", found.engine, _ADD),
            *(elements.value, elements.value, elements.value, attrs.value),
        )
        others = [operand_after(place) for place in range(count - 2)]
        given = [SRC, SRC_1, *others, DST]
        self._program = one_step(what, alone, dict.fromkeys(given, elements))

    def call(self, tensors: Sequence[Source], out: Source) -> tuple[PrimitiveProgram, tuple[Source, ...]]:
        """The call of a piece, see `pieces`."""
        return self._program, (*tensors, out)

    def __call__(self, tensors: Sequence[Array], out: Array) -> None:
        """`out` may be one of them."""
        self._program(*map(address, tensors), address(out))


total: Final = prepared(Total, lambda count, size: count * size / _ELEMENTS, LAYER_ALONE_MICROSECONDS)
