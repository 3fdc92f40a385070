"""Writes the code of one call: copies of its bodies, tied to where the call stands.

To be run, the code keeps what the call means: a dead call runs nothing; the call starts when all its inputs
are there; and who waits for the call waits for all nodes of its bodies that have an effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.functions.bodies import FunctionBodies, certain_targets, renamed_attrs
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.ir import make
from flowengine.ir.attrs import FuncAttr
from flowengine.ir.functions import FunctionBody
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.marks import SEGMENT
from flowengine.ir.names import SWITCH_OPS

#: The results of a call, and the nodes that have to run besides.
Written: TypeAlias = tuple[list[OutputPort], list[str]]


class CallWriter:
    """The writer that all kinds of calls share: it adds the nodes of a call's code to a graph.

    prefix    of the names of all that is made
    within    the functions whose bodies the call is in
    noted     {node that was made: the functions whose bodies it is in}, to be added to
    to_run    whether the code is to be run, and not only differentiated
    """

    def __init__(
        self,
        graph: Graph,
        bodies: FunctionBodies,
        node: Node,
        prefix: str,
        within: frozenset[str],
        noted: dict[str, frozenset[str]],
        to_run: bool,
    ) -> None:
        self.graph = graph
        self.ops = graph.ops
        self.node = node
        self.prefix = prefix
        self.to_run = to_run
        self._bodies = bodies
        self._within = within
        self._noted = noted

    def body(self, function: FuncAttr) -> FunctionBody:
        """The body of a function that the call names."""
        return self._bodies.of(function)

    def begin(self, is_anchored: bool) -> str | None:
        """A node that runs when the call starts; None if nothing has to wait for that.

        is_anchored   whether it is dead when an input is, and waits for all of them
        """
        controls = list(self.node.control_inputs)
        if is_anchored:
            controls += [self._alive(port) for port in dict.fromkeys(self.node.inputs)]
        if not controls:
            return None
        begin = make.node(
            self.graph.registry, "NoOp", self.prefix + "begin", controls=tuple(dict.fromkeys(controls))
        )
        return self.graph.add(replace(begin, device=self.node.device)).name

    def controls(self, is_anchored: bool) -> list[str]:
        """Return the control inputs of the first nodes of a conditional or a loop."""
        if not self.to_run:
            return list(self.node.control_inputs)
        begin = self.begin(is_anchored)
        return [] if begin is None else [begin]

    def _alive(self, port: OutputPort) -> str:
        """A node that is live when a value is; beside a resource, for none waits for that elsewhere."""
        source = self.graph[port.node]
        if source.op_def is None:
            return port.node  # nobody knows its outputs
        if source.op not in SWITCH_OPS and source.output_types[port.slot].base is not dtypes.resource:
            return port.node
        name: str = self.ops.Identity(Tensor(self.graph, *port), name=self.prefix + "alive").node_name
        return name

    def plain(self, function: FuncAttr, is_anchored: bool) -> Written:
        """The body of a function called as it is."""
        pivot = self.begin(is_anchored)
        is_tied = self.to_run and pivot is not None
        results, targets = self.copied(
            self.body(function), self.node.inputs, self.prefix, pivot, is_tied=is_tied
        )
        return results, [*targets, *([str(pivot)] if is_tied else [])]

    def copied(
        self,
        body: FunctionBody,
        given: Sequence[OutputPort],
        scope: str,
        pivot: str | None,
        unchanged: frozenset[OutputPort] = frozenset(),
        *,
        is_tied: bool = False,
    ) -> Written:
        """Add a body's nodes under a scope; (its results, the nodes that have to run).

        pivot       runs when the body does; what is made of nothing waits for it
        unchanged   arguments that are there in every iteration: what is made of these alone is tied to the
                    pivot, as what is made of nothing, so that it ends with the loop
        is_tied     whether all that takes an argument or has an effect waits for the pivot too

        Raises InvalidArgumentError if there are more or fewer arguments than the body takes.
        """
        if len(given) != len(body.arguments):
            raise InvalidArgumentError(
                f"function '{body.name}' takes {len(body.arguments)} arguments; {self.node.op} "
                f"'{self.node.name}' gives {len(given)}"
            )
        arguments = dict(zip(body.arguments, given, strict=True))
        inner = {node.name for node in body.graph} - {port.node for port in body.arguments}

        def outside(port: OutputPort) -> OutputPort:
            return arguments[port] if port in arguments else OutputPort(scope + port.node, port.slot)

        for node in body.graph:
            if node.name not in inner:
                continue
            inputs = [outside(port) for port in node.inputs]
            copied = self._copy(node, scope, inner, inputs)
            is_free = not copied.control_inputs and unchanged.issuperset(inputs)
            waits = is_tied and (node.is_stateful or not arguments.keys().isdisjoint(node.inputs))
            if pivot is not None and (is_free or waits):
                copied = replace(copied, control_inputs=(*copied.control_inputs, pivot))
            self.graph.add(copied)
            self._noted[scope + node.name] = self._within | {body.name}
        return [outside(port) for port in body.results], [scope + name for name in certain_targets(body)]

    def _copy(self, node: Node, scope: str, inner: set[str], inputs: list[OutputPort]) -> Node:
        attrs = renamed_attrs(node, scope, inner)
        if SEGMENT in self.node.attrs:
            attrs[SEGMENT] = self.node.attrs[SEGMENT]
        return replace(
            node,
            name=scope + node.name,
            inputs=tuple(inputs),
            control_inputs=tuple(scope + name for name in node.control_inputs if name in inner),
            attrs=attrs,
            device=node.device or self.node.device,
            creation_site=self.node.creation_site,
            source=None,
        )
