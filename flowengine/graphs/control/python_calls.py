"""`graph.call`: a node that calls a function of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from flowengine.core.dtypes import as_dtype
from flowengine.core.python_functions import HeldFunction
from flowengine.core.shapes import TensorShape
from flowengine.graphs.conversion import convert
from flowengine.graphs.errors import ConstructionTypeError, ConstructionValueError
from flowengine.graphs.structures import flatten, pack_like

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph


def call_python(
    graph: Graph,
    function: Callable[..., Any],
    inputs: Sequence[Any],
    dtypes: Any,
    shapes: Any,
    stateful: bool,
    name: str | None,
) -> Any:
    """See `Graph.call`."""
    if not callable(function):
        raise ConstructionTypeError(f"{function!r} is no function")
    if not isinstance(inputs, list | tuple):
        raise ConstructionTypeError(f"the inputs of a call are a list, one for each argument: not {inputs!r}")
    held = HeldFunction(function)
    types = [as_dtype(each) for each in flatten(dtypes)] if dtypes is not None else []
    if shapes is not None and len(shapes) != len(types):
        raise ConstructionValueError(f"the call returns {len(types)} tensors; {len(shapes)} shapes are given")
    tensors = [convert(graph, each) for each in inputs]
    op = "PyFunc" if stateful or not types else "PyFuncStateless"
    attrs = {"token": held.token, "Tout": types}
    node = graph.create_op(op, [tensors], attrs, name or "PyFunc")
    graph.keep(held)
    if not types:
        return node
    for tensor, shape in zip(node.outputs, shapes or (), strict=False):
        tensor.set_shape(TensorShape(shape))
    return pack_like(dtypes, node.outputs)
