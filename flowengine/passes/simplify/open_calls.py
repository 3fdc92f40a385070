"""Opens calls of functions: their nodes join the graph, if that makes a step quicker.

    y = StatefulPartitionedCall(x, f)   ->   the nodes of f under `y/called/`,   y = IdentityN(their results)
    y = If(p, x, then, else)            ->   Switches, both bodies, Merges,      y = IdentityN(the Merges)
    y = While(x, cond, body)            ->   Enter, Merge, Switch, both bodies,  y = IdentityN(the Exits)
    y = RemoteCall("/device:D", x, f)   ->   the nodes of f on D,                y = IdentityN(their results)

A body that is part of the graph is folded, merged and compiled with the nodes around it, and a loop becomes
one Python loop. A call stays if its output is fed; if it calls itself; if its body has an op that is not
known here, which may be a branch that is never taken; if its body has an effect that its end would not wait
for; if it is a loop with waiting nodes, which the state machine would run node by node while a call runs its
body as compiled code; and if it would make the graph too large. The order of effects is that of the call: it
starts when all its inputs are there, and has ended when all its stateful nodes have run. If a call has no
effects, and cannot be dead, consumers of its results take them from the code itself.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Final

from flowengine.core.arrays import to_array
from flowengine.core.errors import OpError
from flowengine.core.names import DeviceName
from flowengine.functions.bodies import ends_with_its_results
from flowengine.functions.lowering import LOWERED_OPS, CallLowering, called_on
from flowengine.graphs.graph import Graph
from flowengine.graphs.reading import needed_by
from flowengine.graphs.tensor import Tensor
from flowengine.ir.functions import FunctionBody, FunctionLibrary
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.names import (
    ARGUMENT,
    CALL_OPS,
    CONTROL_FLOW_OPS,
    FUNCTION_CALL_OPS,
    LOOPING_CALL_OPS,
    REMOTE_CALL,
)
from flowengine.ir.traits import Constant, ExternalValue, GivesVariable
from flowengine.kernels.registry import Kernel
from flowengine.passes.context import PassContext
from flowengine.passes.simplify.prune import prune
from flowengine.passes.simplify.unknown_ops import refuse_unknown_ops

#: The number of nodes of a graph with its calls open; few models have more, and planning takes its time.
NODES_MAX: Final = 10_000
#: The depth of nested calls that are opened.
DEPTH_MAX: Final = 32
#: Ops of conditionals and loops, whose nodes can be dead.
_BRANCHING: Final = LOWERED_OPS - CALL_OPS
#: Ops whose values exist before a step does anything.
_CALM: Final = (Constant, GivesVariable, ExternalValue)


def open_calls(graph: NodeGraph, context: PassContext) -> NodeGraph:
    """Return the graph with calls opened; the same graph if there is none to open.

    A body that cannot be made leaves its call, and the caller reports the fault. Raises NotFoundError with
    `missing_op` if the step needs an op that has no definition.
    """
    if graph.library is None or context.registry is None:
        return graph
    running = refuse_unknown_ops(prune(graph, context), context)
    library = FunctionLibrary(graph.library, context.registry, graph.producer)
    if not any(node.op in LOWERED_OPS or node.op == REMOTE_CALL or node.op in library for node in running):
        return graph
    try:
        names = needed_by(graph, [node.name for node in running])
    except OpError:
        return graph  # a part of a graph, whose other parts are elsewhere
    part = Graph(
        (node for node in graph if node.name in names),
        registry=context.registry,
        producer=graph.producer,
        min_consumer=graph.min_consumer,
    )
    part.library = graph.library
    opening = _CallInliner(part, library, context)
    opened = opening.run({node.name for node in running})
    return graph.rewritten(map(opening.past_calls, part)) if opened else graph


class _CallInliner:
    """Opens the calls of one graph, also those inside the opened ones."""

    def __init__(self, graph: Graph, library: FunctionLibrary, context: PassContext) -> None:
        self.graph = graph
        self.library = library
        self.kernels = context.kernels
        self.feeds = frozenset(context.feeds)
        self.fed = {port.node for port in context.feeds}
        self.lowering = CallLowering(graph, to_run=True)
        #: Whether a call of the graph itself may be dead.
        self.has_frames = any(node.op in CONTROL_FLOW_OPS for node in graph)
        #: Nodes of opened branches and loops: they may be dead.
        self.in_frames: set[str] = set()
        #: {output of a call that nobody has to wait for: the port with its value in the code}
        self.given: dict[OutputPort, OutputPort] = {}

    def run(self, names: set[str]) -> bool:
        """Open the possible calls among these nodes, and calls inside them; return whether any was opened."""
        waiting = [name for name in self.graph.nodes if name in names]
        opened = False
        while waiting:
            looked_at = len(self.graph)
            for name in waiting:
                try:
                    opened = self._opened(self.graph[name]) or opened
                except OpError:
                    continue
            waiting = list(self.graph.nodes)[looked_at:]
        return opened

    def _opened(self, node: Node) -> bool:
        if node.op == REMOTE_CALL:
            node = self._sent(node)
        bodies = self._bodies(node)
        if bodies is None:
            return False
        before = len(self.graph)
        is_anchored = self._is_anchored(node, bodies)
        self.lowering.lower(node, is_anchored)
        if not is_anchored and not any(body.targets for body in bodies):
            self._note_results(self.graph[node.name])
        if node.op in _BRANCHING or node.name in self.in_frames:
            self.in_frames.update(islice(self.graph.nodes, before, None))
        return True

    def _sent(self, node: Node) -> Node:
        """Return a call on another device as a call with that device, if the graph names it."""
        port = node.inputs[0]
        target = self.graph.constant_value(Tensor(self.graph, *port))
        if target is None or port in self.feeds or not self.graph[port.node].has(Constant):
            return node
        name = to_array(target)
        if name.ndim:
            return node  # the call itself reports the fault
        device = DeviceName.parse(name.item().decode("utf-8", "surrogateescape"))
        return called_on(self.graph, node, str(device))

    def _note_results(self, node: Node) -> None:
        for slot, port in enumerate(node.inputs if not node.control_inputs else ()):
            if not self.graph[port.node].output_types[port.slot].is_ref:
                self.given[OutputPort(node.name, slot)] = port

    def past_calls(self, node: Node) -> Node:
        """Return a node that takes values from the code of calls, and not from their end nodes."""
        if self.given.keys().isdisjoint(node.inputs):
            return node
        return replace(node, inputs=tuple(map(self._origin, node.inputs)))

    def _origin(self, port: OutputPort) -> OutputPort:
        while port in self.given:
            port = self.given[port]
        return port

    def _bodies(self, node: Node) -> list[FunctionBody] | None:
        """Return the bodies of a call to open; None for anything else."""
        if not self._is_call(node) or node.name in self.fed or not self.lowering.can_lower(node):
            return None
        if len(self.lowering.within(node)) >= DEPTH_MAX:
            return None
        bodies = [self.lowering.bodies.of(each) for each in self.lowering.functions_of(node)]
        if len(self.graph) + sum(len(body.graph) for body in bodies) > NODES_MAX:
            return None
        if not all(ends_with_its_results(body) for body in bodies):
            return None
        if not all(self._is_known(each) for body in bodies for each in body.graph):
            return None  # the step that makes the call reports it
        if node.op in LOOPING_CALL_OPS and not all(
            self._is_straight(body, self.lowering.within(node)) for body in bodies
        ):
            return None
        return bodies

    def _is_call(self, node: Node) -> bool:
        return node.op in LOWERED_OPS or node.op in self.library

    def _is_known(self, node: Node) -> bool:
        """Return whether a node can be planned: it is a call, one of the engine's own, or has a kernel."""
        if node.op == ARGUMENT or node.op in CONTROL_FLOW_OPS or node.op in FUNCTION_CALL_OPS:
            return True
        if node.op_def is None:
            return False
        return self.kernels is None or node.op in self.library or self._kernel(node) is not None

    def _kernel(self, node: Node) -> Kernel | None:
        candidates = () if self.kernels is None else self.kernels.candidates(node.op)
        return next((each for each in candidates if each.serves(node)), None)

    def _is_straight(self, body: FunctionBody, within: frozenset[str]) -> bool:
        """Return whether nothing in a body waits or makes a resource: then its loop is compiled whole."""
        inside = within | {body.name}
        if len(inside) > DEPTH_MAX:
            return False
        return all(self._never_waits(node, inside) for node in body.graph)

    def _never_waits(self, node: Node, inside: frozenset[str]) -> bool:
        if node.op == ARGUMENT or node.has(Constant):
            return True
        if self._is_call(node):
            called = self.lowering.functions_of(node)
            return not any(each.name in inside for each in called) and all(
                self._is_straight(self.lowering.bodies.of(each), inside) for each in called
            )
        if node.op_def is None or node.op in FUNCTION_CALL_OPS or node.op in CONTROL_FLOW_OPS:
            return False
        if node.op_def.is_stateful and not node.inputs:
            return False
        kernel = self._kernel(node)
        return kernel is not None and not kernel.is_async

    def _is_anchored(self, node: Node, bodies: list[FunctionBody]) -> bool:
        """Return whether the code of a call has to wait for the inputs of the call.

        It need not if all its inputs exist beforehand, or if nobody could notice.
        """
        if self.has_frames or node.name in self.in_frames:
            return True
        return any(body.targets for body in bodies) and not all(map(self._is_calm, node.inputs))

    def _is_calm(self, port: OutputPort) -> bool:
        if port in self.feeds:
            return True
        node = self.graph[port.node]
        return not node.control_inputs and (node.op == ARGUMENT or any(map(node.has, _CALM)))
