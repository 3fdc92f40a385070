"""History of every k-th iteration: the iterations between are run again, k at a time, before going back.

    forward:   each k-th iteration pushes what the loop carries
    backward:  while segments are left:  pop x;  run k iterations again from x;  go back through those

The loop that runs them again is a copy of the forward loop's body in a frame of the backward loop, and is
differentiated there as any loop: its full history is that of k iterations. So of n iterations n/k + k are
held, where the forward part is computed twice.
(A. Griewank, "Achieving logarithmic growth of temporal and spatial complexity in reverse automatic
differentiation", 1992, section 3, with one level of checkpoints.)
"""

from __future__ import annotations

from dataclasses import replace

from flowengine.gradients.backprop import Sweep
from flowengine.gradients.control_structure import ALWAYS, CarriedVariable, FoundLoop
from flowengine.gradients.values import Gradient, dense
from flowengine.gradients.while_loops.carried_variables import AddedVariable, CountingLoop
from flowengine.gradients.while_loops.history import History
from flowengine.gradients.while_loops.regions import LoopRegion
from flowengine.gradients.while_loops.sweep import LoopSweep
from flowengine.graphs.tensor import Tensor
from flowengine.ir.frames import frame_name
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.names import ENTER_OPS


def can_run_again(outer: Sweep, loop: FoundLoop) -> bool:
    """Whether an iteration computes the same once more, and goes back once for each time that it ran."""
    around = outer.region.outermost.frame
    if loop.path[: len(around)] != around:
        return False
    body = IterationCode(outer, loop)
    return body.is_closed and not any(outer.graph.nodes[name].is_stateful for name in body.names)


class IterationCode:
    """The computation of one iteration for the next: variables that have a gradient, and their sources.

    names       its nodes, those of loops within it too
    variables   {Merge: the variable}, those that it needs
    is_closed   whether it needs no more of the loop than variables that have a Switch and a next value
    """

    def __init__(self, outer: Sweep, loop: FoundLoop) -> None:
        self._nodes = outer.graph.nodes
        self.structure = outer.structure
        self.loop = loop
        self.by_merge = {variable.merge: variable for variable in loop.variables}
        self.by_switch = {name: variable for variable in loop.variables for name in variable.switches}
        self.machinery = loop.machinery()
        self.names: dict[str, None] = {}
        self.variables: dict[str, CarriedVariable] = {}
        self.is_closed = True
        self._waiting: list[str] = []
        for variable in loop.variables:
            if OutputPort(variable.merge, 0) in outer.reach.reached:
                self._need(variable)
        while self._waiting:
            self._add_sources(self._nodes[self._waiting.pop()])

    def _need(self, variable: CarriedVariable) -> None:
        if variable.merge in self.variables:
            return
        self.variables[variable.merge] = variable
        if variable.following is None or not variable.switches:
            self.is_closed = False
            return
        self._add(self._nodes[variable.following].inputs[0])

    def _add_sources(self, node: Node) -> None:
        for port in node.inputs:
            self._add(port)
        for name in node.control_inputs:
            if name not in self.machinery:
                self._add(OutputPort(name, 0))

    def _add(self, port: OutputPort) -> None:
        variable = self.variable(port)
        if variable is not None:
            self._need(variable)
        elif port == self.loop.cond:
            self.is_closed = False
        elif self.constant(port) is None and port.node not in self.names:
            self.names[port.node] = None
            self._waiting.append(port.node)

    def variable(self, port: OutputPort) -> CarriedVariable | None:
        """The variable whose value in an iteration a port is."""
        return self.by_merge.get(port.node) or self.by_switch.get(port.node)

    def constant(self, port: OutputPort) -> str | None:
        """The Enter of the constant that a port is, as it enters or behind the Switch that ends the loop."""
        node = self._nodes[port.node]
        if node.op in ENTER_OPS and self.structure.home(port.node) == self.loop.path:
            return port.node
        found = self.structure.constant_of(port)
        return found if found in self.loop.constants else None


class SparseHistorySweep(LoopSweep):
    """A loop on the way back, so many iterations at a time."""

    def _opened(self) -> LoopRegion:
        self._every: int = self.around.call.history_every
        return LoopRegion(self.around.call, self.forward, self.around, self._every)

    def _of_iteration(
        self, carried: list[tuple[CarriedVariable, AddedVariable]]
    ) -> tuple[list[Tensor], dict[str, Gradient]]:
        from flowengine.gradients.differentiate import differentiate

        call, graph = self.around.call, self.graph
        body = IterationCode(self.outer, self.loop)
        popped = self._popped(body)
        again = _IterationsAgain(self, body, popped)
        lasts = again.run()
        ys = [lasts[variable.merge] for variable, _ in carried]
        xs = [popped[variable.merge] for variable, _ in carried]
        names = [name for name in again.constants if OutputPort(name, 0) in self.reach.reached]
        xs += [again.constants[name] for name in names]
        with graph.scopes.apart(self.region.anchor()):
            found = differentiate(
                ys,
                xs,
                [gradient.inside for _, gradient in carried],
                aggregation=call.aggregation,
                gate="op" if call.gate == "op" else "none",
                colocate=call.colocate,
            )
        of_variables = []
        with self.region.building():
            for (variable, _), each in zip(carried, found, strict=False):
                of_variables.append(self._dense(popped[variable.merge], each))
        of_constants = dict(zip(names, found[len(carried) :], strict=True))
        return of_variables, {name: each for name, each in of_constants.items() if each is not None}

    def _dense(self, value: Tensor, gradient: Gradient | None) -> Tensor:
        ops = self.graph.ops
        if gradient is None:
            zeros: Tensor = ops.ZerosLike(value)
            return zeros
        return gradient if isinstance(gradient, Tensor) else dense(self.graph, ops, gradient)

    def _popped(self, body: IterationCode) -> dict[str, Tensor]:
        """The values of the variables at the first of the iterations that are gone back through."""
        graph, forward = self.graph, self.forward
        ops, scopes = graph.ops, graph.scopes
        with scopes.apart(forward.index.node_name):
            part = ops.FloorMod(forward.index, graph.constant(self._every))
            is_kept = ops.Equal(part, graph.constant(0))
            kept = ops.Identity(ops.Switch(is_kept, is_kept).output_true, name="kept").node_name
        found = {}
        for merge, variable in body.variables.items():
            value = Tensor(graph, variable.switches[0], 1)
            found[merge] = History(value, forward, ALWAYS, kept).popped(self.region, ALWAYS)
        return found


class _IterationsAgain:
    """A loop in the backward loop that runs some iterations once more.

    constants   {Enter of a constant of the forward loop: its value in the backward loop}
    """

    def __init__(self, sweep: SparseHistorySweep, body: IterationCode, popped: dict[str, Tensor]) -> None:
        self._graph = graph = sweep.graph
        self._body = body
        region, every = sweep.region, sweep.around.call.history_every
        ops, scopes = graph.ops, graph.scopes
        self._region = region
        self._prefix = scopes.unique(f"{sweep.around.call.source}/{sweep.loop.path[-1]}_again")
        total = region.entered(region.total)
        with scopes.apart(region.anchor()):
            first = ops.Mul(region.index, graph.constant(every))
            count = ops.Minimum(ops.Sub(total, first), graph.constant(every))
            zero = graph.constant(0)
        parallel = sweep.forward.attrs["parallel_iterations"]
        self._loop = CountingLoop(graph, self._prefix, parallel, count, zero)
        self._variables = {merge: self._loop.carried(value) for merge, value in popped.items()}
        self.constants: dict[str, Tensor] = {}
        self._inside: dict[str, Tensor] = {}

    def run(self) -> dict[str, Tensor]:
        """Build the iterations; {Merge: the last value of its variable}."""
        nodes, body = self._graph.nodes, self._body
        following = {
            merge: nodes[variable.following].inputs[0]
            for merge, variable in body.variables.items()
            if variable.following is not None
        }
        originals = [node for node in self._graph if node.name in body.names]
        # Constants first: a loop within is not whole before its last node is copied.
        for port in [*following.values(), *(port for node in originals for port in node.inputs)]:
            self._enter(port)
        for node in originals:
            self._copy(node)
        values = {merge: Tensor(self._graph, *self._port(port)) for merge, port in following.items()}
        return {merge: self._variables[merge].close(value) for merge, value in values.items()}

    def _enter(self, port: OutputPort) -> None:
        """Bring the constant that a port is, if it is one."""
        constant = None if self._body.variable(port) is not None else self._body.constant(port)
        if constant is not None and constant not in self._inside:
            outside = Tensor(self._graph, *self._graph.nodes[constant].inputs[0])
            value = self.constants[constant] = self._region.entered(self._region.around.here(outside))
            self._inside[constant] = self._loop.entered(value)

    def _copy(self, node: Node) -> None:
        attrs = dict(node.attrs)
        if node.op in ENTER_OPS:
            inner = f"{self._prefix}/{frame_name(node)}"
            attrs["frame_name"] = inner.encode("utf-8", "surrogateescape")
        controls = [self._name(name) for name in node.control_inputs]
        inputs = tuple(self._port(port) for port in node.inputs)
        if not inputs and not controls:
            controls = [self._loop.number.node_name]
        self._graph.add(
            replace(
                node,
                name=self._prefix + "/" + node.name,
                inputs=inputs,
                control_inputs=tuple(dict.fromkeys(controls)),
                attrs=attrs,
                source=None,
            )
        )

    def _name(self, control: str) -> str:
        return f"{self._prefix}/{control}" if control in self._body.names else self._loop.number.node_name

    def _port(self, port: OutputPort) -> OutputPort:
        """Return the copy's port for a port."""
        variable = self._body.variable(port)
        if variable is not None:
            return self._variables[variable.merge].inside.port
        constant = self._body.constant(port)
        if constant is None:
            return OutputPort(f"{self._prefix}/{port.node}", port.slot)
        return self._inside[constant].port
