"""Nodes from elsewhere: a GraphDef imported into a graph that has nodes, and parts of graphs copied.

The nodes are all checked before any is added, so an error does not change the graph.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.names import parse_tensor_name
from flowengine.graphs.conversion import convert, stands_for_tensor
from flowengine.graphs.errors import ConstructionTypeError, ConstructionValueError, at_construction, builds
from flowengine.graphs.node_devices import decided
from flowengine.graphs.scopes import filled
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.graphs.values import to_value
from flowengine.ir.graph import Node, NodeGraph, OutputPort

if TYPE_CHECKING:
    from flowengine.graphs.control.contexts import ControlContext
    from flowengine.graphs.graph import Graph


def import_graph_def(
    graph: Graph,
    data: Any,
    prefix: str,
    input_map: Mapping[str, Any] | None,
    return_elements: Sequence[str] | None,
    *,
    origin: Graph | None = None,
) -> list[Tensor | Operation] | None:
    """See `Graph.import_graph_def`; `origin` is the graph of which the branches and loops are."""
    if isinstance(data, NodeGraph):
        source = data
    elif isinstance(data, int | float | list | tuple | dict):
        raise ConstructionTypeError(f"a GraphDef is bytes, text, its message or a Graph, not {data!r}")
    else:
        # Here because protobuf costs more to import than all of this package.
        from flowengine.ir.graphdef import read_into
        from flowengine.ir.graphfile import load_graph

        supplied = [_port(key) for key in input_map or () if not key.startswith("^")]
        try:
            loaded = load_graph(data)
            source = read_into(
                NodeGraph(),
                loaded.graph_def,
                graph.registry,
                supplied=supplied,
                producer_ops=loaded.producer_ops,
            )
        except InvalidArgumentError as error:
            raise at_construction(error) from None
    mapping = _MappedInputs(graph, source, input_map or {})
    names = _new_names(graph, source, prefix)
    take_library(graph, source)
    mapping.convert(names)
    mapping.add(names)
    contexts = ("cond_context", "while_context")
    if origin is not None and names and any(origin.collection(key) for key in contexts):
        from flowengine.graphs.control.messages import carry_contexts

        old = next(iter(names))
        carry_contexts(origin, graph, names[old].removesuffix(old), names, mapping.ports)
    if return_elements is None:
        return None
    return [_element(graph, names, mapping, each) for each in return_elements]


def copy_nodes(
    source: Graph,
    graph: Graph,
    outputs: Iterable[Tensor | Operation],
    prefix: str,
    input_map: Mapping[str, Any],
) -> list[Tensor | Operation]:
    """See `Graph.copy_into`."""
    wanted = list(outputs)
    stops = {_port(key) for key in input_map}
    names = [each.node_name if isinstance(each, Tensor) else each.name for each in wanted]
    reached: set[str] = set()
    while names:
        _reach(source, names, stops, reached)
        # The nodes that describe a branch or loop are copied with its members.
        names = [name for name in _anchors(source, reached) if name not in reached]
    part = source.rewritten([node for node in source if node.name in reached])
    elements = [each.name for each in wanted]
    found = import_graph_def(graph, part, prefix, input_map, elements, origin=source)
    assert found is not None
    return found


def _reach(source: Graph, names: Iterable[str], stops: Container[OutputPort], reached: set[str]) -> None:
    """Add nodes to those that are reached, and all that they depend on, up to the outputs that are stops."""
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            node = source[name]
            waiting += [port.node for port in node.inputs if port not in stops]
            waiting += node.control_inputs


def _anchors(source: Graph, reached: Container[str]) -> list[str]:
    """Return the nodes that describe the branches and loops whose decision is reached."""
    found: dict[int, ControlContext] = {}
    for node in source:
        context = source.context_of(node.name) if node.name in reached else None
        while context is not None and id(context) not in found:
            found[id(context)] = context
            context = context.outer
    return [name for each in found.values() if each.anchors[0] in reached for name in each.anchors]


class _MappedInputs:
    """The replacements in the graph for ports and nodes of another graph."""

    def __init__(self, graph: Graph, source: NodeGraph, input_map: Mapping[str, Any]) -> None:
        self.graph = graph
        self.source = source
        self.ports: dict[OutputPort, OutputPort] = {}
        self.controls: dict[str, str] = {}
        #: {port: the value given for it}, not converted before everything is checked.
        self._given: dict[OutputPort, Any] = {}
        used = {port for node in source for port in node.inputs}
        unused = []
        for key, value in input_map.items():
            if key.startswith("^"):
                given = value.op if isinstance(value, Tensor) else value
                self.controls[key[1:]] = given.name
                continue
            port = _port(key)
            if port not in used and port.node not in source:
                unused.append(key)
                continue
            self._given[port] = value
            if type(value) is Tensor:
                self._check(port, convert(graph, value).dtype, value.name)
            elif not stands_for_tensor(value):
                self._check(port, to_value(value)[1], f"{value!r:.80}")
        if unused:
            raise ConstructionValueError(
                f"input_map: the graph has nothing called {', '.join(sorted(unused))}"
            )

    def _check(self, port: OutputPort, dtype: DType, what: str) -> None:
        """TypeError (as InvalidArgumentError) where a port is of another type than what is given for it."""
        node = self.source.nodes.get(port.node)
        if node is not None and node.output_types:
            wanted = node.output_types[port.slot].base
            if dtype.base is not wanted:
                raise ConstructionTypeError(f"input_map: '{port}' is {wanted}; '{what}' is {dtype.base}")

    def convert(self, names: Mapping[str, str]) -> None:
        """Make a tensor of each value that is none; no node that is made takes one of the names to come."""
        graph, coming = self.graph, set(names.values())
        for port, value in self._given.items():
            name = None
            if not stands_for_tensor(value):
                name = graph.scopes.unique_name("Const")
                while name in coming:
                    name = graph.scopes.unique_name("Const")
            tensor = convert(graph, value, name=f"{name}/" if name else None)
            self._check(port, tensor.dtype, tensor.name)
            bring = graph.scopes.bring
            self.ports[port] = (tensor if bring is None else bring(tensor)).port

    def add(self, names: Mapping[str, str]) -> None:
        """Add the nodes of the source under their new names; loops are closed when all are there."""
        graph = self.graph
        scopes = graph.scopes
        outside, context = scopes.control_inputs, scopes.context
        if context is not None:
            graph.place_in(context, names.values())
        for node in self.source:
            added = self._renamed(node, names)
            if not added.inputs and not added.control_inputs and outside:
                added = replace(added, control_inputs=outside)
            if context is not None:
                controls = context.controls(added.inputs, added.control_inputs)
                added = replace(added, control_inputs=controls)
            if scopes.device:
                added = replace(added, device=filled(added.device, scopes.device))
            graph.add(added)
            if scopes.deciders:
                decided(graph, added)

    def _renamed(self, node: Node, names: Mapping[str, str]) -> Node:
        inputs = []
        for port in node.inputs:
            mapped = self.ports.get(port)
            if mapped is None:
                if port.node not in names:
                    raise ConstructionValueError(
                        f"'{node.name}' takes '{port}', which the graph does not have"
                    )
                mapped = OutputPort(names[port.node], port.slot)
            inputs.append(mapped)
        controls = [self.controls.get(each) or names[each] for each in node.control_inputs]
        attrs = dict(node.attrs)
        classes = attrs.get("_class")
        if classes:
            attrs["_class"] = tuple([_colocated(each, names) for each in classes])
        if "frame_name" in attrs:
            attrs["frame_name"] = self._frame(attrs["frame_name"], names, node.name)
        return replace(
            node,
            name=names[node.name],
            inputs=tuple(inputs),
            control_inputs=tuple(controls),
            attrs=attrs,
            source=None,
        )

    def _frame(self, frame: bytes, names: Mapping[str, str], name: str) -> bytes:
        """The frame under the prefix of its nodes, so that two imports are two loops."""
        new = names[name]
        return new[: len(new) - len(name)].encode() + frame if new.endswith(name) else frame


def _port(spelled: str) -> OutputPort:
    """The output that a key of input_map means: `node:slot`, or `node` for its first."""
    return OutputPort(*parse_tensor_name(spelled if ":" in spelled else f"{spelled}:0"))


def _colocated(spelled: bytes, names: Mapping[str, str]) -> bytes:
    kind, _, name = spelled.decode().partition("@")
    return f"{kind}@{names.get(name, name)}".encode() if kind == "loc:" else spelled


def _new_names(graph: Graph, source: NodeGraph, prefix: str) -> dict[str, str]:
    """The name of each node in the graph: under a prefix that no node is under yet, or none."""
    full = graph.scopes.prefix
    if prefix:
        full = prefix if prefix.endswith("/") else graph.scopes.unique_name(prefix) + "/"
    names = {}
    for node in source:
        name = full + node.name
        if name in graph:
            raise ConstructionValueError(
                f"a node named '{name}' exists already: import the graph under a prefix of its own"
            )
        names[node.name] = name
    return names


def take_library(graph: Graph, source: NodeGraph) -> None:
    """The functions that the nodes call; two of one name must be the same."""
    from flowengine.ir.proto import FunctionDefLibrary

    if not isinstance(source.library, FunctionDefLibrary):
        return
    merged = FunctionDefLibrary()
    if isinstance(graph.library, FunctionDefLibrary):
        merged.CopyFrom(graph.library)
    known = {function.signature.name: function for function in merged.function}
    for function in source.library.function:
        present = known.get(function.signature.name)
        if present is None:
            merged.function.append(function)
        elif present.SerializeToString(deterministic=True) != function.SerializeToString(deterministic=True):
            raise ConstructionValueError(
                f"the graph has another function called '{function.signature.name}' already"
            )
    present_gradients = {each.function_name for each in merged.gradient}
    merged.gradient.extend(
        each for each in source.library.gradient if each.function_name not in present_gradients
    )
    graph.library = merged


def _element(graph: Graph, names: Mapping[str, str], mapping: _MappedInputs, name: str) -> Tensor | Operation:
    if ":" in name:
        port = OutputPort(*parse_tensor_name(name))
        found = mapping.ports.get(port)
        if found is not None:
            return Tensor(graph, *found)
        if port.node in names:
            return graph.tensor(f"{names[port.node]}:{port.slot}")
    elif name in names:
        return Operation(graph, names[name])
    raise NotFoundError(f"return_elements: the imported graph has no '{name}'")


class GraphReader:
    """The methods of `Graph` that bring in nodes from elsewhere, and write what it has."""

    @builds
    def import_graph_def(
        self,
        data: Any,
        *,
        prefix: str = "import",
        input_map: Mapping[str, Any] | None = None,
        return_elements: Sequence[str] | None = None,
    ) -> list[Tensor | Operation] | None:
        """Add the nodes and functions of another graph to this one.

        data              a GraphDef: its bytes (binary or text form), text as a str, the message, a Graph;
                          of a MetaGraphDef the nodes and functions: `Graph.from_graph_def` reads collections
        prefix            of the names of its nodes, made unique; "" adds them under their own names
        input_map         {"node:slot" or "node" of it: the tensor of this graph that its nodes take instead};
                          {"^node": Operation} for control inputs
        return_elements   names within it, "node:slot" or "node", to return as Tensors and Operations of this
                          graph

        Scopes of control dependencies apply to nodes without control inputs, scopes of devices to the parts
        of device names that nodes leave open. Within a branch or loop, the nodes belong to it, and take the
        tensors of `input_map` through it. Raises InvalidArgumentError (a ValueError) with all faults of the
        graph, or if a name is taken, and then adds nothing.

        >>> inner = fe.Graph()
        >>> y = fe.square(inner.placeholder("float32", [], name="x"), name="y")
        >>> graph = fe.Graph()
        >>> x = graph.constant(3.0)
        >>> found, = graph.import_graph_def(inner, input_map={"x:0": x}, return_elements=["y:0"])
        >>> found.name, fe.testing.evaluate(graph, [found.name])[0].tolist()
        ('import/y:0', 9.0)
        """
        origin = cast("Graph", data) if isinstance(data, GraphReader) else None
        return import_graph_def(cast("Graph", self), data, prefix, input_map, return_elements, origin=origin)

    @builds
    def copy_into(
        self,
        target: Graph,
        outputs: Iterable[Tensor | Operation],
        *,
        prefix: str = "",
        input_map: Mapping[str, Any] | None = None,
    ) -> list[Tensor | Operation]:
        """Copy `outputs` and the nodes that they depend on into the graph `target`.

        Returns the outputs there. `prefix`, `input_map` and errors are those of `import_graph_def`; nodes
        before a tensor that `input_map` replaces are not copied.

        >>> graph, part = fe.Graph(), fe.Graph()
        >>> x = graph.constant(2.0)
        >>> unused, y = fe.exp(x), fe.square(x)
        >>> y, = graph.copy_into(part, [y], prefix="part")
        >>> y.graph is part, [each.name for each in part.operations()]
        (True, ['part/Const', 'part/Square'])
        """
        return copy_nodes(cast("Graph", self), target, outputs, prefix, input_map or {})

    @builds
    def save(self, path: str | os.PathLike[str], *, as_text: bool | None = None) -> None:
        """Write the graph to the file `path` as a GraphDef.

        as_text   whether in text form; by default if the name ends in `.pbtxt`

        A temporary file is renamed to `path` at the end, so that the file there is complete at any time.
        Raises OSError if the file cannot be written.
        """
        from flowengine.ir.graphfile import graph_def_to_text

        graph_def = cast("Graph", self).to_graph_def()
        is_text = os.fspath(path).endswith(".pbtxt") if as_text is None else as_text
        data = graph_def_to_text(graph_def).encode() if is_text else graph_def.SerializeToString()
        aside = f"{os.fspath(path)}.{os.getpid()}.tmp"
        with open(aside, "wb") as file:
            file.write(data)
        os.replace(aside, path)


__all__ = ["GraphReader", "copy_nodes", "import_graph_def"]
