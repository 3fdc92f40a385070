"""Segments that are computed again: a gradient reads copies of their nodes, not what the forward part kept.

    x -> f -> g -> y                  with graph.recompute(): f and g are a segment
    dy ^-> Identity(x) -> f' -> g'    what the gradients of f and g read; dy is the gradient that came

The copies hang from Identities of what the segment takes, which wait for the gradient that came to it first:
so no copy equals its original, no constant is made of it, and it runs when the sweep comes to the segment.
The control edge is marked, for it orders nothing that has an effect and passes would drop it.
(T. Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016, section 4.)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from flowengine.gradients.control_structure import Structure
from flowengine.gradients.errors import GradientTypeError
from flowengine.gradients.values import Gradient
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.ir.frames import FramePath
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.marks import KEEPS_CONTROLS, SEGMENT
from flowengine.ir.names import CONTROL_FLOW_OPS, LOOP_COND, MERGE_OPS, SWITCH_OPS
from flowengine.ir.traits import Constant
from flowengine.ir.traverse import topological_order

Built = TypeVar("Built")


def recompute_grad(function: Callable[..., Built]) -> Callable[..., Built]:
    """Let what a function builds be computed again for its gradient, instead of being kept.

    function   builds nodes out of Tensors, at least one, anywhere among its arguments

    The same as calling it under `graph.recompute()`. Raises GradientTypeError where no argument is a Tensor.

    >>> graph = fe.Graph()
    >>> x = graph.placeholder("float32", [None])
    >>> y = fe.recompute_grad(lambda v: fe.exp(fe.sin(v)))(x)
    >>> slope, = fe.gradients(y, x)
    """

    @functools.wraps(function)
    def built(*arguments: Any, **named: Any) -> Built:
        graph = _graph_among((*arguments, *named.values()))
        if graph is None:
            raise GradientTypeError(f"none of the arguments of {function.__name__} is a Tensor")
        with graph.recompute():
            return function(*arguments, **named)

    return built


def _graph_among(values: Iterable[Any]) -> Graph | None:
    for value in values:
        if isinstance(value, Tensor):
            return value.graph
        if isinstance(value, list | tuple | dict):
            found = _graph_among(value.values() if isinstance(value, dict) else value)
            if found is not None:
                return found
    return None


class CallSource(Protocol):
    """The call of `gradients` that a region belongs to: see `GradientCall`."""

    source: str


class RecomputingRegion(Protocol):
    """The region whose segments are computed again: see `GradientRegion`."""

    graph: Graph
    structure: Structure
    code_frame: FramePath

    @property
    def call(self) -> CallSource: ...

    def here(self, tensor: Tensor) -> Tensor: ...


class Recomputation:
    """The copies that one region has of the segments of its code.

    A value is not computed again if it is taken outside of its segment, for then it is there; nor if another
    computation could give another value: random numbers, what is read of variables, queues and files. Loops
    within a segment keep their history.
    """

    def __init__(self, region: RecomputingRegion) -> None:
        self._region = region
        self._graph = region.graph
        self._structure = region.structure
        #: {segment: the nodes that its copies wait for}
        self._waits: dict[bytes, list[str]] = {}
        #: {segment and what it takes: the Identity that its copies take}
        self._taken: dict[tuple[bytes, OutputPort], OutputPort] = {}
        #: {node: its copy}
        self._copies: dict[str, str] = {}

    def begin(self, node: Node, gradients: Sequence[Gradient | None]) -> None:
        """The sweep has come to a node, with the gradients of its outputs."""
        segment = self._structure.segments.get(node.name)
        if segment is None or segment in self._waits:
            return
        came = [each if isinstance(each, Tensor) else each.values for each in gradients if each is not None]
        names = [each.node_name for each in came]
        if self._structure.node_guard(node.name):
            # Other parts of the segment may be live where this node is not.
            with self._graph.scopes.apart(None, names):
                names = [self._graph.ops.ControlTrigger(name="reached").name]
        self._waits[segment] = names

    def value(self, tensor: Tensor) -> Tensor | None:
        """A forward tensor as it is computed again; None where it is kept."""
        if not self._is_copied(tensor.port):
            return None
        if tensor.node_name not in self._copies:
            self._copy_for(tensor.node_name)
        return Tensor(self._graph, self._copies[tensor.node_name], tensor.slot)

    def _is_copied(self, port: OutputPort) -> bool:
        structure = self._structure
        segment = structure.segments.get(port.node)
        # A segment whose gradient did not come first to a node of this region's code is left as it is.
        if segment is None or segment not in self._waits or port in structure.taken_outside:
            return False
        node = self._graph.nodes[port.node]
        return (
            not node.is_stateful
            and not node.has(Constant)
            and structure.frame(node.name) == self._region.code_frame
            and not self._is_machinery(node)
            and not any(dtype.is_ref for dtype in node.output_types)
            and not any(self._graph.nodes[each.node].output_types[each.slot].is_ref for each in node.inputs)
        )

    def _is_machinery(self, node: Node) -> bool:
        """Whether it makes a loop: Switches and Merges of conditionals are code as any other."""
        if node.op in SWITCH_OPS:
            return self._structure.is_loop_switch(node)
        if node.op in MERGE_OPS:
            return self._structure.is_loop_merge(node.name)
        return node.op in CONTROL_FLOW_OPS or node.op == LOOP_COND

    def _copy_for(self, name: str) -> None:
        """Copy a node and all that it needs of its segment, in the order in which that was built."""
        needed = {name: self._graph.nodes[name]}
        waiting = [name]
        segment = self._structure.segments[name]
        for each in waiting:
            for port in needed[each].inputs:
                if port.node not in needed and port.node not in self._copies and self._is_of(segment, port):
                    needed[port.node] = self._graph.nodes[port.node]
                    waiting.append(port.node)
        for each in topological_order(needed):
            self._copy(needed[each], segment)

    def _is_of(self, segment: bytes, port: OutputPort) -> bool:
        return self._structure.segments.get(port.node) == segment and self._is_copied(port)

    def _copy(self, node: Node, segment: bytes) -> None:
        attrs = {name: value for name, value in node.attrs.items() if name != SEGMENT}
        name = self._graph.scopes.unique(f"{self._region.call.source}/{segment.decode()}/{node.name}")
        inputs = tuple(self._input(port, segment) for port in node.inputs)
        # What it computes depends on its inputs alone, so it need not wait for what the original waited for.
        self._graph.add(replace(node, name=name, inputs=inputs, control_inputs=(), attrs=attrs, source=None))
        self._copies[node.name] = name

    def _input(self, port: OutputPort, segment: bytes) -> OutputPort:
        if self._is_of(segment, port):
            return OutputPort(self._copies[port.node], port.slot)
        key = segment, port
        if key not in self._taken:
            value = self._region.here(Tensor(self._graph, *port))
            if not self._graph.nodes[port.node].has(Constant):
                with self._graph.scopes.apart(None, self._waits[segment]):
                    value = self._graph.ops.Identity(value, name="again", **{KEEPS_CONTROLS: True})
            self._taken[key] = value.port
        return self._taken[key]
