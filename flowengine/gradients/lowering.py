"""Calls of functions between ys and xs become code of the graph, so that one sweep goes through all.

    y = PartitionedCall(x, f)     ->   the nodes of f under `y/`,          y = IdentityN(their results)
    y = If(p, x, then, else)      ->   Switches, both bodies, Merges,      y = IdentityN(the Merges)
    y = While(x, cond, body)      ->   Enter, Merge, Switch, both bodies,  y = IdentityN(the Exits)

The node that called keeps its name, outputs and effects; only what it is made of can be seen now. A call of a
function from within itself stays a call: see `gradients.control.functional`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.ir import make
from flowengine.ir.attrs import FuncAttr
from flowengine.ir.functions import FunctionBody, FunctionLibrary
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.marks import SEGMENT
from flowengine.ir.names import (
    CALL_OPS,
    CASE_OPS,
    CONTROL_FLOW_OPS,
    ENTER_OPS,
    IF_OPS,
    SWITCH_OPS,
    WHILE_OPS,
)
from flowengine.ir.traverse import topological_order

_LOWERED: Final = CALL_OPS | IF_OPS | CASE_OPS | WHILE_OPS


class CallLowering:
    """Lowers calls in one graph.

    own       the functions whose body the graph is
    to_run    whether it is to be run: then a function with a gradient of its own is code like any other, and
              the code of a call keeps the order of the call's effects
    """

    def __init__(self, graph: Graph, own: frozenset[str] = frozenset(), *, to_run: bool = False) -> None:
        self._graph = graph
        self._own = own
        self._to_run = to_run
        self._library = FunctionLibrary(graph.library, graph.registry, graph.producer)
        #: {name of a node that a lowering has made: the functions whose bodies it is in}
        self._within: dict[str, frozenset[str]] = {}

    def can_lower(self, node: Node) -> bool:
        """Whether a node is a call of functions that it is not itself a part of."""
        functions = self.functions_of(node)
        within = self.within(node)
        return bool(functions) and not any(
            each.name in within or (not self._to_run and self._library.gradient_of(each.name) is not None)
            for each in functions
        )

    def within(self, node: Node) -> frozenset[str]:
        """The functions whose bodies a node is in."""
        return self._within.get(node.name, self._own)

    def functions_of(self, node: Node) -> list[FuncAttr]:
        if node.op in self._library:
            return [FuncAttr(node.op, node.attrs)]
        if node.op not in _LOWERED or ("_gradient_op_type" in node.attrs and not self._to_run):
            return []
        return functions_in(node)

    def lower(self, node: Node, is_anchored: bool) -> None:
        """Put the code of its functions in the place of a call.

        is_anchored   whether the call is in a loop or a conditional, so that its code has to be tied to it
        """
        prefix = self._graph.scopes.unique(node.name + "/called") + "/"
        within = self.within(node)
        writer = _CallWriter(self._graph, self._library, node, prefix, within, self._within)
        with self._graph.scopes.apart(None):
            if node.op in IF_OPS:
                results, controls = writer.conditional()
            elif node.op in CASE_OPS:
                results, controls = writer.choice()
            elif node.op in WHILE_OPS:
                results, controls = writer.loop()
            else:
                results, controls = writer.plain(self.functions_of(node)[0], is_anchored, self._to_run)
        if node.output_types:
            self._graph.widen(_handing_on(self._graph, node, results, controls))
        else:
            self._graph.widen(make.no_op(self._graph.registry, node, tuple(dict.fromkeys(controls))))


def body_of(library: FunctionLibrary, function: FuncAttr) -> FunctionBody:
    """The body of a function that a call names; errors as `FunctionLibrary.instantiate`."""
    attrs = {key: value for key, value in function.attrs.items() if not key.startswith("_")}
    return library.instantiate(function.name, attrs)


def functions_in(node: Node) -> list[FuncAttr]:
    """The functions that a node's attributes name."""
    found: list[FuncAttr] = []
    for value in node.attrs.values():
        values = value if isinstance(value, tuple) else (value,)
        found += [each for each in values if isinstance(each, FuncAttr)]
    return found


def _handing_on(graph: Graph, node: Node, results: Sequence[OutputPort], controls: Iterable[str]) -> Node:
    """What stands in the place of a call: it hands on what the code gives."""
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


class _CallWriter:
    """Writes the code of one call; each way returns (results, nodes that have to run besides)."""

    def __init__(
        self,
        graph: Graph,
        library: FunctionLibrary,
        node: Node,
        prefix: str,
        within: frozenset[str],
        noted: dict[str, frozenset[str]],
    ) -> None:
        self.graph = graph
        self.ops = graph.ops
        self.library = library
        self.node = node
        self.prefix = prefix
        self.within = within
        self.noted = noted

    def plain(
        self, function: FuncAttr, is_anchored: bool, to_run: bool
    ) -> tuple[list[OutputPort], list[str]]:
        """The body of a function called as it is.

        to_run   whether what has an effect, and who waits for the call, wait for what the call waited for
        """
        controls = list(self.node.control_inputs)
        if is_anchored:
            controls += [self._alive(port) for port in dict.fromkeys(self.node.inputs)]
        pivot = None
        if controls:
            begin = make.node(
                self.graph.registry, "NoOp", self.prefix + "begin", controls=tuple(dict.fromkeys(controls))
            )
            pivot = self.graph.add(begin).name
        body = self._body(function)
        results, targets = self._copied(
            body, self.node.inputs, self.prefix, pivot, effects_wait=to_run and pivot is not None
        )
        return results, [*targets, *([pivot] if to_run and pivot is not None else [])]

    def _alive(self, port: OutputPort) -> str:
        """A node that is live when a value is."""
        if self.graph[port.node].op not in SWITCH_OPS:
            return port.node
        name: str = self.ops.Identity(Tensor(self.graph, *port), name=self.prefix + "alive").node_name
        return name

    def conditional(self) -> tuple[list[OutputPort], list[str]]:
        """If: a Switch for each input and a Merge for each result."""
        predicate = self._truth(Tensor(self.graph, *self.node.inputs[0]))
        branches = [self.node.attrs["else_branch"], self.node.attrs["then_branch"]]
        return self._branches(branches, [(predicate, 0), (predicate, 1)])

    def choice(self) -> tuple[list[OutputPort], list[str]]:
        """Case: each branch under a predicate of its own; the last one for an index out of range."""
        branches = list(self.node.attrs["branches"])
        index = Tensor(self.graph, *self.node.inputs[0])
        with self.graph.scopes.apart(None, self.node.control_inputs):
            index = self.ops.Identity(index, name=self.prefix + "index/")
        sides = []
        chosen: Tensor | None = None
        for number in range(len(branches) - 1):
            with self.graph.scopes.apart(index.node_name):
                this = self.ops.Equal(index, self.graph.constant(number), name=f"{self.prefix}is_{number}/")
            chosen = this if chosen is None else self.ops.LogicalOr(chosen, this, name=self.prefix + "any")
            sides.append((this, 1))
        if chosen is None:
            with self.graph.scopes.apart(index.node_name):
                chosen = self.graph.constant(False, name=self.prefix + "never")
        sides.append((self.ops.Identity(chosen, name=self.prefix + "found"), 0))
        return self._branches(branches, sides)

    def _truth(self, cond: Tensor) -> Tensor:
        """A condition of any type as a predicate: not zero, not empty, or a tensor with elements."""
        with self.graph.scopes.apart(cond.node_name):
            if cond.shape.rank:
                cond = self.ops.Greater(self.ops.Size(cond), self.graph.constant(0))
            elif cond.dtype.base is dtypes.string:
                cond = self.ops.NotEqual(cond, self.graph.constant(""))
            elif not cond.dtype.is_bool:
                cond = self.ops.NotEqual(cond, self.graph.constant(0, cond.dtype.base))
        with self.graph.scopes.apart(None, self.node.control_inputs):
            result: Tensor = self.ops.Identity(cond, name=self.prefix + "predicate/")
        return result

    def _branches(
        self, functions: Sequence[FuncAttr], sides: Sequence[tuple[Tensor, int]]
    ) -> tuple[list[OutputPort], list[str]]:
        """Bodies of which one runs: that whose predicate has the value of its side."""
        ops = self.ops
        switches: dict[tuple[str, int], Any] = {}
        results: list[list[OutputPort]] = []
        ends: list[Tensor] = []
        effects = False
        for number, (function, (predicate, side)) in enumerate(zip(functions, sides, strict=True)):
            scope = f"{self.prefix}branch_{number}/"
            with self.graph.name_scope(scope):
                pivot = ops.Identity(ops.Switch(predicate, predicate)[side], name="pivot").node_name
                given = []
                for index, port in enumerate(self.node.inputs[1:]):
                    key = (predicate.name, index)
                    if key not in switches:
                        switches[key] = ops.Switch(Tensor(self.graph, *port), predicate, name="argument")
                    given.append(switches[key][side].port)
            body = self._body(function)
            found, targets = self._copied(body, given, scope, pivot)
            results.append(found)
            effects = effects or bool(targets)
            with self.graph.scopes.apart(None, [pivot, *targets]):
                ends.append(ops.Identity(Tensor(self.graph, pivot, 0), name=scope + "end/"))
        merged = [
            ops.Merge([Tensor(self.graph, *port) for port in ports], name=self.prefix + "result").output.port
            for ports in zip(*results, strict=True)
        ]
        if not effects:
            return merged, []
        return merged, [ops.Merge(ends, name=self.prefix + "end/").output.node_name]

    def loop(self) -> tuple[list[OutputPort], list[str]]:
        """While: what the body hands on as it is enters as a constant."""
        cond, body = self._body(self.node.attrs["cond"]), self._body(self.node.attrs["body"])
        kept = [_behind_identities(body, port) == body.arguments[i] for i, port in enumerate(body.results)]
        if all(kept):
            kept[:1] = [False]
        ops, graph = self.ops, self.graph
        frame: dict[str, Any] = {
            "frame_name": self.prefix.rstrip("/"),
            "parallel_iterations": self.node.attrs.get("parallel_iterations", 10),
        }
        with graph.name_scope(self.prefix), graph.scopes.apart(None, self.node.control_inputs):
            entered = [
                ops.Enter(Tensor(graph, *port), is_constant=kept[i], **frame)
                for i, port in enumerate(self.node.inputs)
            ]
        with graph.name_scope(self.prefix), graph.scopes.apart(None):
            values = [e if kept[i] else ops.Merge([e, e]).output for i, e in enumerate(entered)]
        first = kept.index(False)
        verdict, targets = self._copied(
            cond, [each.port for each in values], self.prefix + "cond/", values[first].node_name
        )
        with graph.name_scope(self.prefix), graph.scopes.apart(None, targets):
            goes_on = ops.LoopCond(self._verdict(Tensor(graph, *verdict[0])))
        with graph.name_scope(self.prefix), graph.scopes.apart(None):
            switches = {i: ops.Switch(v, goes_on) for i, v in enumerate(values) if not kept[i]}
            pivot = ops.Identity(switches[first].output_true, name="pivot").node_name
        given = [e.port if kept[i] else switches[i].output_true.port for i, e in enumerate(entered)]
        unchanged = frozenset(e.port for i, e in enumerate(entered) if kept[i])
        results, targets = self._copied(body, given, self.prefix + "body/", pivot, unchanged)
        outputs: list[OutputPort] = []
        for i, port in enumerate(results):
            if kept[i]:
                outputs.append(self.node.inputs[i])
                continue
            with graph.name_scope(self.prefix), graph.scopes.apart(None, targets):
                following = ops.NextIteration(Tensor(graph, *port))
            graph.set_back_edge(values[i], 1, following)
            with graph.name_scope(self.prefix), graph.scopes.apart(None):
                outputs.append(ops.Exit(switches[i].output_false).port)
        return outputs, []

    def _verdict(self, cond: Tensor) -> Tensor:
        if cond.dtype.is_bool and not cond.shape.rank:
            return cond
        with self.graph.scopes.apart(cond.node_name):
            if cond.shape.rank:
                found: Tensor = self.ops.Greater(self.ops.Size(cond), self.graph.constant(0))
            else:
                nothing = "" if cond.dtype.base is dtypes.string else 0
                found = self.ops.NotEqual(cond, self.graph.constant(nothing, cond.dtype.base))
        return found

    # ------------------------------------------------------------------ bodies

    def _body(self, function: FuncAttr) -> FunctionBody:
        return body_of(self.library, function)

    def _copied(
        self,
        body: FunctionBody,
        given: Sequence[OutputPort],
        scope: str,
        pivot: str | None,
        unchanged: frozenset[OutputPort] = frozenset(),
        *,
        effects_wait: bool = False,
    ) -> tuple[list[OutputPort], list[str]]:
        """Add a body's nodes under a scope; (its results, the nodes that have to run).

        unchanged      arguments that are there in every iteration: what is made of these alone is tied to the
                       pivot, as what is made of nothing, so that it ends with the loop
        effects_wait   whether all stateful nodes are tied to it
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
            if node.name in inner:
                inputs = [outside(port) for port in node.inputs]
                is_free = unchanged.issuperset(inputs)
                copied = self._copy(node, scope, inner, inputs, pivot if is_free else None)
                if effects_wait and node.is_stateful and pivot not in copied.control_inputs:
                    copied = replace(copied, control_inputs=(*copied.control_inputs, str(pivot)))
                self.graph.add(copied)
                self.noted[scope + node.name] = self.within | {body.name}
        return [outside(port) for port in body.results], [scope + name for name in _certain_targets(body)]

    def _copy(
        self, node: Node, scope: str, inner: set[str], inputs: list[OutputPort], pivot: str | None
    ) -> Node:
        controls = tuple(scope + name for name in node.control_inputs if name in inner)
        attrs = _renamed(node, scope, inner)
        if SEGMENT in self.node.attrs:
            attrs[SEGMENT] = self.node.attrs[SEGMENT]
        if not controls and pivot is not None:
            controls = (pivot,)
        return replace(
            node,
            name=scope + node.name,
            inputs=tuple(inputs),
            control_inputs=controls,
            attrs=attrs,
            device=node.device or self.node.device,
            creation_site=self.node.creation_site,
            source=None,
        )


def _renamed(node: Node, scope: str, inner: set[str]) -> dict[str, Any]:
    """The attributes of a body's node in another graph: frames and colocations have the names of there."""
    attrs = dict(node.attrs)
    if node.op in ENTER_OPS:
        attrs["frame_name"] = scope.encode("utf-8", "surrogateescape") + attrs["frame_name"]
    together = attrs.pop("_class", None)
    if isinstance(together, tuple):
        names = [each.decode("utf-8", "surrogateescape").removeprefix("loc:@") for each in together]
        kept = tuple(f"loc:@{scope}{name}".encode() for name in names if name in inner)
        if kept:
            attrs["_class"] = kept
    return attrs


def _certain_targets(body: FunctionBody) -> list[str]:
    """Of the nodes that run for their effect, those in no loop and no branch: the others run with theirs."""
    if not any(node.op in CONTROL_FLOW_OPS for node in body.graph):
        return list(body.targets)
    certain: set[str] = set()
    for name in topological_order(body.graph.nodes):
        node = body.graph.nodes[name]
        before = {port.node for port in node.inputs} | set(node.control_inputs)
        if node.op not in CONTROL_FLOW_OPS and before <= certain:
            certain.add(name)
    return [name for name in body.targets if name in certain]


def _behind_identities(body: FunctionBody, port: OutputPort) -> OutputPort:
    node = body.graph.nodes[port.node]
    while node.op == "Identity" and not node.control_inputs:
        port = node.inputs[0]
        node = body.graph.nodes[port.node]
    return port
