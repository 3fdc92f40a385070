"""Python's operators on tensors and variables: `x + 1`, `x < y`, `x @ w`, `x[1:, ..., None]`.

Each adds a node under TensorFlow's name for the operator (`add`, `truediv`, ...). The other operand is any
value that `graphs.conversion` converts; a Python number becomes a constant of this operand's type. `==` and
`!=` compare the objects, not the values: `ops.Equal(x, y)` compares those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.graphs.errors import ConstructionTypeError
from flowengine.graphs.symbolic import SymbolicValue

if TYPE_CHECKING:
    from flowengine.core.shapes import TensorShape
    from flowengine.graphs.graph import Graph
    from flowengine.graphs.tensor import Tensor

#: {type of integers: the type to which `/` converts them}
_QUOTIENT_TYPES: Final = {
    dtypes.int8: dtypes.float32,
    dtypes.uint8: dtypes.float32,
    dtypes.int16: dtypes.float32,
    dtypes.uint16: dtypes.float32,
    dtypes.int32: dtypes.float64,
    dtypes.uint32: dtypes.float64,
    dtypes.int64: dtypes.float64,
    dtypes.uint64: dtypes.float64,
}


class TensorOperators(SymbolicValue):
    """The operators, for Tensor and for what converts to one. Needs `graph`, `dtype` and `shape`."""

    __slots__ = ()

    #: NumPy's arrays leave operators to this operand.
    __array_ufunc__: Final = None

    if TYPE_CHECKING:

        @property
        def dtype(self) -> DType: ...

        @property
        def shape(self) -> TensorShape: ...

    def __add__(self, other: Any) -> Tensor:
        return _binary(self, "AddV2" if _adds_numbers(self) else "Add", "add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _binary(self, "AddV2" if _adds_numbers(self) else "Add", "add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return _binary(self, "Sub", "sub", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return _binary(self, "Sub", "sub", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return _binary(self, "Mul", "mul", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return _binary(self, "Mul", "mul", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return quotient(_graph(self), self, other, "truediv")

    def __rtruediv__(self, other: Any) -> Tensor:
        return quotient(_graph(self), other, self, "truediv")

    def __floordiv__(self, other: Any) -> Tensor:
        return _binary(self, "FloorDiv", "floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return _binary(self, "FloorDiv", "floordiv", other, self)

    def __mod__(self, other: Any) -> Tensor:
        return _binary(self, "FloorMod", "mod", self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return _binary(self, "FloorMod", "mod", other, self)

    def __pow__(self, other: Any) -> Tensor:
        return _binary(self, "Pow", "pow", self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return _binary(self, "Pow", "pow", other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return product(_graph(self), self, other, "matmul")

    def __rmatmul__(self, other: Any) -> Tensor:
        return product(_graph(self), other, self, "matmul")

    def __and__(self, other: Any) -> Tensor:
        return _binary(self, _logical(self, "LogicalAnd", "BitwiseAnd"), "and", self, other)

    def __rand__(self, other: Any) -> Tensor:
        return _binary(self, _logical(self, "LogicalAnd", "BitwiseAnd"), "and", other, self)

    def __or__(self, other: Any) -> Tensor:
        return _binary(self, _logical(self, "LogicalOr", "BitwiseOr"), "or", self, other)

    def __ror__(self, other: Any) -> Tensor:
        return _binary(self, _logical(self, "LogicalOr", "BitwiseOr"), "or", other, self)

    def __xor__(self, other: Any) -> Tensor:
        return _binary(self, _logical(self, "NotEqual", "BitwiseXor"), "xor", self, other)

    def __rxor__(self, other: Any) -> Tensor:
        return _binary(self, _logical(self, "NotEqual", "BitwiseXor"), "xor", other, self)

    def __invert__(self) -> Tensor:
        return _unary(self, _logical(self, "LogicalNot", "Invert"))

    def __neg__(self) -> Tensor:
        return _unary(self, "Neg")

    def __pos__(self) -> Tensor:
        return _unary(self, "Identity")

    def __abs__(self) -> Tensor:
        return magnitude(_graph(self), self, None)

    def __lt__(self, other: Any) -> Tensor:
        return _binary(self, "Less", "Less", self, other)

    def __le__(self, other: Any) -> Tensor:
        return _binary(self, "LessEqual", "LessEqual", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return _binary(self, "Greater", "Greater", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return _binary(self, "GreaterEqual", "GreaterEqual", self, other)

    def __getitem__(self, key: Any) -> Tensor:
        """A part: integers, slices with any step, `...`, None for a new axis, and tensors in their places."""
        from flowengine.graphs.slicing import sliced

        return sliced(_graph(self), self, key)


def magnitude(graph: Graph, x: Any, name: str | None) -> Tensor:
    """The absolute value of each element: a real number for a complex one."""
    dtype = element_type(graph, x)
    found: Tensor
    if dtype.is_complex:
        real = dtypes.float64 if dtype is dtypes.complex128 else dtypes.float32
        found = graph.ops.ComplexAbs(x, Tout=real, name=name)
    else:
        found = graph.ops.Abs(x, name=name)
    return found


def quotient(graph: Graph, x: Any, y: Any, name: str | None) -> Tensor:
    """`x / y` as Python 3 divides: whole numbers are made float64 first, those of up to 16 bits float32."""
    from flowengine.graphs.conversion import convert, stands_for_tensor

    if stands_for_tensor(x):
        x = convert(graph, x)
        y = convert(graph, y, x.dtype.base, name=None if name is None else f"{name}/y")
    else:
        y = convert(graph, y)
        x = convert(graph, x, y.dtype.base, name=None if name is None else f"{name}/x")
    wider = _QUOTIENT_TYPES.get(x.dtype.base)
    if wider is not None:
        x, y = graph.ops.Cast(x, DstT=wider), graph.ops.Cast(y, DstT=wider)
    found: Tensor = graph.ops.RealDiv(x, y, name=name)
    return found


def product(graph: Graph, x: Any, y: Any, name: str | None) -> Tensor:
    """The matrix product (..., n, m) x (..., m, k) -> (..., n, k); leading axes broadcast."""
    from flowengine.graphs.conversion import convert, stands_for_tensor

    if stands_for_tensor(x):
        x = convert(graph, x)
        y = convert(graph, y, x.dtype.base)
    else:
        y = convert(graph, y)
        x = convert(graph, x, y.dtype.base)
    found: Tensor
    if is_batched(x, y):
        found = graph.ops.BatchMatMulV2(x, y, name=name)
    else:
        found = graph.ops.MatMul(x, y, name=name)
    return found


def is_batched(x: Tensor, y: Tensor) -> bool:
    """Whether a product is of many matrices: one factor has more than two axes, or nothing says otherwise."""
    ranks = x.shape.rank, y.shape.rank
    return max((rank or 0) for rank in ranks) > 2 or ranks == (None, None)


def element_type(graph: Graph, value: Any) -> DType:
    """The element type of a tensor, or of what would become one."""
    from flowengine.graphs.conversion import convert, stands_for_tensor
    from flowengine.graphs.values import to_value

    if stands_for_tensor(value):
        return convert(graph, value).dtype.base
    return to_value(value)[1]


def _graph(value: Any) -> Graph:
    found: Graph = value.graph
    return found


def _adds_numbers(value: TensorOperators) -> bool:
    return value.dtype.base is not dtypes.string


def _logical(value: TensorOperators, on_bool: str, on_integers: str) -> str:
    dtype = value.dtype.base
    if dtype is dtypes.bool_:
        return on_bool
    if dtype.is_integer:
        return on_integers
    raise ConstructionTypeError(f"{value!r} is {dtype}: &, |, ^ and ~ are for bool and for integers")


def _unary(value: TensorOperators, op: str) -> Tensor:
    found: Tensor = getattr(_graph(value).ops, op)(value)
    return found


def _binary(value: TensorOperators, op: str, name: str, x: Any, y: Any) -> Tensor:
    found: Tensor = getattr(_graph(value).ops, op)(x, y, name=name)
    return found
