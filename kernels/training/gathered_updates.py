"""Steps of one optimizer on many small variables as one: what `kernels/numpy/claims/gather_updates.py` makes.

A rule of ten elementwise functions takes 10 us of a variable of a hundred elements and no more of one of ten
thousand. Here variables, slots and gradients are copied into rows of one array and changed by the rule. From
then on the variables hold parts of the rows, and only gradients are copied. If a step keeps the old value
of a variable, the variable continues with a copy: then all are copied there and back, for a while. Rules are
elementwise and made of functions that are exact, so every number is what its own step would have made of it.
"""

from __future__ import annotations

import math
import operator
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from time import perf_counter
from typing import Any, ClassVar, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import AlignedBytes
from flowengine.core.errors import OpError
from flowengine.ir.graph import Node
from flowengine.kernels.member_times import MEMBER_TIMES
from flowengine.kernels.provider import MemberRun, located, run_alone
from flowengine.kernels.registry import kernel
from flowengine.kernels.training.apply import BLOCK, DenseUpdate, numbers_by_name

HOST: Final = "variables are updated in place, and their arrays are in host memory"

_FLOAT32: Final = np.dtype(np.float32)
_FLOATS: Final = {_FLOAT32}
_ARRAYS: Final = {np.ndarray}
#: Runs for which they are copied at most before they are laid together again.
_PATIENCE_MAX: Final = 1024


class UpdatesAtOnce(ABC):
    """One update for each of several variables, by the same numbers: all at once, or else one by one."""

    is_one_pass: ClassVar[bool] = False

    def __init__(
        self, nodes: Sequence[Node], functions: Sequence[Callable[..., Any]], update: DenseUpdate
    ) -> None:
        """functions: what computes each node by itself."""
        self._nodes = tuple(nodes)
        self._functions = tuple(functions)
        self._update = update

    def __repr__(self) -> str:
        return f"{len(self._nodes)} {self._nodes[0].op}"

    @property
    def names(self) -> frozenset[str]:
        """The names of the nodes that it stands for."""
        return frozenset(node.name for node in self._nodes)

    def run(self, variables: Sequence[Any], numbers: Sequence[Any], gradients: Sequence[Any]) -> Any:
        """The variables, changed; first all of them are given, then for each slot that of each."""
        times = MEMBER_TIMES.get()
        began = 0.0 if times is None else perf_counter()
        if self.together(variables, numbers, gradients):
            if times is not None:
                times.append((self._nodes, began, perf_counter()))
            return tuple(variables[: len(self._nodes)])
        for node, function, arguments in self._calls(variables, numbers, gradients):
            try:
                function(*arguments)
            except OpError as error:
                raise located(error, node) from None
            if times is not None:
                times.append(((node,), began, began := perf_counter()))
        return tuple(variables[: len(self._nodes)])

    def one_by_one(
        self, variables: Sequence[Any], numbers: Sequence[Any], gradients: Sequence[Any]
    ) -> Iterator[MemberRun]:
        """See `MemberwiseBody`."""
        count = len(self._nodes)
        for place, call in enumerate(self._calls(variables, numbers, gradients)):
            yield run_alone(*call)._replace(outputs=tuple(variables[place::count]))

    def _calls(
        self, variables: Sequence[Any], numbers: Sequence[Any], gradients: Sequence[Any]
    ) -> Iterator[tuple[Node, Callable[..., Any], list[Any]]]:
        count = len(self._nodes)
        for place, (node, function) in enumerate(zip(self._nodes, self._functions, strict=True)):
            values = self._update.inputs(numbers, gradients[place])
            yield node, function, [*variables[place::count], *values]

    @abstractmethod
    def together(self, variables: Sequence[Any], numbers: Sequence[Any], gradients: Sequence[Any]) -> bool:
        """Change them at once; False, nothing being changed, where each has to be looked at."""


class GatheredUpdates(UpdatesAtOnce):
    """Updates whose variables are rows of one array, and change by one call of the rule."""

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
        attrs      the attributes that the rule gets beside numbers
        shapes     of the variables
        """
        super().__init__(nodes, functions, update)
        self._attrs = attrs
        self._shapes = tuple(shapes)
        self._size = sum(map(math.prod, shapes))
        #: The table of the variables from one run to the next; only a step that may write to them reads it.
        self._table: _VariableTable | None = None
        #: Runs until there is such a table: more each time that one had to be given up.
        self._wait = self._left = 1

    def together(self, variables: Sequence[Any], numbers: Sequence[Any], gradients: Sequence[Any]) -> bool:
        try:
            keywords = numbers_by_name(self._update.numbers, numbers, _FLOAT32)
            arrays = [variable.mutable() for variable in variables]
        except OpError:
            return False
        if not _are(gradients, self._shapes):
            return False
        table = self._table
        if table is not None and table.holds(arrays):
            self._change(table.rows, gradients, keywords)
            return True
        # Two names may be one variable's.
        if not _are(arrays, self._shapes * len(self._update.slots)) or len(set(map(id, arrays))) < len(
            arrays
        ):
            return False
        if table is not None:
            # A step keeps the old value of a variable, or has set one.
            self._table = None
            self._left = self._wait = min(2 * self._wait, _PATIENCE_MAX)
        self._left -= 1
        count, slots = len(self._nodes), len(self._update.slots)
        rows, parts = _laid(self._shapes, slots)
        for slot in range(slots):
            np.concatenate(arrays[slot * count : (slot + 1) * count], axis=None, out=rows[slot])
        self._change(rows, gradients, keywords)
        if self._left > 0:
            for array, part in zip(arrays, parts, strict=True):
                array[...] = part
            return True
        self._table = _VariableTable(rows, parts)
        for variable, part in zip(variables, parts, strict=True):
            variable.adopt(part)
        return True

    def _change(self, rows: Array, gradients: Sequence[Any], keywords: dict[str, Any]) -> None:
        np.concatenate(gradients, axis=None, out=rows[-1])
        for start in range(0, self._size, BLOCK):
            self._update.rule(np, *rows[:, start : start + BLOCK], **keywords, **self._attrs)


class _VariableTable:
    """Rows whose parts are what variables hold, as long as they do; nobody else refers to a part."""

    def __init__(self, rows: Array, parts: Sequence[Array]) -> None:
        self.rows = rows
        self._parts = [weakref.ref(part) for part in parts]

    def holds(self, arrays: Sequence[Any]) -> bool:
        """Whether these are its parts."""
        return all(map(operator.is_, arrays, [part() for part in self._parts]))


def _laid(shapes: Sequence[tuple[int, ...]], slots: int) -> tuple[Array, list[Array]]:
    """(a row for each slot and one for gradients, the part of each variable in each row but the last)."""
    sizes = [math.prod(shape) for shape in shapes]
    width = sum(sizes)
    # Views of a part refer to the block below, by which a variable detects other readers.
    block: Any = AlignedBytes(((slots + 1) * width,), _FLOAT32)
    rows: Array = np.ndarray((slots + 1, width), _FLOAT32, block)
    starts = [slot * width + start for slot in range(slots) for start in accumulate(sizes[:-1], initial=0)]
    parts: list[Array] = [
        np.ndarray(shape, _FLOAT32, block, start * _FLOAT32.itemsize)
        for shape, start in zip([*shapes] * slots, starts, strict=True)
    ]
    return rows, parts


def _are(arrays: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether these are arrays of float32 of these shapes."""
    return (
        set(map(type, arrays)) == _ARRAYS
        and all(map(operator.eq, [array.shape for array in arrays], shapes))
        and {array.dtype for array in arrays} == _FLOATS
    )


@kernel("_GatheredUpdates")
def gathered_updates(
    variables: tuple[Any, ...], numbers: tuple[Any, ...], gradients: tuple[Any, ...], *, node: Node
) -> Any:
    """The variables, changed by their gradients."""
    return node.attrs["program"].run(variables, numbers, gradients)


@kernel("_GatheredResourceUpdates")
def gathered_resource_updates(
    variables: tuple[Any, ...], numbers: tuple[Any, ...], gradients: tuple[Any, ...], *, node: Node
) -> None:
    """The variables behind the handles are changed by their gradients."""
    node.attrs["program"].run(variables, numbers, gradients)
