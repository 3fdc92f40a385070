"""The sweep: one pass backwards through a region.

An op's turn comes when all that takes its outputs has had its own: of those that are ready, the one that was
built last is first. So gradients follow the order of construction backwards, and what they need is soon done
with.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import TypeAlias

from flowengine.core.names import tensor_name
from flowengine.functions.lowering import GRADIENT_NAME, has_own_gradient
from flowengine.gradients.aggregate import aggregate
from flowengine.gradients.backward import Backward
from flowengine.gradients.conditionals import lifted
from flowengine.gradients.control_structure import ALWAYS, FoundLoop, Guard
from flowengine.gradients.errors import GradientValueError, MissingGradientError
from flowengine.gradients.paths import Reach, can_have_gradient, path
from flowengine.gradients.regions import GradientRegion
from flowengine.gradients.registry import GradientRule, find
from flowengine.gradients.values import Gradient, IndexedSlices, Results
from flowengine.gradients.while_loops.history import History
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.ir.frames import FramePath
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.names import MERGE_OPS, SWITCH_OPS
from flowengine.ir.traits import NotDifferentiable


class Gradients:
    """The gradients of one region's tensors, as far as the sweep has come; added up when asked for."""

    def __init__(self, region: GradientRegion) -> None:
        self._region = region
        self._found: dict[OutputPort, list[Gradient]] = {}

    def add(self, port: OutputPort, gradient: Gradient) -> None:
        self._found.setdefault(port, []).append(gradient)

    def total(self, port: OutputPort) -> Gradient | None:
        """The sum of all that were added for a tensor; None where there are none."""
        found = self._found.get(port)
        if found is None:
            return None
        if len(found) > 1:
            found[:] = [self.summed(found, port)]
        return found[0]

    def summed(self, gradients: Sequence[Gradient], port: OutputPort) -> Gradient:
        """The sum of gradients of one tensor."""
        if len(gradients) == 1:
            return gradients[0]
        with self._region.building(self._region.structure.guard(port)):
            return aggregate(self._region, gradients)


#: What has its turn as one: a node, or all of a loop, by its frame.
Unit: TypeAlias = str | FramePath


class Sweep:
    """One pass backwards through the nodes of a region; a loop among them has its turn as a whole.

    names   the nodes of the region and of the loops in it
    order   {node: its place in the order of construction}
    """

    def __init__(
        self, region: GradientRegion, reach: Reach, names: Collection[str], order: Mapping[str, int]
    ) -> None:
        self.region = region
        self.graph = region.graph
        self.structure = region.structure
        self.reach = reach
        self.gradients = Gradients(region)
        self.order = order
        self._names = names
        self._units: dict[str, Unit] = {name: self._unit(name) for name in names}
        self._pending: dict[Unit, int] = dict.fromkeys(self._units.values(), 0)
        #: {unit: the units whose gradients it may give, one entry an edge}
        self._feeds: dict[Unit, list[Unit]] = {}
        for name, unit in self._units.items():
            feeds = self._feeds.setdefault(unit, [])
            for port in reach.nodes[name]:
                source = self._units.get(port.node)
                if source is not None and source != unit:
                    feeds.append(source)
                    self._pending[source] += 1

    def _unit(self, name: str) -> Unit:
        if self.structure.is_straight:
            return name
        home, frame = self.structure.home(name), self.region.code_frame
        depth = 0
        while depth < len(home) and depth < len(frame) and home[depth] == frame[depth]:
            depth += 1
        return name if depth == len(home) else home[: depth + 1]

    def inside(self, loop: FoundLoop) -> list[str]:
        """The nodes of a loop's body that a gradient goes through, with those of loops in it."""
        depth, machinery = len(loop.path), loop.machinery()
        return [
            name
            for name in self._names
            if self.structure.home(name)[:depth] == loop.path and name not in machinery
        ]

    def is_popped(self, path: FramePath) -> bool:
        """Whether a loop pushes values whose gradients have been pushed for it."""
        adjoints, stacks = self.region.call.adjoints, self.structure.stacks
        return bool(adjoints) and any(
            stacks.get(name) in adjoints
            for name in self._names
            if self.structure.home(name)[: len(path)] == path
        )

    def add(self, port: OutputPort, gradient: Gradient, live: Guard) -> None:
        """Add a gradient that is live under a guard to those of a tensor, which may be live more often."""
        if live and not live <= self.structure.guard(port):
            tensor = Tensor(self.graph, *port)
            gradient = lifted(self.region, tensor, gradient, live)
        self.gradients.add(port, gradient)

    def run(self) -> None:
        """Call the gradient function of each node in turn, until every tensor has its gradients."""
        pending = self._pending
        last = self.order
        if self.structure.is_straight:
            rank: dict[Unit, int] = {unit: last[unit] for unit in pending if isinstance(unit, str)}
        else:
            rank = {}
            for name, unit in self._units.items():
                rank[unit] = max(rank.get(unit, 0), last[name])
        ready = [(-rank[unit], unit) for unit, count in pending.items() if not count]
        heapq.heapify(ready)
        while ready:
            _, unit = heapq.heappop(ready)
            if isinstance(unit, tuple):
                from flowengine.gradients.while_loops.sweep import differentiate_loop

                differentiate_loop(self, unit)
            elif self.reach.nodes[unit]:
                self._differentiate(self.graph.nodes[unit])
            for source in self._feeds[unit]:
                pending[source] -= 1
                if not pending[source]:
                    heapq.heappush(ready, (-rank[source], source))

    def _differentiate(self, node: Node) -> None:
        if node.name in self.structure.stacks and self._turned_around(node):
            return
        outputs = [self._of_output(node, slot) for slot in range(len(node.output_types))]
        if all(each is None for each in outputs):
            return
        rule = self._rule(node)
        if rule is None:
            return
        if self.region.recomputation is not None:
            self.region.recomputation.begin(node, outputs)
        operation = Operation(self.graph, node.name)
        scopes = self.graph.scopes
        live = self.structure.node_guard(node.name)
        with ExitStack() as around:
            around.enter_context(scopes.name_scope(f"{node.name}_grad"))
            around.enter_context(self.region.building(live))
            if self.region.call.colocate:
                around.enter_context(scopes.colocate_with([node.name]))
            b = Backward(self.region, operation)
            results = rule.function(b, operation, *self._given(b, rule, operation, outputs))
            if len(results) != len(node.inputs):
                raise GradientValueError(
                    f"the gradient function of {node.op} '{node.name}' gives {len(results)} gradients; "
                    f"the op has {len(node.inputs)} inputs"
                )
            if self.region.call.gate == "op":
                results = gated(b, results)
        if node.op in SWITCH_OPS or node.op in MERGE_OPS:
            live = ALWAYS  # their gradients are as live as they should be
        for port, result in zip(node.inputs, results, strict=True):
            if result is not None and port in self.reach.reached:
                self._check(node, port, result)
                self.add(port, result, live)

    def _turned_around(self, node: Node) -> bool:
        """Give what was popped to the adjoint of its stack, or take what was pushed from there."""
        stack = self.structure.stacks[node.name]
        adjoints = self.region.call.adjoints
        guard = self.structure.node_guard(node.name)
        with self.graph.scopes.name_scope(f"{node.name}_grad"), self.region.building(guard):
            if node.name in self.structure.stack_edges:
                found = self._of_output(node, 0)
                b = Backward(self.region, Operation(self.graph, node.name))
                popped = Tensor(self.graph, node.name, 0)
                given = b.zeros_like(popped) if found is None else b.dense(found)
                made_in = self.structure.frame(stack)
                adjoints[stack] = History(given, self.region, guard, popped_in=made_in)
                return True
            adjoint = adjoints.get(stack)
            if adjoint is not None and node.inputs[1] in self.reach.reached:
                self.add(node.inputs[1], adjoint.popped(self.region, guard), guard)
        return False

    def _of_output(self, node: Node, slot: int) -> Gradient | None:
        port = OutputPort(node.name, slot)
        return None if port in self.reach.stops else self.gradients.total(port)

    def _given(
        self, b: Backward, rule: GradientRule, operation: Operation, outputs: Sequence[Gradient | None]
    ) -> list[Gradient | None]:
        """The gradients of an op's outputs as its function wants them."""
        given: list[Gradient | None] = []
        for output, each in zip(operation.outputs, outputs, strict=True):
            if each is None:
                absent = rule.is_lazy or not can_have_gradient(output.dtype)
                given.append(None if absent else b.zeros_like(output))
            else:
                given.append(each if rule.takes_slices else b.dense(each))
        return given

    def _rule(self, node: Node) -> GradientRule | None:
        """How a node is differentiated; None if its gradient is absent whatever comes."""
        override = node.attrs.get(GRADIENT_NAME)
        if isinstance(override, bytes) and has_own_gradient(node):
            rule = find(override.decode())
            if rule is None:
                name = override.decode()
                raise self._missing(
                    node,
                    f"asks for the gradient function '{name}', which is not registered",
                    f"write it under @gradient('{name}')",
                )
            return rule
        rule = self.region.call.functions.rule(node) or find(node.op)
        if rule is None and not node.has(NotDifferentiable):
            raise self._missing(
                node,
                "has no gradient function",
                f"write one with @flowengine.gradients.registry.gradient('{node.op}')",
            )
        return rule

    def _missing(self, node: Node, fault: str, remedy: str) -> MissingGradientError:
        way = path(self.reach, node.name, lambda name: not self.reach.nodes.get(name))
        text = (
            f"{fault}: y depends on x through it ({' <- '.join(way)}); {remedy}, "
            "or give the tensor to stop_gradients"
        )
        error = MissingGradientError(text)
        error.locate(node_name=node.name, op_type=node.op, creation_site=node.creation_site)
        return error

    def _check(self, node: Node, port: OutputPort, result: Gradient) -> None:
        wanted = self.graph.nodes[port.node].output_types[port.slot].base
        found = result.dtype.base
        if found is not wanted and can_have_gradient(wanted) and wanted.size:
            raise GradientValueError(
                f"the gradient function of {node.op} '{node.name}' gives {found} for the input "
                f"'{tensor_name(*port)}', which is {wanted}"
            )


def gated(b: Backward, results: Results) -> Results:
    """The same gradients, each of which is there only when all of them are."""
    present = [each for each in results if each is not None]
    if len(present) < 2:
        return results
    return waiting_for_each_other(b, results)


def waiting_for_each_other(b: Backward, results: Iterable[Gradient | None]) -> Results:
    """Hand on gradients once all of them have been computed."""
    listed = list(results)
    waits = [
        tensor
        for each in listed
        if each is not None
        for tensor in ([each] if isinstance(each, Tensor) else [each.values, each.indices])
    ]
    made: list[Gradient | None] = []
    with b.control(waits):
        for each in listed:
            if isinstance(each, IndexedSlices):
                made.append(IndexedSlices(b.graph.ops.Identity(each.values), each.indices, each.dense_shape))
            else:
                made.append(None if each is None else b.graph.ops.Identity(each))
    return made
