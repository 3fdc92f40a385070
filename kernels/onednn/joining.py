"""Concatenations between layers: NumPy joins the rows, which is quicker than the library at it, as a step of
the layers' program. So layers on both sides are one program, and the result may lie where memory is hot.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from flowengine.core.arrays import Array
from flowengine.ir.graph import Node
from flowengine.kernels.common.pieces import FLOAT32, Like, Piece, Same, is_plain
from flowengine.kernels.numpy.joining import join_rows
from flowengine.kernels.onednn.programs.joint import JointProgram
from flowengine.kernels.onednn.programs.preparing import prepared, required
from flowengine.kernels.onednn.programs.program import PrimitiveProgram
from flowengine.kernels.onednn.serving import FLOAT32 as OF_FLOAT32
from flowengine.kernels.onednn.serving import serves

#: Elements that one core joins in a microsecond.
_ELEMENTS: Final = 5000.0


class JoinedTables:
    """Tables (R, C_i) joined along their second axis."""

    def __init__(self, rows: int, columns: tuple[int, ...], *, alone: bool) -> None:
        self.program = program = PrimitiveProgram(required(), alone)
        memories = [program.numbers((rows, width)) for width in (*columns, sum(columns))]
        program.by_numpy(_join, memories)


def _join(tables: Sequence[Array]) -> None:
    join_rows(tables[:-1], tables[-1])


joined: Final = prepared(JoinedTables, lambda rows, columns: rows * sum(columns) / _ELEMENTS)


class Concat:
    """The kernel of a ConcatV2 node, which by itself NumPy computes."""

    def __init__(self, otherwise: Callable[..., Any]) -> None:
        self._otherwise = otherwise

    def __call__(self, values: tuple[Array, ...], axis: Any) -> Any:
        return self._otherwise(values, axis)

    def piece(self, *values_and_axis: Any) -> Piece | None:
        """See `pieces`."""
        *values, axis = values_and_axis
        if not all(map(is_plain, values)):
            return None
        first = values[0]
        along = int(axis)
        along += first.ndim if along < 0 else 0
        if not 0 <= along < first.ndim:
            return None
        lead, rest = first.shape[:along], first.shape[along + 1 :]
        if any(v.shape[:along] != lead or v.shape[along + 1 :] != rest for v in values):
            return None
        shape = (*lead, sum(v.shape[along] for v in values), *rest)
        if not math.prod(shape):
            return None
        below = math.prod(rest)
        layer = joined(math.prod(lead), tuple(v.shape[along] * below for v in values))
        if layer is None:
            return None
        return Piece(
            ((layer.program, (*range(len(values)), ~0)),),
            (*map(Like.of, values), Same(axis)),
            (Like(shape, FLOAT32),),
            JointProgram,
        )


@serves("ConcatV2", types=OF_FLOAT32)
def concat_v2(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    return Concat(otherwise)
