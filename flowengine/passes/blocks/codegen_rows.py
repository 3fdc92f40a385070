"""Rows of one elementwise function, each taking nothing but what the one before it gave: one call of all.

    t0 = k0(a0)              # Tanh 'first', for it and the 99 that follow it

Called one after the other on four floats, most of the time goes into calling: 0.18 us each, of which the
function itself takes a tenth. `ufunc.at` applies a function once for each index that it is given, also where
an index comes again, so that one call of it does the row on a small array. TensorFlow's graph optimiser makes
one operation of such a row as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.ir.graph import Node, OutputPort
from flowengine.kernels.registry import Kernel
from flowengine.passes.blocks.program import Program
from flowengine.passes.blocks.units import Conditions, Unit

#: Shorter rows are not worth a call of `at`, which takes about 1 us by itself.
_SHORTEST: Final = 8
#: With more elements than these a call for each node is faster.
_ELEMENTS_MAX: Final = 6
#: Indices of one call of `at`.
_INDICES_MAX: Final = 4096


class RowWriting:
    """The part of the region writer that finds rows."""

    program: Program
    _kernel: Callable[[Node], Kernel]
    _predicates: dict[OutputPort, Node]
    _constant: Callable[[Any, Any], str]
    _value: Callable[..., str]
    _argument: Callable[..., str]
    _define: Callable[[OutputPort], str]
    _drop: Callable[[OutputPort], None]
    _take_back: Callable[[Iterable[OutputPort]], list[str]]
    _under: Callable[[Conditions], AbstractContextManager[None]]
    _line: Callable[..., None]
    _write_truth: Callable[[OutputPort], None]
    _takes_over: dict[OutputPort, str]

    def _rows(self, units: Sequence[Unit], keep: Collection[OutputPort]) -> Mapping[int, int]:
        """{index of the first unit of a row: how many units it has}; `keep` is needed after the units."""
        functions = [self._row_function(unit) for unit in units]
        if sum(function is not None for function in functions) < _SHORTEST:
            return {}
        times = Counter(_taken(units, self.program))
        rows: dict[int, int] = {}
        start = 0
        for index in range(1, len(units) + 1):
            if (
                index < len(units)
                and functions[index] is not None
                and functions[index] is functions[index - 1]
            ):
                (given,) = self.program.defines(units[index - 1])
                if (
                    self.program.origin(units[index].inputs[0]) == given
                    and units[index].conditions == units[index - 1].conditions
                    and times[given] == 1
                    and given not in keep
                    and given not in self._takes_over
                    and given not in self._predicates
                ):
                    continue
            if index - start >= _SHORTEST:
                rows[start] = index - start
            start = index
        return rows

    def _row_function(self, unit: Unit) -> np.ufunc | None:
        """The function of a node that may belong to a row."""
        node = unit.node
        if node is None or len(node.inputs) != 1 or self.program.is_silent(unit):
            return None
        if node.input_types() != node.output_types or self.program.scalars.issuperset(node.inputs):
            return None
        if node.op in ("Merge", "Switch") or self.program.reads(self.program.origin(node.inputs[0])):
            return None
        kernel = self._kernel(node)
        if kernel.maker is not None or kernel.attr_names:
            return None  # what computes it is something else
        return kernel.function if isinstance(kernel.function, np.ufunc) else None

    def _write_row(
        self,
        row: Sequence[Unit],
        ending: Sequence[OutputPort],
        keep: Collection[OutputPort],
        last: Collection[OutputPort],
    ) -> None:
        """A row as one line, for which its first node is named.

        ending   origins that nobody takes after the first of the row
        keep     origins that are needed after the scope
        last     origins that are taken in the scope
        """
        node = row[0].node
        assert node is not None
        (port,) = self.program.defines(row[-1])
        with self._under(row[0].conditions):
            function = self._kernel(node).function
            assert isinstance(function, np.ufunc)
            name = self._constant(Row(function, len(row)), ("row", function, len(row)))
            argument, plain = self._argument(node.inputs[0], False), self._value(node.inputs[0])
            released = self._take_back(ending)
            target = self._define(port)
            self._line(f"{target} = {name}({argument})", node, [plain])
            for unused in released:
                if unused != target:
                    self._line(f"{unused} = None")
            if port in self._predicates:
                self._write_truth(port)
            if port not in last and port not in keep:
                self._drop(port)


def _taken(units: Iterable[Unit], program: Program) -> Iterable[OutputPort]:
    for unit in units:
        yield from program.uses(unit)
        if unit.node is not None and unit.node.op == "Merge":
            yield from map(program.origin, unit.inputs)


class Row:
    """`count` applications of an elementwise function to what the one before gave, bit for bit."""

    __slots__ = ("count", "function")

    def __init__(self, function: np.ufunc, count: int) -> None:
        self.function = function
        self.count = count

    def __call__(self, x: Any) -> Any:
        function = self.function
        result = function(x)
        if not isinstance(result, np.ndarray) or not result.ndim:
            for _ in range(self.count - 1):
                result = function(result)
            return result
        size = result.size
        if 0 < size <= _ELEMENTS_MAX and result.flags.c_contiguous and _agrees(function, result.dtype):
            flat, left, most = result.reshape(-1), (self.count - 1) * size, _INDICES_MAX // size * size
            while left > 0:
                function.at(flat, _indices(size)[: min(left, most)])
                left -= most
        else:
            for _ in range(self.count - 1):
                function(result, result)
        return result


@lru_cache(maxsize=_ELEMENTS_MAX)
def _indices(size: int) -> Array:
    return np.tile(np.arange(size), _INDICES_MAX // size)


@lru_cache(maxsize=256)
def _agrees(function: np.ufunc, dtype: np.dtype[Any]) -> bool:
    """Whether `at` gives the function's own bits, tried once on numbers of all kinds.

    It should: both call the same loops. But those choose their way by how the memory lies, and differently on
    different processors.
    """
    try:
        with np.errstate(all="ignore"):
            numbers = _NUMBERS.astype(dtype)
            tried = numbers.copy()
            function.at(tried, np.repeat(np.arange(numbers.size), 2))
            pieces = np.split(numbers, range(_ELEMENTS_MAX, numbers.size, _ELEMENTS_MAX))
            expected = np.concatenate([function(function(piece)) for piece in pieces])
    except TypeError:
        return False
    return expected.dtype == dtype and tried.tobytes() == expected.tobytes()


_NUMBERS: Final = np.concatenate(
    [np.linspace(-9, 9, 91), np.geomspace(1e-40, 1e30, 36), [np.nan, np.inf, -np.inf, -0.0, -1e-3, 1e5]]
)
