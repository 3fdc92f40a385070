"""Steps of one optimizer on many small variables as one: what `passes/gather_updates.py` makes.

A rule of ten elementwise functions takes 10 us of a variable of a hundred elements and no more of one of ten
thousand. Here variables, slots and gradients are copied into rows of one array, changed by the rule, and
copied back: two short calls for each instead of ten. Rules are elementwise and made of functions that are
exact, so every number is what its own step would have made of it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import OpError
from flowengine.ir.graph import Node
from flowengine.kernels.fused import located
from flowengine.kernels.registry import kernel
from flowengine.kernels.training import BLOCK, DenseUpdate, numbers_by_name

_FLOAT32: Final = np.dtype(np.float32)
_FLOATS: Final = {_FLOAT32}
_ARRAYS: Final = {np.ndarray}


class GatheredUpdates:
    """One update for each of several variables, by the same numbers."""

    def __init__(
        self,
        nodes: Sequence[Node],
        functions: Sequence[Callable[..., Any]],
        update: DenseUpdate,
        attrs: dict[str, Any],
        shapes: Sequence[tuple[int, ...]],
    ) -> None:
        """
        functions  the bound kernels of the nodes
        attrs      what the rule is told besides numbers
        shapes     of the variables
        """
        self._nodes = tuple(nodes)
        self._functions = tuple(functions)
        self._update, self._attrs = update, attrs
        self._shapes = tuple(shapes)
        #: Those of variables and slots, then of gradients.
        self._every = [*shapes] * (len(update.slots) + 1)
        self._size = sum(map(math.prod, shapes))
        #: The rows of one run and, of those that are copied back, the part of each variable.
        self._idle: deque[tuple[Array, list[Array]]] = deque()

    def __repr__(self) -> str:
        return f"{len(self._nodes)} {self._nodes[0].op}"

    @property
    def names(self) -> frozenset[str]:
        """The names of the nodes that it stands for."""
        return frozenset(node.name for node in self._nodes)

    def run(self, variables: Sequence[Any], numbers: Sequence[Any], gradients: Sequence[Any]) -> Any:
        """The variables, changed; first all of them are given, then for each slot that of each."""
        count = len(self._nodes)
        if not self._together(variables, numbers, gradients):
            for place, (node, function) in enumerate(zip(self._nodes, self._functions, strict=True)):
                values = self._update.inputs(numbers, gradients[place])
                try:
                    function(*variables[place::count], *values)
                except OpError as error:
                    raise located(error, node) from None
        return tuple(variables[:count])

    def _together(self, variables: Sequence[Any], numbers: Sequence[Any], gradients: Sequence[Any]) -> bool:
        """Change them at once; False, nothing being changed, where each has to be looked at."""
        try:
            keywords = numbers_by_name(self._update.numbers, numbers, _FLOAT32)
            arrays = [variable.mutable() for variable in variables]
        except OpError:
            return False
        every = [*arrays, *gradients]
        if set(map(type, every)) != _ARRAYS or [array.shape for array in every] != self._every:
            return False
        # Two names may be one variable's.
        if {array.dtype for array in every} != _FLOATS or len(set(map(id, arrays))) < len(arrays):
            return False
        try:
            kept = self._idle.pop()
        except IndexError:
            kept = self._rows()
        rows, parts = kept
        count, slots = len(self._nodes), len(self._update.slots)
        for slot in range(slots):
            np.concatenate(arrays[slot * count : (slot + 1) * count], axis=None, out=rows[slot])
        np.concatenate(gradients, axis=None, out=rows[slots])
        for start in range(0, self._size, BLOCK):
            self._update.rule(*rows[:, start : start + BLOCK], **keywords, **self._attrs)
        for array, part in zip(arrays, parts, strict=True):
            array[...] = part
        self._idle.append(kept)
        return True

    def _rows(self) -> tuple[Array, list[Array]]:
        slots = len(self._update.slots)
        rows: Array = np.empty((slots + 1, self._size), np.float32)
        parts = []
        for row in rows[:slots]:
            start = 0
            for shape in self._shapes:
                parts.append(row[start : start + math.prod(shape)].reshape(shape))
                start += math.prod(shape)
        return rows, parts


@kernel("_GatheredUpdates")
def gathered_updates(
    variables: tuple[Any, ...], numbers: tuple[Any, ...], gradients: tuple[Any, ...], *, node: Node
) -> Any:
    """The variables, changed by their gradients."""
    return node.attrs["program"].run(variables, numbers, gradients)
