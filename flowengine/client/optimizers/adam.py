"""Adam, and Adam with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from flowengine.client.optimizers.optimizer import Hyper, Optimizer, OptimizerNumbers, without_repeats
from flowengine.gradients.values import IndexedSlices
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.graphs.variables.variable import GraphVariable


class Adam(Optimizer):
    """Moving averages of the gradient and of its square, corrected for their start at zero. Kingma, Ba 2015.

    beta1, beta2   decay of the averages; epsilon is added to the root of the second

    The averages of a sparse gradient decay in all rows, as if it were dense. Slots: "m", "v"; shared by all
    variables: `beta1_power`, `beta2_power`.

    Of variables of floats of any shape; a gradient may be of some rows. A number is a Python number or a ()
    Tensor or variable. Raises InvalidArgumentError as `Optimizer` does.
    """

    def __init__(
        self,
        learning_rate: Hyper = 0.001,
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: Hyper = 1e-8,
        name: str = "Adam",
        use_locking: bool = False,
    ) -> None:
        super().__init__(name, "Adam", {"m": "m", "v": "v"}, use_locking=use_locking)
        self.learning_rate = learning_rate
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def _create_slots(self, graph: Graph, variables: Sequence[GraphVariable]) -> None:
        first = min(variables, key=lambda each: each.name)
        self._make_shared(graph, "beta1_power", self.beta1, first)
        self._make_shared(graph, "beta2_power", self.beta2, first)
        super()._create_slots(graph, variables)

    def _prepare(self, step: OptimizerNumbers) -> OptimizerNumbers:
        step.add("lr", self.learning_rate, "learning_rate")
        step.add("beta1", self.beta1, "beta1")
        step.add("beta2", self.beta2, "beta2")
        step.add("epsilon", self.epsilon, "epsilon")
        for name in ("beta1_power", "beta2_power"):
            step.add(name, self._shared(step.graph, name), name)
        return step

    def _apply_sparse(
        self, gradient: IndexedSlices, variable: GraphVariable, step: OptimizerNumbers
    ) -> Operation:
        graph, ops = step.graph, step.graph.ops
        slices = without_repeats(graph, gradient)
        number = {name: step.number(name, variable.dtype) for name in step.given}
        one = graph.constant(1, variable.dtype, name="one")
        corrected = ops.Div(
            ops.Mul(number["lr"], ops.Sqrt(ops.Sub(one, number["beta2_power"]))),
            ops.Sub(one, number["beta1_power"]),
        )

        def averaged(slot: str, beta: Tensor, values: Tensor) -> Tensor:
            average = self.slot(variable, slot)
            assert average is not None
            decayed = average.assign_op(ops.Mul(average.value(), beta))
            with graph.control_dependencies([decayed]):
                return average.scatter_add(slices.indices, ops.Mul(values, ops.Sub(one, beta)))

        m = averaged("m", number["beta1"], slices.values)
        v = averaged("v", number["beta2"], ops.Square(slices.values))
        delta = ops.Div(ops.Mul(corrected, m), ops.Add(ops.Sqrt(v), number["epsilon"]))
        return variable.assign_sub_op(delta)

    def _finish(self, step: OptimizerNumbers, updates: Sequence[Operation], name: str) -> Operation:
        graph, float32 = step.graph, self._shared(step.graph, "beta1_power").dtype
        powers = []
        with graph.control_dependencies(updates):
            for shared, beta in (("beta1_power", "beta1"), ("beta2_power", "beta2")):
                power = self._shared(graph, shared)
                with graph.colocate_with(power.handle):
                    grown = graph.ops.Mul(power.read(), step.number(beta, float32))
                    powers.append(power.assign_op(grown))
        return graph.group(*updates, *powers, name=name)


class AdamW(Adam):
    """Adam with decoupled weight decay: w -= decay * w, then Adam's step. Loshchilov, Hutter 2019.

    weight_decay   the part of a weight that a step subtracts; not multiplied by the rate, so apply a
                   schedule of the rate to it as well
    decayed        the variables that decay; by default all
    beta1, beta2, epsilon   as for `Adam`

    If the gradient is sparse, only the rows that it has decay. Slots as `Adam`.

    Of variables of floats of any shape; a gradient may be of some rows. A number is a Python number or a ()
    Tensor or variable. Raises InvalidArgumentError as `Optimizer` does.
    """

    def __init__(
        self,
        weight_decay: Hyper,
        learning_rate: Hyper = 0.001,
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: Hyper = 1e-8,
        decayed: Collection[GraphVariable] | None = None,
        name: str = "AdamW",
        use_locking: bool = False,
    ) -> None:
        super().__init__(
            learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon, name=name, use_locking=use_locking
        )
        self.weight_decay = weight_decay
        self._decayed = None if decayed is None else {each.name for each in decayed}

    def _apply_dense(self, gradient: Tensor, variable: GraphVariable, step: OptimizerNumbers) -> Operation:
        if not self._decays(variable):
            return super()._apply_dense(gradient, variable, step)
        ops, decay = step.graph.ops, self._decay(variable, step)
        with step.graph.control_dependencies([gradient]):
            done = variable.assign_sub_op(ops.Mul(decay, variable.read()))
        with step.graph.control_dependencies([done]):
            return super()._apply_dense(gradient, variable, step)

    def _apply_sparse(
        self, gradient: IndexedSlices, variable: GraphVariable, step: OptimizerNumbers
    ) -> Operation:
        if not self._decays(variable):
            return super()._apply_sparse(gradient, variable, step)
        ops, decay = step.graph.ops, self._decay(variable, step)
        slices = without_repeats(step.graph, gradient)
        with step.graph.control_dependencies([slices.values]):
            rows = ops.GatherV2(variable.read(), slices.indices, 0)
            done = variable.scatter_sub(slices.indices, ops.Mul(decay, rows))
        with step.graph.control_dependencies([done]):
            return super()._apply_sparse(slices, variable, step)

    def _decays(self, variable: GraphVariable) -> bool:
        return self._decayed is None or variable.name in self._decayed

    def _decay(self, variable: GraphVariable, step: OptimizerNumbers) -> Tensor:
        return step.one_of(self.weight_decay, "weight_decay", variable.dtype)


__all__ = ["Adam", "AdamW"]
