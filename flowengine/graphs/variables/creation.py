"""How a variable comes into a graph: its nodes, under TensorFlow's names, outside of all loops and branches.

For a variable `w` they are `w` itself, the nodes of its initial value (below `w/Initializer` if an
initializer made them), `w/Assign`, and a read: `w/Read/ReadVariableOp` or `w/read`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import TYPE_CHECKING, Any, TypeAlias

from flowengine.core.dtypes import DType, as_dtype
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.graphs.tensor import Tensor
from flowengine.graphs.variables import keys
from flowengine.graphs.variables.variable import GraphVariable, HandleVariable, ReferenceVariable

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph

#: Makes an initial value of a shape and type: (graph, shape, dtype) -> Tensor.
Initializer: TypeAlias = Callable[..., Any]
#: A function of a tensor, of its shape and type.
Constraint: TypeAlias = Callable[[Tensor], Tensor]


def make_variable(
    graph: Graph,
    initial: Any,
    *,
    name: str | None,
    shape: Any,
    dtype: Any,
    trainable: bool,
    use_resource: bool,
    collections: Collection[Hashable],
    constraint: Constraint | None,
    caching_device: str | None,
    validate_shape: bool,
) -> GraphVariable:
    """See `Graph.variable`, which takes the same arguments and further ones."""
    if initial is None:
        raise InvalidArgumentError(f"variable '{name or 'Variable'}' needs an initial value or initializer")
    wanted = None if dtype is None else as_dtype(dtype).base
    declared = None if shape is None else TensorShape(shape)
    scopes, beside = graph.scopes, graph.scopes.colocation
    # Apart from the control dependencies, loops and branches around: a variable is in none of them.
    with (
        scopes.outside(),
        scopes.colocate_with(beside),
        graph.name_scope(name or "Variable") as scope,
    ):
        own_name = scope[:-1]
        value = _initial_tensor(graph, initial, declared, wanted, own_name)
        final = _shape_of(own_name, value, declared, validate_shape)
        make = _with_handle if use_resource else _with_reference
        made = make(graph, scope, value, final, caching_device, validate_shape)
    made.trainable, made.constraint = trainable, constraint
    listed = dict.fromkeys(collections or (keys.VARIABLES,))
    if trainable:
        listed[keys.TRAINABLE_VARIABLES] = None
    for key in listed:
        graph.add_to_collection(key, made)
    return made


def _initial_tensor(
    graph: Graph, initial: Any, shape: TensorShape | None, dtype: DType | None, name: str
) -> Tensor:
    if hasattr(initial, "__flowengine_tensor__"):
        initial = initial.__flowengine_tensor__(graph, dtype, None)
    if not callable(initial):
        with graph.scopes.colocate_with(() if isinstance(initial, Tensor) else (name,)):
            return _as_tensor(graph, initial, dtype, name, shape)
    if shape is None or not shape.is_fully_defined:
        raise InvalidArgumentError(
            f"variable '{name}': an initializer makes values of a known shape; give shape=, not {shape}"
        )
    with graph.scopes.colocate_with((name,)), graph.device(None), graph.name_scope("Initializer"):
        made = initial(graph, shape, dtype if dtype is not None else as_dtype("float32"))
        return _as_tensor(graph, made, dtype, name, shape)


def _as_tensor(graph: Graph, value: Any, dtype: DType | None, name: str, shape: TensorShape | None) -> Tensor:
    if isinstance(value, Tensor):
        if value.graph is not graph:
            raise InvalidArgumentError(f"variable '{name}': '{value.name}' belongs to another graph")
        if dtype is not None and value.dtype.base is not dtype:
            raise InvalidArgumentError(
                f"variable '{name}' is {dtype}; its initial value '{value.name}' is {value.dtype.base}"
            )
        return value
    return graph.constant(value, dtype, name="initial_value")


def _shape_of(name: str, value: Tensor, declared: TensorShape | None, validates: bool) -> TensorShape:
    """The shape that the variable is declared to have."""
    given = value.shape
    if declared is not None:
        if not given.is_compatible_with(declared):
            raise InvalidArgumentError(
                f"variable '{name}' is declared with shape {declared}; its initial value has {given}"
            )
        return declared if validates else UNKNOWN_SHAPE
    if not validates:
        return UNKNOWN_SHAPE
    if given.rank is None:
        raise InvalidArgumentError(
            f"variable '{name}': the shape of its initial value '{value.name}' is not known; give shape=, or "
            "validate_shape=False for a variable of any shape"
        )
    return given


def _with_handle(
    graph: Graph, scope: str, value: Tensor, shape: TensorShape, cached_on: str | None, validates: bool
) -> GraphVariable:
    name, dtype, ops = scope[:-1], value.dtype.base, graph.ops
    handle = ops.VarHandleOp(dtype=dtype, shape=shape, shared_name=name, name=scope)
    with graph.device(handle.op.device or None):
        with graph.name_scope("IsInitialized"):
            ops.VarIsInitializedOp(handle)
        initializer = ops.AssignVariableOp(handle, value, dtype=dtype, name="Assign")
        with graph.name_scope("Read"):
            snapshot: Tensor = ops.ReadVariableOp(handle, dtype=dtype)
    if cached_on is not None:
        with graph.device(None), graph.device(cached_on):
            snapshot = ops.Identity(snapshot)
    return HandleVariable(
        handle,
        dtype,
        shape,
        initializer=initializer,
        initial_value=value,
        snapshot=snapshot,
        trainable=False,
        caches=cached_on is not None,
    )


def _with_reference(
    graph: Graph, scope: str, value: Tensor, shape: TensorShape, cached_on: str | None, validates: bool
) -> GraphVariable:
    ops = graph.ops
    handle = ops.VariableV2(dtype=value.dtype.base, shape=shape, name=scope)
    with graph.colocate_with(handle):
        assigned = ops.Assign(handle, value, validate_shape=validates, name="Assign")
    if cached_on is not None:
        with graph.device(None), graph.device(cached_on):
            snapshot: Tensor = ops.Identity(handle, name="read")
    else:
        with graph.colocate_with(handle):
            snapshot = ops.Identity(handle, name="read")
    return ReferenceVariable(
        handle,
        value.dtype.base,
        shape,
        initializer=assigned.op,
        initial_value=value,
        snapshot=snapshot,
        trainable=False,
        caches=cached_on is not None,
    )
