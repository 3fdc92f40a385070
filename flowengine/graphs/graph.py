"""`Graph`: a graph to load, to write, and to build node by node.

Every op of the registry has a constructor under `graph.ops`; see `graphs.constructor` for how arguments are
converted. Shapes are inferred as nodes are added, so a contradiction is an error where it is written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from flowengine.core.dtypes import DType, as_dtype
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.names import parse_tensor_name
from flowengine.core.public_names.missing import missing_member
from flowengine.core.shapes import TensorShape
from flowengine.graphs.attrs import constant as constant_attr
from flowengine.graphs.constructor import Ops, build_node
from flowengine.graphs.control.methods import GraphControlFlow
from flowengine.graphs.errors import ConstructionTypeError, at_construction, builds
from flowengine.graphs.given import checked_nodes, graph_path, is_path
from flowengine.graphs.importing import GraphReader
from flowengine.graphs.node_changes import GraphNodes
from flowengine.graphs.node_devices import decided
from flowengine.graphs.scopes import Scopes
from flowengine.graphs.source_lines import creation_site
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.graphs.values import reshaped, to_value
from flowengine.graphs.variables.methods import GraphVariables
from flowengine.ir.attrs import AttrValue, TensorAttr
from flowengine.ir.graph import GRAPH_VERSION, Node, OutputPort
from flowengine.ir.marks import SEGMENT
from flowengine.ir.opdef import OpDef, OpRegistry
from flowengine.ops.load import registry as standard_registry
from flowengine.ops.shape_inference import ShapeInference

if TYPE_CHECKING:
    from flowengine.graphs.op_types import Ops as OpConstructors
    from flowengine.graphs.scopes import DeviceScope
    from flowengine.ir.graphfile import LoadedGraph


class Graph(GraphVariables, GraphControlFlow, GraphReader, GraphNodes):
    """A graph under construction.

    nodes      nodes to begin with, such as those of another graph
    registry   the ops that it may use: this package's by default; for ops of your own, register them in
               `OpRegistry(parent=flowengine.ops.load.registry())`
    producer, min_consumer   TensorFlow's versions of the graph's format

    Its methods raise InvalidArgumentError for arguments that do not fit, with the line that built the node.

    >>> graph = fe.Graph()
    >>> x = graph.placeholder("float32", [None, 3], name="x")
    >>> graph.ops.MatMul(x, graph.constant([[1.0], [2.0], [3.0]]), name="y")
    <Tensor 'y:0' shape=[?,1] dtype=float32>
    >>> with graph.name_scope("head"), graph.device("/cpu:0"):
    ...     graph.create_op("Softmax", [graph.tensor("y:0")])
    <Operation 'head/Softmax' type=Softmax>
    >>> graph.save("graph.pb")
    >>> copy, other = fe.Graph.load("graph.pb"), fe.Graph.from_graph_def(graph.to_graph_def())
    >>> [each.name for each in copy.operations()], other.operation("y").outputs
    (['x', 'Const', 'y', 'head/Softmax'], (<Tensor 'y:0' shape=[?,1] dtype=float32>,))
    >>> with graph.colocate_with(x), graph.control_dependencies([graph.group(x)]):
    ...     scale = graph.append_constant(graph["Const"].attrs["value"], "scale")
    >>> graph.shape_of(scale.port), graph.constant_value(scale).tolist(), graph.node_names([scale, "x"])
    (TensorShape([3, 1]), [[1.0], [2.0], [3.0]], ('scale', 'x'))
    >>> graph.refine_shape(x.port, fe.TensorShape([8, 3]))
    >>> x.shape, graph.variable_behind(graph.variable(0.0).handle)
    (TensorShape([8, 3]), (TensorShape([]), flowengine.float32))
    """

    def __init__(
        self,
        nodes: Iterable[Node] = (),
        *,
        registry: OpRegistry | None = None,
        producer: int = GRAPH_VERSION,
        min_consumer: int = 0,
    ) -> None:
        super().__init__(checked_nodes(nodes), producer=producer, min_consumer=min_consumer)
        self._registry = registry
        self._shapes: ShapeInference | None = None
        self._refined: dict[str, dict[int, TensorShape]] = {}
        #: {Merge of a loop variable that is declared to change its shape: a shape for all of its values}
        self._relaxed: dict[str, TensorShape] = {}
        self._contexts = {}
        self._kept = []
        #: {op: its constructor, which takes the graph first}, of ops that were used.
        self._constructors: dict[str, Callable[..., Any]] = {}
        self.scopes = Scopes(self._nodes)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            raise missing_member(self, name, "OF_GRAPHS")

    def __repr__(self) -> str:
        fed = [f"{node.name}:0" for node in self if node.is_placeholder]
        shown = ", ".join(fed[:4]) + (", ..." if len(fed) > 4 else "")
        return f"<Graph of {len(self)} nodes{f', to be fed {shown}' if fed else ''}>"

    def _repr_html_(self) -> str:
        from flowengine.graphs.drawing import as_html

        return as_html(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as the GraphDef that it is, with its collections; a registry of one's own goes along."""
        from flowengine.graphs.meta_graph import pickled

        return pickled(self, None if self._registry is standard_registry() else self._registry)

    def __copy__(self) -> Graph:
        """Return an independent graph with the same nodes and its own collections."""
        other = Graph(self, registry=self._registry, producer=self.producer, min_consumer=self.min_consumer)
        other.library, other.source, other.seed = self.library, self.source, self.seed
        if self.collections.keys:
            from flowengine.graphs.meta_graph import copy_collections

            copy_collections(self, other)
        other._refined = {name: dict(shapes) for name, shapes in self._refined.items()}
        other._kept = list(self._kept)
        return other

    def __deepcopy__(self, memo: object) -> Graph:
        return self.__copy__()

    @property
    def ops(self) -> OpConstructors:
        """The constructors, one per op: `graph.ops.MatMul(a, b)` adds a node and returns its output."""
        # Made for each use: if the graph kept it, neither would be freed before the collector runs.
        constructors: Any = Ops(self, self._constructors)
        return constructors  # type: ignore[no-any-return]

    @property
    def registry(self) -> OpRegistry:
        """The ops that this graph may use."""
        if self._registry is None:
            self._registry = standard_registry()
        return self._registry

    @classmethod
    @builds
    def from_graph_def(cls, data: Any, *, strict: bool = False, registry: OpRegistry | None = None) -> Graph:
        """Read a GraphDef: its bytes (binary or text form), a str (text form) or the message itself.

        `data` may be a MetaGraphDef; the graph then has its collections. Ops that the registry does not know
        become opaque nodes; with `strict` they are faults. Raises InvalidArgumentError with all `faults` of
        the graph.
        """
        if is_path(data):
            raise InvalidArgumentError(
                f"{os.fspath(data)!r} is a path, not a graph: Graph.load(path) reads the file"
            )
        # Here because protobuf costs more to import than all of this package.
        from flowengine.ir.graphfile import load_graph

        return cls(registry=registry)._filled(load_graph(data), strict)

    @classmethod
    @builds
    def load(
        cls, path: str | os.PathLike[str], *, strict: bool = False, registry: OpRegistry | None = None
    ) -> Graph:
        """Read a file: a GraphDef or MetaGraphDef, binary or text, or a SavedModel's directory.

        `strict`, `registry` and errors are those of `from_graph_def`. Raises NotFoundError if there is no
        `path`.
        """
        from flowengine.ir.graphfile import load_file

        return cls(registry=registry)._filled(load_file(graph_path(path)), strict)

    def _filled(self, loaded: LoadedGraph, strict: bool) -> Graph:
        """This graph, which has nothing yet, with the nodes and collections of what was read."""
        from flowengine.ir.graphdef import read_into

        read_into(self, loaded.graph_def, self.registry, strict=strict, producer_ops=loaded.producer_ops)
        self._unread_collections = loaded.collections or None
        return self

    @builds
    def to_graph_def(self) -> Any:
        """This graph as a GraphDef message that TensorFlow can load."""
        from flowengine.ir.graphdef import graph_to_def

        return graph_to_def(self)

    @builds
    def tensor(self, name: str) -> Tensor:
        """Return the tensor called `node:slot`; NotFoundError or InvalidArgumentError if there is none."""
        _check_name(name)
        node_name, slot = parse_tensor_name(name)
        node = self[node_name]
        if node.op_def is not None and slot >= len(node.output_types):
            raise InvalidArgumentError(
                f"'{node_name}' ({node.op}) has {len(node.output_types)} outputs; there is no '{name}'"
            )
        return Tensor(self, node_name, slot)

    @builds
    def operation(self, name: str) -> Operation:
        """Return the operation of this name; NotFoundError if there is none."""
        _check_name(name)
        self[name]
        return Operation(self, name)

    def operations(self) -> list[Operation]:
        """Return all operations in the order of their construction."""
        return [Operation(self, name) for name in self._nodes]

    def shape_of(self, port: OutputPort) -> TensorShape:
        """Return the shape of the output `port` as far as it is known; unknown for an opaque node."""
        return self._inference().shape(port)

    def refine_shape(self, port: OutputPort, shape: TensorShape) -> None:
        """Merge `shape` into the known shape of the output `port`; see `Tensor.set_shape`."""
        try:
            self._inference().refine(port, shape)
        except InvalidArgumentError as error:
            raise at_construction(error) from None

    def check_shapes(self, node: Node) -> None:
        """Raise InvalidArgumentError (a ValueError) if the shapes of a node contradict each other.

        >>> graph = fe.Graph()
        >>> graph.check_shapes(fe.exp(graph.constant(1.0)).op.node)
        """
        try:
            self._inference().check(node)
        except InvalidArgumentError as error:
            raise at_construction(error) from None

    def relax_shape(self, merge: str, shape: TensorShape) -> None:
        """Let the loop variable of this `merge` node change its shape; all its shapes fit `shape`.

        >>> graph = fe.Graph()
        >>> enter = graph.ops.Enter(graph.constant([1.0]), frame_name="loop")
        >>> merge = graph.ops.Merge([enter, enter]).output
        >>> graph.relax_shape(merge.op.name, fe.TensorShape([None]))
        """
        self._inference().relax(merge, shape)

    def constant_value(self, tensor: Tensor) -> Any | None:
        """Return the value of a small `tensor` if the graph alone determines it, else None."""
        return self._inference().values.value(tensor.port)

    def variable_behind(self, handle: Tensor) -> tuple[TensorShape, DType]:
        """Return the shape and type of the variable that a resource handle refers to.

        Raises InvalidArgumentError where the graph does not lead to the op that made the handle.
        """
        source = self._inference().handle_source(handle.port)
        dtype = None if source is None else source.attrs.get("dtype")
        if not isinstance(dtype, DType):
            raise InvalidArgumentError(f"'{handle.name}' is not the handle of a variable of this graph")
        return self._inference().handle_shape(handle.port), dtype

    def _inference(self) -> ShapeInference:
        if self._shapes is None:
            self._shapes = ShapeInference(self)
            self._shapes.refined, self._shapes.relaxed = self._refined, self._relaxed
        self._shapes.producer = self.producer
        self._shapes.update()
        return self._shapes

    @builds
    def create_op(
        self,
        op: str,
        inputs: Sequence[Any] = (),
        attrs: dict[str, Any] | None = None,
        name: str | None = None,
    ) -> Operation:
        """Add a node of the op named `op`; `inputs` and `attrs` as for its constructor in `ops`.

        `name` is made unique. Raises NotFoundError for an unknown op, InvalidArgumentError for arguments that
        do not fit.
        """
        definition = self.registry[op]
        if not isinstance(inputs, list | tuple):
            raise ConstructionTypeError(f"the inputs of {op} are a list, one for each: not {inputs!r}")
        if len(inputs) != len(definition.inputs):
            raise ConstructionTypeError(
                f"{op} takes {len(definition.inputs)} inputs; {len(inputs)} are given"
            )
        return Operation(self, build_node(self, definition, inputs, attrs or {}, name).name)

    @builds
    def constant(self, value: Any, dtype: Any = None, shape: Any = None, name: str = "Const") -> Tensor:
        """Add a constant. A Python float is float32 unless `dtype` says otherwise.

        value   a number, bytes, text, array, or nested lists of them
        shape   a shape to give to the value, or to repeat a single number in

        Raises InvalidArgumentError for a value that is no tensor, does not fit into dtype, or has another
        number of elements than shape.
        """
        converted, actual = to_value(value, None if dtype is None else as_dtype(dtype))
        if shape is not None:
            converted = reshaped(converted, TensorShape(shape))
        return self.append_constant(constant_attr(converted, actual), self.scopes.unique_name(name))

    @builds
    def placeholder(self, dtype: Any, shape: Any = None, name: str = "Placeholder") -> Tensor:
        """Add a placeholder: every step must feed its value. `shape` may have None for unknown sizes, or be
        None.
        """
        result: Tensor = self.ops.Placeholder(dtype=as_dtype(dtype), shape=TensorShape(shape), name=name)
        return result

    @builds
    def group(self, *inputs: Tensor | Operation, name: str = "group_deps") -> Operation:
        """Add an operation that runs after all `inputs`, tensors or operations, and computes nothing."""
        with self.control_dependencies(inputs):
            result: Operation = self.ops.NoOp(name=name)
        return result

    @builds
    def name_scope(self, name: str | None) -> AbstractContextManager[str]:
        """Prefix the names of the nodes built inside; `"a/"` enters the scope a again, None the root.

        The context's value is the prefix with its slash; a node named by it gets exactly that name.
        """
        return self.scopes.name_scope(name)

    @builds
    def device(self, device: DeviceScope) -> AbstractContextManager[None]:
        """Ask for a device for the nodes built inside; parts left open come from outer scopes.

        device   a name, whole or in part, such as "/gpu:0"; None, to ignore outer scopes; or a function,
                 which is called with each operation that is built inside and returns a name. The operation's
                 `device` is the request of inner scopes
        """
        return self.scopes.on_device(device)

    @builds
    def control_dependencies(
        self, inputs: Iterable[Tensor | Operation | str] | None
    ) -> AbstractContextManager[None]:
        """Let the nodes built inside run after `inputs`; None drops the dependencies of outer scopes."""
        return self.scopes.control_dependencies(None if inputs is None else self.node_names(inputs))

    @builds
    def colocate_with(self, *inputs: Tensor | Operation | str) -> AbstractContextManager[None]:
        """Ask for the devices of `inputs` for the nodes built inside, whatever device scopes are around."""
        return self.scopes.colocate_with(self.node_names(inputs))

    @builds
    def gradient_override(self, **names: str) -> AbstractContextManager[None]:
        """Let nodes of some ops built inside have gradient functions of other names.

        >>> graph = fe.Graph()
        >>> with graph.gradient_override(Relu="GuidedRelu"):
        ...     y = graph.ops.Relu(graph.constant(1.0))

        The function is registered by `@flowengine.gradients.registry.gradient("GuidedRelu")`, and looked for
        when the node is differentiated. Raises NotFoundError for an op that there is not.
        """
        for op in names:
            self.registry[op]
        return self.scopes.gradients_by(names)

    def recompute(self) -> AbstractContextManager[None]:
        """Let what is built inside be computed again for its gradient, instead of being kept in memory.

        >>> graph = fe.Graph()
        >>> with graph.recompute():
        ...     y = fe.exp(graph.constant(1.0))

        A step keeps the inputs of these nodes and the outputs that other nodes take. A written graph has the
        mark.
        """
        return self.scopes.recomputed()

    def append(
        self,
        definition: OpDef,
        name: str,
        inputs: tuple[OutputPort, ...],
        attrs: dict[str, AttrValue],
    ) -> Node:
        """Add a node called `name` from its final parts, under the current device and control dependencies.

        definition, inputs, attrs   its op, the ports of all its inputs, and all its attributes

        Infers its shapes; if that raises InvalidArgumentError, the node is not added.

        >>> graph = fe.Graph()
        >>> graph.append(graph.registry["NoOp"], "nothing", (), {}).op
        'NoOp'
        """
        if name in self._nodes:
            raise InvalidArgumentError(f"a node named '{name}' exists already")
        scopes = self.scopes
        control_inputs = scopes.control_inputs
        if scopes.pivot and not inputs and scopes.pivot not in control_inputs:
            # Beside its other control inputs, because the pivot puts the node into its iteration and branch.
            control_inputs = (*control_inputs, scopes.pivot)
        if scopes.context is not None:
            self.place_in(scopes.context, (name,))
            if scopes.bring is not None:
                control_inputs = scopes.context.controls(inputs, control_inputs)
        if scopes.colocation and "_class" not in attrs:
            attrs["_class"] = tuple(f"loc:@{other}".encode() for other in scopes.colocation)
        if scopes.gradient_names and definition.name in scopes.gradient_names:
            attrs.setdefault("_gradient_op_type", scopes.gradient_names[definition.name].encode())
        if scopes.segment and inputs:
            attrs.setdefault(SEGMENT, scopes.segment)
        site, types = creation_site(), definition.output_types(attrs)
        node = Node(
            name, definition.name, inputs, control_inputs, attrs, scopes.device, definition, types, site
        )
        self._inference().add(node)
        node = self.add(node)
        return decided(self, node) if scopes.deciders or scopes.colocation else node

    def append_constant(self, value: TensorAttr, name: str) -> Tensor:
        """Add a Const of this `value` under exactly this name."""
        self.append(self.registry["Const"], name, (), {"value": value, "dtype": value.dtype})
        return Tensor(self, name, 0)

    def node_names(self, inputs: Iterable[Tensor | Operation | str]) -> tuple[str, ...]:
        """Return the nodes of `inputs`; InvalidArgumentError for those of another graph."""
        if isinstance(inputs, Tensor | Operation | str):
            raise ConstructionTypeError(f"give a list of tensors and operations: write [{inputs!r}]")
        names = []
        for each in inputs:
            if isinstance(each, Tensor | Operation):
                if each.graph is not self:
                    raise InvalidArgumentError(f"'{each.name}' belongs to another graph")
                names.append(each.node_name if isinstance(each, Tensor) else each.name)
            elif isinstance(each, str):
                names.append(self[each.removeprefix("^").partition(":")[0]].name)
            else:
                raise InvalidArgumentError(f"{each!r} is neither a Tensor nor an Operation of this graph")
        return tuple(names)


def _check_name(name: str) -> None:
    if not isinstance(name, str):
        raise ConstructionTypeError(f"a name must be a str, not {name!r}")


__all__ = ["DType", "Graph", "Operation", "Tensor"]
