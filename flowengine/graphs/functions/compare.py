"""Comparisons and logic, elementwise; the results are bool.

`x` and `y` are tensors of one type, variables, or values that become constants; shapes broadcast.

>>> graph = fe.Graph()
>>> def show(*tensors):
...     for value in fe.testing.evaluate(graph, [each.name for each in tensors]):
...         print(value.tolist())
>>> x, y = graph.constant([1, 2, 3]), graph.constant(2)
>>> show(fe.equal(x, y), fe.not_equal(x, y), fe.less(x, y), fe.less_equal(x, y), fe.greater(x, y))
[False, True, False]
[True, False, True]
[True, False, False]
[True, True, False]
[False, False, True]
>>> p, q = fe.greater_equal(x, y), graph.constant([True, True, False])
>>> show(fe.logical_and(p, q), fe.logical_or(p, q), fe.logical_xor(p, q), fe.logical_not(p))
[False, True, False]
[True, True, True]
[True, False, True]
[True, False, False]
>>> show(fe.where(p), fe.where(p, x, -x))
[[1], [2]]
[-1, 2, 3]
"""

from __future__ import annotations

from flowengine.graphs.conversion import TensorLike
from flowengine.graphs.functions.support import alike, one
from flowengine.graphs.tensor import Tensor


def equal(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Whether x = y, element by element. Of one type; shapes broadcast."""
    return one("Equal", x, y, name=name)


def not_equal(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Whether x differs from y, element by element. Of one type; shapes broadcast."""
    return one("NotEqual", x, y, name=name)


def less(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Whether x < y, element by element. Real numbers of one type; shapes broadcast."""
    return one("Less", x, y, name=name)


def less_equal(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Whether x <= y, element by element. Real numbers of one type; shapes broadcast."""
    return one("LessEqual", x, y, name=name)


def greater(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Whether x > y, element by element. Real numbers of one type; shapes broadcast."""
    return one("Greater", x, y, name=name)


def greater_equal(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Whether x >= y, element by element. Real numbers of one type; shapes broadcast."""
    return one("GreaterEqual", x, y, name=name)


def logical_and(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Whether both are true. bool; shapes broadcast."""
    return one("LogicalAnd", x, y, name=name)


def logical_or(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Whether one of them is true, or both. bool; shapes broadcast."""
    return one("LogicalOr", x, y, name=name)


def logical_not(x: TensorLike, name: str | None = None) -> Tensor:
    """Whether it is false. bool."""
    return one("LogicalNot", x, name=name)


def logical_xor(x: TensorLike, y: TensorLike, name: str = "LogicalXor") -> Tensor:
    """Whether exactly one of them is true. bool; shapes broadcast."""
    return one("NotEqual", *alike(x, y), name=name)


def where(
    condition: TensorLike, x: TensorLike = None, y: TensorLike = None, name: str | None = None
) -> Tensor:
    """Return elements of x where a condition is true, of y elsewhere; or where the condition is true at all.

    condition   bool; with x and y of their shape, or shapes that broadcast
    x, y        of one type, or both left out: then the result is (number of true elements, rank) int64, the
                places of the true elements in row-major order
    """
    if x is None and y is None:
        return one("Where", condition, name=name)
    return one("SelectV2", condition, x, y, name=name)


__all__ = [
    "equal",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
    "where",
]
