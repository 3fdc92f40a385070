"""Conversion of Python and NumPy values, variables and the like to a `Tensor` of a graph.

    convert(graph, 3.0)                      # a Const
    convert(graph, [x, 1.0])                 # a Pack
    convert(graph, variable)                 # the result of the variable's `__flowengine_tensor__`

An object that stands for a tensor has a method `__flowengine_tensor__(graph, dtype, name)`. It returns a
Tensor of this graph: of type `dtype`, or of its own type if that is None. For a reference type it returns the
reference to a variable, for `resource` its handle. Constructors and functions take such objects wherever they
take a Tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, runtime_checkable

import numpy as np

from flowengine.core.dtypes import DType, as_dtype
from flowengine.graphs.errors import ConstructionTypeError, ConstructionValueError
from flowengine.graphs.tensor import Tensor
from flowengine.ir.argdef import ArgDef
from flowengine.ir.opdef import OpDef

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph

#: The name of the method that returns the tensor for which an object stands.
HOOK: Final = "__flowengine_tensor__"
#: Types without that method, checked first because most arguments have them.
_PLAIN: Final = frozenset({int, float, bool, complex, str, bytes, np.ndarray, type(None)})


@runtime_checkable
class Convertible(Protocol):
    """An object that can convert itself to a tensor."""

    def __flowengine_tensor__(self, graph: Graph, dtype: DType | None, name: str | None) -> Tensor:
        """Return this object as a tensor of `graph`; see the module."""


#: A Tensor, a `Convertible`, a Python or NumPy value, or nested lists of them.
TensorLike: TypeAlias = Any


def convert(graph: Graph, value: TensorLike, dtype: Any = None, name: str | None = None) -> Tensor:
    """Convert a value to a Tensor of `graph`.

    dtype   the required type; a Python or NumPy value is converted if no information is lost
    name    of the new node, if one is made

    Raises InvalidArgumentError, which is a TypeError where types differ and a ValueError for a tensor of
    another graph or a value that is no tensor.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    tensor = symbolic(graph, value, wanted, name)
    if tensor is None:
        return graph.constant(value, wanted, name=name or "Const")
    if tensor.graph is not graph:
        raise ConstructionValueError(f"'{tensor.name}' belongs to another graph")
    if wanted is not None and tensor.dtype.base is not wanted.base:
        raise ConstructionTypeError(f"'{tensor.name}' is {tensor.dtype.base}; it must be {wanted.base}")
    return tensor


def symbolic(graph: Graph, value: Any, dtype: DType | None = None, name: str | None = None) -> Tensor | None:
    """Return the tensor of a value, or of a list that contains one; None for values of Python and NumPy."""
    kind = type(value)
    if kind is Tensor:
        found: Tensor = value
        return found
    if kind in _PLAIN:
        return None
    if kind is list or kind is tuple:
        return _packed(graph, value, dtype, name) if stands_for_tensor(value) else None
    return standing_for(graph, value, dtype, name)


def standing_for(
    graph: Graph | None, value: Any, dtype: DType | None = None, name: str | None = None
) -> Tensor | None:
    """Return the tensor of an object: by its method, or if it is a subclass of Tensor; else None."""
    method = getattr(type(value), HOOK, None)
    if method is not None:
        tensor = method(value, graph, dtype, name)
        return plain(tensor)
    return plain(value) if isinstance(value, Tensor) else None


def plain(tensor: Tensor) -> Tensor:
    """The same tensor, of the class itself."""
    return tensor if type(tensor) is Tensor else Tensor(tensor.graph, tensor.node_name, tensor.slot)


def stands_for_tensor(value: Any) -> bool:
    """Whether a value is a tensor of a graph, converts to one, or is a list that contains one."""
    kind = type(value)
    if kind is Tensor:
        return True
    if kind in _PLAIN:
        return False
    if kind is list or kind is tuple:
        return _holds_tensor(value)
    return is_symbolic(value)


def is_symbolic(value: Any) -> bool:
    """Whether an object, not a list, is a tensor of a graph or converts to one."""
    return isinstance(value, Tensor) or hasattr(type(value), HOOK)


def graph_of(*values: Any, graph: Graph | None = None) -> Graph:
    """The graph of the first of these that belongs to one, lists looked into; `graph` if it is given.

    Raises ValueError (as InvalidArgumentError) where none does.
    """
    found = graph if graph is not None else _found(values)
    if found is None:
        raise ConstructionValueError(
            "none of the arguments is a tensor of a graph: make one of them by graph.constant, or give graph="
        )
    return found


def _found(values: Iterable[Any]) -> Graph | None:
    for value in values:
        kind = type(value)
        if kind is Tensor:
            found: Graph = value.graph
            return found
        if kind in _PLAIN:
            continue
        if kind is list or kind is tuple:
            inner = _found(value)
            if inner is not None:
                return inner
        elif is_symbolic(value):
            owner: Graph | None = getattr(value, "graph", None)
            if owner is not None:
                return owner
    return None


def _packed(graph: Graph, value: Any, dtype: DType | None, name: str | None) -> Tensor:
    if dtype is None:
        dtype = _first_symbolic(graph, value).dtype.base
    result: Tensor = graph.ops.Pack(list(value), T=dtype, name=name or "packed")
    return result


def _first_symbolic(graph: Graph, value: Any) -> Tensor:
    for each in value:
        if type(each) in (list, tuple):
            if _holds_tensor(each):
                return _first_symbolic(graph, each)
        elif stands_for_tensor(each):
            found = symbolic(graph, each)
            assert found is not None
            return found
    raise AssertionError("a list without tensors")


def _holds_tensor(values: Any) -> bool:
    return any(type(each) not in _PLAIN and stands_for_tensor(each) for each in values)


def symbolic_inputs(graph: Graph, definition: OpDef, inputs: Sequence[Any]) -> list[Any]:
    """Return the inputs with each object that converts to a Tensor converted, also within lists."""
    found: list[Any] = []
    for arg, value in zip(definition.inputs, inputs, strict=True):
        if isinstance(value, list | tuple):
            found.append(_symbolic_items(graph, arg, value) if _holds_tensor(value) else value)
        else:
            found.append(_symbolic_item(graph, arg, value))
    return found


def _symbolic_items(graph: Graph, arg: ArgDef, values: Sequence[Any]) -> list[Any]:
    return [
        _symbolic_items(graph, arg, each)
        if isinstance(each, list | tuple) and _holds_tensor(each)
        else _symbolic_item(graph, arg, each)
        for each in values
    ]


def _symbolic_item(graph: Graph, arg: ArgDef, value: Any) -> Any:
    if type(value) is Tensor or not stands_for_tensor(value):
        return value
    if arg.is_ref:
        dtype = getattr(value, "dtype", None)
        return standing_for(graph, value, None if dtype is None else as_dtype(dtype).ref)
    return standing_for(graph, value, arg.type)
