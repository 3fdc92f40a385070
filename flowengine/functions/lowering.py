"""Calls of functions become code of the graph, for running them and for differentiating what they compute.

    y = PartitionedCall(x, f)     ->   the nodes of f under `y/`,          y = IdentityN(their results)
    y = If(p, x, then, else)      ->   Switches, both bodies, Merges,      y = IdentityN(the Merges)
    y = Case(i, x, branches)      ->   the same for each branch,           y = IdentityN(the Merges)
    y = While(x, cond, body)      ->   Enter, Merge, Switch, both bodies,  y = IdentityN(the Exits)
    y = For(range, x, body)       ->   the same with a count,              y = IdentityN(the Exits)

The node that called keeps its name, outputs and effects; only what it is made of can be seen now. A call of a
function from within itself stays a call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.functions.bodies import FunctionBodies, functions_in
from flowengine.functions.branches import write_choice, write_conditional
from flowengine.functions.loops import write_count, write_loop
from flowengine.functions.signatures import misfit, named_by, types_of
from flowengine.functions.writer import CallWriter, Written
from flowengine.graphs.graph import Graph
from flowengine.ir import make
from flowengine.ir.attrs import FuncAttr
from flowengine.ir.functions import FunctionLibrary
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.marks import SEGMENT
from flowengine.ir.names import CALL_OPS, CASE_OPS, FOR_OP, IF_OPS, WHILE_OPS

#: The attribute with the name of a gradient that replaces the op's own.
GRADIENT_NAME: Final = "_gradient_op_type"
_GENERATED_NAME: Final = re.compile(rb"(Stateful)?PartitionedCall-\d+")
#: Calls that can be lowered, beside functions used as ops.
LOWERED_OPS: Final = CALL_OPS | IF_OPS | CASE_OPS | WHILE_OPS | {FOR_OP}


class CallLowering:
    """Lowers calls in one graph.

    own       the functions whose body the graph is
    to_run    whether it is to be run: then the code of a call keeps the order of the call's effects
    keeps_gradients   whether a call with a gradient of its own stays a call, for the gradient to be found; by
                      default unless the graph is to be run
    """

    def __init__(
        self,
        graph: Graph,
        own: frozenset[str] = frozenset(),
        *,
        to_run: bool = False,
        keeps_gradients: bool | None = None,
    ) -> None:
        self.graph = graph
        self._own = own
        self._to_run = to_run
        self._keeps_gradients = not to_run if keeps_gradients is None else keeps_gradients
        self.library = FunctionLibrary(graph.library, graph.registry, graph.producer)
        #: Of all the calls.
        self.bodies = FunctionBodies(self.library)
        #: {name of a node that a lowering has made: the functions whose bodies it is in}
        self._within: dict[str, frozenset[str]] = {}

    def can_lower(self, node: Node) -> bool:
        """Whether a node is a call of functions that it is not itself a part of."""
        functions = self.functions_of(node)
        within = self.within(node)
        return bool(functions) and not any(
            each.name in within or (self._keeps_gradients and self.library.gradient_of(each.name) is not None)
            for each in functions
        )

    def within(self, node: Node) -> frozenset[str]:
        """The functions whose bodies a node is in."""
        return self._within.get(node.name, self._own)

    def put_within(self, names: Iterable[str], functions: frozenset[str]) -> None:
        """Say that nodes are in the bodies of these functions."""
        self._within.update(dict.fromkeys(names, functions))

    def functions_of(self, node: Node) -> list[FuncAttr]:
        """The functions that a call names; none if it is no call that can be lowered."""
        if node.op in self.library:
            return [FuncAttr(node.op, node.attrs)]
        if node.op not in LOWERED_OPS or (self._keeps_gradients and has_own_gradient(node)):
            return []
        return functions_in(node)

    def lower(self, node: Node, is_anchored: bool) -> None:
        """Put the code of its functions in the place of a call.

        is_anchored   whether the call may be dead, or waits for what nobody can see, so that its code has to
                      be tied to it

        Raises InvalidArgumentError, and leaves the graph as it is, where a function takes or gives other
        types than the call says.
        """
        for function, wanted in named_by(node):
            words = misfit(function.name, types_of(self.bodies.of(function)), wanted)
            if words is not None:
                raise InvalidArgumentError(f"{node.op} '{node.name}': {words}")
        prefix = self.graph.scopes.unique(node.name + "/called") + "/"
        writer = CallWriter(
            self.graph, self.bodies, node, prefix, self.within(node), self._within, self._to_run
        )
        with self.graph.scopes.apart(None), self.graph.scopes.alone_on(node.device):
            results, controls = self._written(writer, node, is_anchored)
        if node.output_types:
            self.graph.widen(handing_on(self.graph, node, results, controls))
        else:
            self.graph.widen(make.no_op(self.graph.registry, node, tuple(dict.fromkeys(controls))))

    def _written(self, writer: CallWriter, node: Node, is_anchored: bool) -> Written:
        if node.op in IF_OPS:
            return write_conditional(writer, is_anchored)
        if node.op in CASE_OPS:
            return write_choice(writer, is_anchored)
        if node.op in WHILE_OPS:
            return write_loop(writer, is_anchored)
        if node.op == FOR_OP:
            return write_count(writer, is_anchored)
        return writer.plain(self.functions_of(node)[0], is_anchored)


def has_own_gradient(node: Node) -> bool:
    """Whether a node names a gradient that somebody has written for it.

    TensorFlow 2.0 to 2.3 mark every call of a traced function with a name that they make up, such as
    `PartitionedCall-42`. Behind it is the gradient of the body, which the body has as well.
    """
    name = node.attrs.get(GRADIENT_NAME)
    return isinstance(name, bytes) and not (node.op in CALL_OPS and _GENERATED_NAME.fullmatch(name))


def called_on(graph: Graph, node: Node, device: str) -> Node:
    """A RemoteCall as a call on a device."""
    definition = graph.registry["StatefulPartitionedCall"]
    return replace(
        node,
        op=definition.name,
        op_def=definition,
        inputs=node.inputs[1:],
        attrs=definition.with_defaults(node.attrs),
        device=device,
    )


def handing_on(graph: Graph, node: Node, results: Sequence[OutputPort], controls: Iterable[str]) -> Node:
    """Build the node that replaces a call: it hands on the results of the call's code."""
    definition = graph.registry["IdentityN"]
    types = tuple(graph[port.node].output_types[port.slot].base for port in results)
    attrs = dict(definition.with_defaults({"T": types}))
    if SEGMENT in node.attrs:
        attrs[SEGMENT] = node.attrs[SEGMENT]
    return Node(
        node.name,
        definition.name,
        tuple(results),
        tuple(dict.fromkeys(controls)),
        attrs,
        node.device,
        definition,
        definition.output_types(attrs),
        node.creation_site,
    )
