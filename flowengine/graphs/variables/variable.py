"""`GraphVariable`: a variable of a graph under construction, with the nodes that set, read and change it.

A variable is known by a resource handle, or by a reference. Either has the same methods; the nodes differ,
and their names are those that TensorFlow gives them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from flowengine.core.dtypes import DType, resource
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.graphs.conversion import convert
from flowengine.graphs.operators import TensorOperators
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.graphs.variables.saved_slice import SavedSlice

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph


class GraphVariable(TensorOperators, ABC):
    """A variable: a tensor that outlives steps. `graph.variable` makes it; `name` is `w:0` for a node `w`.

    handle          a resource handle of the variable, or a reference to it
    dtype, shape    those of its value; the shape may be partial
    initial_value   the tensor that `initializer` sets it to; None if a MetaGraphDef did not have it
    initializer     the operation that gives it its first value
    snapshot        a tensor of its value that was made with it
    trainable       whether optimizers change it by default
    constraint      a function of a Tensor that an optimizer applies to its new value, or None
    caches          whether `snapshot` is on a caching device, and reads use it
    save_slice      the part of a larger variable that it is, or None

    Methods raise InvalidArgumentError for a `value`, `delta`, `indices` or `updates` of another type or
    shape. A step that uses it before its initializer has run fails with FailedPreconditionError.

    >>> graph = fe.Graph()
    >>> w = graph.variable([[1.0, 2.0], [3.0, 4.0]], name="w")
    >>> added, row = w.assign_add([[1.0, 1.0], [1.0, 1.0]]), w.scatter_update([1], [[0.0, 9.0]])
    >>> with fe.blocking.Session(graph) as session:
    ...     initialized = session.initialize()
    ...     for fetch in (added, w.assign_sub(w.read() / 2.0), row):
    ...         print(session.run(fetch).tolist())
    [[2.0, 3.0], [4.0, 5.0]]
    [[1.0, 1.5], [2.0, 2.5]]
    [[1.0, 1.5], [0.0, 9.0]]
    >>> rows, updates, value = [0], [[2.0, 2.0]], [[1.0, 2.0], [3.0, 4.0]]
    >>> changed = [w.assign(value), w.scatter_add(rows, updates), w.scatter_sub(rows, updates)]
    >>> changed += [w.scatter_mul(rows, updates), w.scatter_div(rows, updates)]
    >>> changed += [w.scatter_min(rows, updates), w.scatter_max(rows, updates)]
    >>> changed += [w.scatter_nd_update([[0, 1]], [7.0]), w.scatter_nd_add([[0, 1]], [1.0])]
    >>> changed += [w.scatter_nd_sub([[0, 1]], [1.0]), w.rows([0])]
    >>> alone = [w.assign_op(value), w.assign_add_op(value), w.assign_sub_op(w.value())]
    >>> proto = graph.variable(w.initialized_value()).to_proto()
    """

    #: Whether it has a resource handle, and not a reference.
    is_resource: bool

    def __init__(
        self,
        handle: Tensor,
        dtype: DType,
        shape: TensorShape,
        *,
        initializer: Operation,
        initial_value: Tensor | None,
        snapshot: Tensor,
        trainable: bool,
        constraint: Callable[[Tensor], Tensor] | None = None,
        caches: bool = False,
    ) -> None:
        self.handle = handle
        self._dtype = dtype
        self._shape = shape
        self.initializer = initializer
        self.initial_value = initial_value
        self.snapshot = snapshot
        self.trainable = trainable
        self.constraint = constraint
        self.save_slice: SavedSlice | None = None
        self._caches = caches
        self._initialized: Tensor | None = None

    @property
    def graph(self) -> Graph:
        return self.handle.graph

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def shape(self) -> TensorShape:
        """The declared shape, which may be partial."""
        return self._shape

    @property
    def name(self) -> str:
        """`node:0`, as a feed or a saver would name it."""
        return self.handle.name

    @property
    def op(self) -> Operation:
        """The node that makes the handle or reference."""
        return self.handle.op

    @property
    def device(self) -> str:
        """The device that its node asks for, or empty."""
        return self.op.device

    def __repr__(self) -> str:
        return f"<GraphVariable '{self.name}' shape={self.shape} dtype={self.dtype}>"

    def __flowengine_tensor__(
        self, graph: Graph, dtype: DType | None = None, name: str | None = None
    ) -> Tensor:
        """Return its value as a tensor, or its handle if a reference or resource is requested."""
        if dtype is not None and (dtype.is_ref or dtype is resource):
            return self.handle
        return self.value()

    def __flowengine_fetch__(self) -> Tensor:
        """Return the tensor that a session fetches: the variable's value at some moment of the step."""
        return self.snapshot

    # -- reading -----------------------------------------------------------------------------------

    def value(self) -> Tensor:
        """Return its value, the cached one if it has a caching device."""
        return self.snapshot if self._caches else self._current()

    @abstractmethod
    def _current(self) -> Tensor:
        """A tensor of the value at some moment of the step."""

    def read(self, name: str = "Read") -> Tensor:
        """Return a tensor of its value that is read after the control dependencies around."""
        with self.graph.name_scope(name):
            return self._read_now()

    @abstractmethod
    def _read_now(self) -> Tensor:
        """Return a tensor of the value, read by a new node."""

    @abstractmethod
    def rows(self, indices: Any, *, name: str | None = None) -> Tensor:
        """Return some rows, read on the variable's device: indices (...) int32 or int64 -> (..., *shape[1:]).

        No other rows are read, and the gradient is of these rows. An index out of range fails the step.
        """

    def initialized(self) -> Tensor:
        """Return whether it has a value: () bool, the same tensor each time."""
        if self._initialized is None:
            with self.graph.scopes.outside(), self.graph.name_scope(None):
                self._initialized = self._asked_for_value()
        return self._initialized

    @abstractmethod
    def _asked_for_value(self) -> Tensor:
        """Add a node that computes whether the variable has a value."""

    def initialized_value(self) -> Tensor:
        """Return its value if it has one, else the initial value, from which another variable may start."""
        initial, ops = self.initial_value, self.graph.ops
        if initial is None:
            raise InvalidArgumentError(f"the initial value of '{self.name}' is not known")
        has_value = self.initialized()
        with self._there(), self.graph.name_scope("initialized_value"):
            switch = ops.Switch if self.is_resource else ops.RefSwitch
            present = switch(self.handle, has_value).output_true
            value = (
                ops.ReadVariableOp(present, dtype=self.dtype) if self.is_resource else ops.Identity(present)
            )
            found: Tensor = ops.Merge([ops.Switch(initial, has_value).output_false, value]).output
        return found

    # -- changing ----------------------------------------------------------------------------------

    def assign(self, value: Any, *, name: str | None = None) -> Tensor:
        """Set it to a `value` of its shape, and return its value afterwards."""
        return self._after(self.assign_op(value, name=name))

    def assign_add(self, delta: Any, *, name: str | None = None) -> Tensor:
        """Add a `delta` of its shape, and return its value afterwards."""
        return self._after(self.assign_add_op(delta, name=name))

    def assign_sub(self, delta: Any, *, name: str | None = None) -> Tensor:
        """Subtract a `delta` of its shape, and return its value afterwards."""
        return self._after(self.assign_sub_op(delta, name=name))

    @abstractmethod
    def assign_op(self, value: Any, *, name: str | None = None) -> Operation:
        """Return the operation alone that sets it to a value."""

    @abstractmethod
    def assign_add_op(self, delta: Any, *, name: str | None = None) -> Operation:
        """Return the operation alone that adds a value of its shape."""

    @abstractmethod
    def assign_sub_op(self, delta: Any, *, name: str | None = None) -> Operation:
        """Return the operation alone that subtracts a value of its shape."""

    @abstractmethod
    def _after(self, change: Operation) -> Tensor:
        """The value after a change."""

    def scatter_update(self, indices: Any, updates: Any, *, name: str | None = None) -> Tensor:
        """Set rows: indices (...) int32 or int64, updates (..., *shape[1:]); returns the value afterwards."""
        return self._scattered("Update", indices, updates, name)

    def scatter_add(self, indices: Any, updates: Any, *, name: str | None = None) -> Tensor:
        """Add to rows; those of equal index add up. Shapes as `scatter_update`."""
        return self._scattered("Add", indices, updates, name)

    def scatter_sub(self, indices: Any, updates: Any, *, name: str | None = None) -> Tensor:
        """Subtract from rows. Shapes as `scatter_update`."""
        return self._scattered("Sub", indices, updates, name)

    def scatter_mul(self, indices: Any, updates: Any, *, name: str | None = None) -> Tensor:
        """Multiply rows. Shapes as `scatter_update`."""
        return self._scattered("Mul", indices, updates, name)

    def scatter_div(self, indices: Any, updates: Any, *, name: str | None = None) -> Tensor:
        """Divide rows. Shapes as `scatter_update`."""
        return self._scattered("Div", indices, updates, name)

    def scatter_min(self, indices: Any, updates: Any, *, name: str | None = None) -> Tensor:
        """Take the lesser of a row and its update, by element. Shapes as `scatter_update`."""
        return self._scattered("Min", indices, updates, name)

    def scatter_max(self, indices: Any, updates: Any, *, name: str | None = None) -> Tensor:
        """Take the greater of a row and its update, by element. Shapes as `scatter_update`."""
        return self._scattered("Max", indices, updates, name)

    def scatter_nd_update(self, indices: Any, updates: Any, *, name: str | None = None) -> Tensor:
        """Set slices: indices (..., K), updates (..., *shape[K:]); returns the value afterwards."""
        return self._scattered("NdUpdate", indices, updates, name)

    def scatter_nd_add(self, indices: Any, updates: Any, *, name: str | None = None) -> Tensor:
        """Add to slices. Shapes as `scatter_nd_update`."""
        return self._scattered("NdAdd", indices, updates, name)

    def scatter_nd_sub(self, indices: Any, updates: Any, *, name: str | None = None) -> Tensor:
        """Subtract from slices. Shapes as `scatter_nd_update`."""
        return self._scattered("NdSub", indices, updates, name)

    @abstractmethod
    def _scattered(self, kind: str, indices: Any, updates: Any, name: str | None) -> Tensor:
        """The value after a change of some of it."""

    def _there(self) -> AbstractContextManager[None]:
        """Nodes that need the variable itself are built on its device, whatever is around."""
        return self.graph.scopes.alone_on(self.op.device)

    # -- describing --------------------------------------------------------------------------------

    def to_proto(self) -> Any:
        """Return the VariableDef of this variable, as the collections of a MetaGraphDef hold it."""
        from flowengine.ir.proto import SaveSliceInfoDef, VariableDef

        found = VariableDef(
            variable_name=self.name,
            initializer_name=self.initializer.name,
            snapshot_name=self.snapshot.name,
            is_resource=self.is_resource,
            trainable=self.trainable,
        )
        if self.initial_value is not None:
            found.initial_value_name = self.initial_value.name
        part = self.save_slice
        if part is not None:
            found.save_slice_info_def.CopyFrom(
                SaveSliceInfoDef(
                    full_name=part.full_name,
                    full_shape=part.full_shape,
                    var_offset=part.offset,
                    var_shape=part.shape,
                )
            )
        return found


class HandleVariable(GraphVariable):
    """A variable that is known by a resource handle."""

    is_resource = True

    def _current(self) -> Tensor:
        return self._read_now()

    def _read_now(self) -> Tensor:
        with self._there():
            found: Tensor = self.graph.ops.ReadVariableOp(self.handle, dtype=self.dtype)
        return found

    def rows(self, indices: Any, *, name: str | None = None) -> Tensor:
        with self._there():
            found: Tensor = self.graph.ops.ResourceGather(self.handle, indices, dtype=self.dtype, name=name)
        return found

    def _asked_for_value(self) -> Tensor:
        name = f"{self.op.name}/IsInitialized/VarIsInitializedOp"
        if name in self.graph:
            return self.graph.tensor(f"{name}:0")
        with self._there():
            found: Tensor = self.graph.ops.VarIsInitializedOp(self.handle, name=name)
        return found

    def assign_op(self, value: Any, *, name: str | None = None) -> Operation:
        value = self._of_own_shape(value, "value", name or "AssignVariableOp")
        with self._there():
            found: Operation = self.graph.ops.AssignVariableOp(
                self.handle, value, dtype=self.dtype, name=name
            )
        return found

    def assign_add_op(self, delta: Any, *, name: str | None = None) -> Operation:
        delta = self._of_own_shape(delta, "delta", name or "AssignAddVariableOp")
        with self._there():
            found: Operation = self.graph.ops.AssignAddVariableOp(
                self.handle, delta, dtype=self.dtype, name=name
            )
        return found

    def assign_sub_op(self, delta: Any, *, name: str | None = None) -> Operation:
        delta = self._of_own_shape(delta, "delta", name or "AssignSubVariableOp")
        with self._there():
            found: Operation = self.graph.ops.AssignSubVariableOp(
                self.handle, delta, dtype=self.dtype, name=name
            )
        return found

    def _of_own_shape(self, value: Any, what: str, op: str) -> Any:
        """Convert a value to this variable's type and check its shape, which the ops do not do."""
        value = convert(self.graph, value, self.dtype, what)
        if not self.shape.is_compatible_with(value.shape):
            raise InvalidArgumentError(
                f"{op}: variable '{self.name}' is of shape {self.shape}, the {what} '{value.name}' of "
                f"{value.shape}"
            )
        return value

    def _after(self, change: Operation) -> Tensor:
        with self.graph.control_dependencies([change]):
            return self._read_now()

    def _scattered(self, kind: str, indices: Any, updates: Any, name: str | None) -> Tensor:
        scatter = getattr(self.graph.ops, f"ResourceScatter{kind}")
        typed = {} if kind.startswith("Nd") else {"dtype": self.dtype}
        with self._there():
            change = scatter(self.handle, indices, updates, name=name, **typed)
        return self._after(change)


class ReferenceVariable(GraphVariable):
    """A variable that is known by a reference, as the first TensorFlow made them."""

    is_resource = False

    @property
    def ref(self) -> Tensor:
        """The reference: the same as `handle`."""
        return self.handle

    def _current(self) -> Tensor:
        return self.snapshot

    def _read_now(self) -> Tensor:
        with self._there():
            found: Tensor = self.graph.ops.Identity(self.handle)
        return found

    def rows(self, indices: Any, *, name: str | None = None) -> Tensor:
        with self._there():
            found: Tensor = self.graph.ops.GatherV2(self.handle, indices, 0, name=name)
        return found

    def _asked_for_value(self) -> Tensor:
        name = f"{self.op.name}/IsVariableInitialized"
        with self._there():
            found: Tensor = self.graph.ops.IsVariableInitialized(self.handle, name=name)
        return found

    def assign_op(self, value: Any, *, name: str | None = None) -> Operation:
        whole = self.shape.is_fully_defined
        with self._there():
            found: Tensor = self.graph.ops.Assign(self.handle, value, validate_shape=whole, name=name)
        return found.op

    def assign_add_op(self, delta: Any, *, name: str | None = None) -> Operation:
        with self._there():
            found: Tensor = self.graph.ops.AssignAdd(self.handle, delta, name=name)
        return found.op

    def assign_sub_op(self, delta: Any, *, name: str | None = None) -> Operation:
        with self._there():
            found: Tensor = self.graph.ops.AssignSub(self.handle, delta, name=name)
        return found.op

    def _after(self, change: Operation) -> Tensor:
        return change.outputs[0]

    def _scattered(self, kind: str, indices: Any, updates: Any, name: str | None) -> Tensor:
        with self._there():
            found: Tensor = getattr(self.graph.ops, f"Scatter{kind}")(
                self.handle, indices, updates, name=name
            )
        return found


def from_proto(graph: Graph, definition: Any, *, import_scope: str = "") -> GraphVariable:
    """The variable of a VariableDef, message or bytes, whose nodes the graph has.

    import_scope   is put before the names. Raises NotFoundError for nodes that are not there.
    """
    from flowengine.ir.proto import VariableDef

    found = VariableDef.FromString(definition) if isinstance(definition, bytes) else definition
    scope = f"{import_scope}/" if import_scope else ""
    handle = graph.tensor(scope + found.variable_name)
    node = graph[handle.node_name]
    kind = HandleVariable if found.is_resource else ReferenceVariable
    initial, snapshot = found.initial_value_name, graph.tensor(scope + found.snapshot_name)
    dtype, shape = node.attrs.get("dtype"), node.attrs.get("shape")
    if not isinstance(dtype, DType) or not isinstance(shape, TensorShape):
        raise InvalidArgumentError(f"'{node.name}' ({node.op}) is no variable")
    variable = kind(
        handle,
        dtype.base,
        shape,
        initializer=graph.operation(scope + found.initializer_name),
        initial_value=graph.tensor(scope + initial) if initial else None,
        snapshot=snapshot,
        trainable=found.trainable,
        caches=snapshot.op.type == "Identity" and found.is_resource,
    )
    if found.HasField("save_slice_info_def"):
        part = found.save_slice_info_def
        variable.save_slice = SavedSlice(
            scope + part.full_name, tuple(part.full_shape), tuple(part.var_offset), tuple(part.var_shape)
        )
    return variable
