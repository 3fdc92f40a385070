"""The gradient of a loop: what comes to its Exits, and what of it goes out through its Enters."""

from __future__ import annotations

import numpy as np

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.gradients.aggregate import added_to
from flowengine.gradients.backprop import Sweep
from flowengine.gradients.backward import Backward, empty_rows, zeros_like
from flowengine.gradients.control_structure import CarriedVariable, FoundLoop, Guard
from flowengine.gradients.values import Gradient, IndexedSlices
from flowengine.gradients.while_loops.carried_variables import AddedVariable
from flowengine.gradients.while_loops.regions import ForwardLoop, LoopRegion
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.ir.frames import FramePath
from flowengine.ir.graph import OutputPort


def differentiate_loop(outer: Sweep, path: FramePath) -> None:
    """Build the backward loop of the loop of a frame, unless no gradient comes to it.

    Raises InvalidArgumentError where one comes to an Exit that is not of a variable.
    """
    call = outer.region.call
    loop = call.structure.loops[path]
    for name in loop.other_exits:
        if outer.gradients.total(OutputPort(name, 0)) is not None:
            raise InvalidArgumentError(
                f"the Exit '{name}' gives what the condition of its loop computes, or a constant, and not a "
                "variable of it: this cannot be differentiated; compute it in its body, or outside of it"
            )
    came = {variable.merge: _of_exits(outer, variable) for variable in loop.variables}
    if all(each is None for each in came.values()) and not outer.is_popped(path):
        return
    with call.graph.scopes.name_scope(f"{path[-1]}_grad"):
        sweep: type[LoopSweep] = LoopSweep
        if call.history_every > 1 and not outer.is_popped(path):
            from flowengine.gradients.while_loops.sparse_history import SparseHistorySweep, can_run_again

            if can_run_again(outer, loop):
                sweep = SparseHistorySweep
        sweep(outer, loop, came).run()


def _of_exits(outer: Sweep, variable: CarriedVariable) -> Gradient | None:
    found = [outer.gradients.total(OutputPort(name, 0)) for name in variable.exits]
    present = [each for each in found if each is not None]
    if len(present) < 2:
        return present[0] if present else None
    return outer.gradients.summed(present, OutputPort(variable.exits[0], 0))


class LoopSweep:
    """One loop on the way back, from its Exits to its Enters.

    came   {Merge of a variable: the gradient of its last value}
    """

    def __init__(self, outer: Sweep, loop: FoundLoop, came: dict[str, Gradient | None]) -> None:
        self.outer = outer
        self.loop = loop
        self.came = came
        self.graph = outer.graph
        self.reach = outer.reach
        region = outer.region
        self.around = region
        self.forward = ForwardLoop(region.call, loop, region.call.place(loop.path[:-1]))
        region.call.places[loop.path] = self.forward
        self.region = self._opened()

    def _opened(self) -> LoopRegion:
        return LoopRegion(self.around.call, self.forward, self.around)

    def run(self) -> None:
        carried = [
            (variable, self.region.carried(self._initial(variable)))
            for variable in self.loop.variables
            if OutputPort(variable.merge, 0) in self.reach.reached
        ]
        of_variables, of_constants = self._of_iteration(carried)
        for (variable, gradient), following in zip(carried, of_variables, strict=True):
            self._hand_out(variable.enter, gradient.close(following))
        for name, found in of_constants.items():
            self._hand_out(name, self._accumulated(name, found))
        self.region.close()
        self.forward.close()

    def _of_iteration(
        self, carried: list[tuple[CarriedVariable, AddedVariable]]
    ) -> tuple[list[Tensor], dict[str, Gradient]]:
        """Build the gradients of an iteration: by its variables, and {Enter of a constant: by it}."""
        sweep = Sweep(self.region, self.reach, self.outer.inside(self.loop), self.outer.order)
        for variable, gradient in carried:
            if variable.following is not None:
                port = self.graph.nodes[variable.following].inputs[0]
                if port in self.reach.reached:
                    sweep.gradients.add(port, gradient.inside)
        sweep.run()
        of_variables = [self._of_body(sweep, variable) for variable, _ in carried]
        of_constants = {name: sweep.gradients.total(OutputPort(name, 0)) for name in self.loop.constants}
        return of_variables, {name: each for name, each in of_constants.items() if each is not None}

    def _hand_out(self, enter: str, gradient: Gradient) -> None:
        port = self.graph.nodes[enter].inputs[0]
        if port in self.reach.reached:
            structure = self.outer.structure
            self.outer.add(port, gradient, structure.loop_guard(self.loop) | structure.guard(port))

    def _initial(self, variable: CarriedVariable) -> Tensor:
        """The gradient of a variable's last value; zeros where none came, made outside of the loop."""
        came = self.came[variable.merge]
        with self.around.building(self.region.guard):
            b = Backward(self.around, Operation(self.graph, variable.merge))
            if came is not None:
                return b.dense(came)
            if variable.exits:
                return zeros_like(b, Tensor(self.graph, variable.exits[0], 0))
            return self._unseen_zeros(b, variable)

    def _unseen_zeros(self, b: Backward, variable: CarriedVariable) -> Tensor:
        """Zeros of the shape of a last value that nobody has taken out of the loop."""
        merge = Tensor(self.graph, variable.merge, 0)
        if merge.shape.is_fully_defined or not variable.switches:
            return zeros_like(b, merge)
        scopes, ops = self.graph.scopes, self.graph.ops
        with scopes.apart(None):
            taken_out = ops.Exit(Tensor(self.graph, variable.switches[0], 0))
            zeros = ops.ZerosLike(taken_out)
        assert self.forward.parent is not None
        return self.around.brought(zeros, self.forward.parent.frame, self.region.guard)

    def _of_body(self, sweep: Sweep, variable: CarriedVariable) -> Tensor:
        """The gradient of a variable's value in an iteration."""
        merge = OutputPort(variable.merge, 0)
        ports = [OutputPort(name, 1) for name in variable.switches] + [merge]
        found = [each for each in map(sweep.gradients.total, ports) if each is not None]
        with self.region.building():
            b = Backward(self.region, Operation(self.graph, variable.merge))
            if not found:
                zeros = zeros_like(b, Tensor(self.graph, *(ports[0])))
                with self.graph.scopes.apart(None, [self.region.pivot]):
                    tied: Tensor = self.graph.ops.Identity(zeros)  # it must end with the loop
                return tied
            return b.dense(sweep.gradients.summed(found, ports[0]))

    # ------------------------------------------------------------------ what is the same in all iterations

    def _accumulated(self, enter: str, found: Gradient) -> Gradient:
        """The sum over all iterations of the gradient of a constant of the loop."""
        # It may be dead although the loop runs; then no iteration has a gradient for it.
        tensor = Tensor(self.graph, *self.graph.nodes[enter].inputs[0])
        guard = self.region.guard | self.outer.structure.guard(tensor.port)
        if isinstance(found, IndexedSlices):
            return self._listed(tensor, found, guard)
        with self.around.building(guard):
            zeros = zeros_like(Backward(self.around, Operation(self.graph, enter)), tensor)
        total = self.region.carried(zeros)
        with self.region.building():
            more = added_to(self.region, total.inside, found)
        return total.close(more)

    def _listed(self, tensor: Tensor, found: IndexedSlices, guard: Guard) -> IndexedSlices:
        """Slices of all iterations behind each other."""
        with self.around.building(guard):
            b = Backward(self.around, tensor.op)
            no_rows = empty_rows(b, tensor)
            no_indices = self.graph.constant(np.zeros(0, found.indices.dtype.base.as_numpy_dtype))
            shape = b.shape(tensor, dtypes.int32)
        values, indices = self.region.carried(no_rows), self.region.carried(no_indices)
        ops = self.graph.ops
        with self.region.building():
            more_values = ops.ConcatV2([values.inside, found.values], 0)
            more_indices = ops.ConcatV2([indices.inside, found.indices], 0)
        return IndexedSlices(values.close(more_values), indices.close(more_indices), shape)
