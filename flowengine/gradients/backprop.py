"""The sweep: one pass backwards through a region.

An op's turn comes when all that takes its outputs has had its own: of those that are ready, the one that was
built last is first. So gradients follow the order of construction backwards, and what they need is soon done
with.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack

from flowengine.core.names import tensor_name
from flowengine.gradients.aggregate import aggregate
from flowengine.gradients.errors import GradientValueError, MissingGradientError
from flowengine.gradients.reach import Reach, can_have_gradient, path
from flowengine.gradients.regions import GradientRegion
from flowengine.gradients.registry import GradientRule, find
from flowengine.gradients.values import Backward, Gradient, Results
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.ir.graph import Node, OutputPort
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
            found[:] = [aggregate(self._region, found)]
        return found[0]


class Sweep:
    """One pass backwards through the nodes of a region."""

    def __init__(
        self, region: GradientRegion, reach: Reach, names: Collection[str], order: dict[str, int]
    ) -> None:
        self.region = region
        self.graph = region.graph
        self.reach = reach
        self.gradients = Gradients(region)
        self._order = order
        self._pending = dict.fromkeys(names, 0)
        for name in names:
            for port in reach.nodes[name]:
                if port.node in self._pending:
                    self._pending[port.node] += 1

    def run(self) -> None:
        """Call the gradient function of each node in turn, until every tensor has its gradients."""
        pending, order = self._pending, self._order
        ready = [(-order[name], name) for name, count in pending.items() if not count]
        heapq.heapify(ready)
        while ready:
            _, name = heapq.heappop(ready)
            ports = self.reach.nodes[name]
            if ports:
                self._differentiate(self.graph.nodes[name])
            for port in ports:
                if port.node in pending:
                    pending[port.node] -= 1
                    if not pending[port.node]:
                        heapq.heappush(ready, (-order[port.node], port.node))

    def _differentiate(self, node: Node) -> None:
        outputs = [self._of_output(node, slot) for slot in range(len(node.output_types))]
        if all(each is None for each in outputs):
            return
        rule = self._rule(node)
        if rule is None:
            return
        operation = Operation(self.graph, node.name)
        scopes = self.graph.scopes
        with ExitStack() as around:
            around.enter_context(scopes.name_scope(f"{node.name}_grad"))
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
        for port, result in zip(node.inputs, results, strict=True):
            if result is not None and port in self.reach.reached:
                self._check(node, port, result)
                self.gradients.add(port, result)

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
        override = node.attrs.get("_gradient_op_type")
        if isinstance(override, bytes):
            rule = find(override.decode())
            if rule is None:
                raise MissingGradientError(
                    f"{node.op} '{node.name}' asks for the gradient function '{override.decode()}', which is "
                    f"not registered: write it under @gradient('{override.decode()}')"
                )
            return rule
        rule = find(node.op)
        if rule is None and not node.has(NotDifferentiable):
            raise self._missing(node)
        return rule

    def _missing(self, node: Node) -> MissingGradientError:
        way = path(self.reach, node.name, lambda name: not self.reach.nodes.get(name))
        text = (
            f"{node.op} '{node.name}' has no gradient function: y depends on x through it "
            f"({' <- '.join(way)}); write one with @flowengine.gradients.registry.gradient('{node.op}'), "
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
    from flowengine.gradients.values import IndexedSlices

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
