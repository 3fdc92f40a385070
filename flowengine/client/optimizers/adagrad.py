"""Optimizers whose rate for each weight falls with the squares of its gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flowengine.client.optimizers.optimizer import Hyper, Optimizer, OptimizerNumbers
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.graph import Graph
from flowengine.graphs.variables.initializers import constant
from flowengine.graphs.variables.variable import GraphVariable


class _SquaresOptimizer(Optimizer):
    """A base of optimizers whose slot of squares starts at a positive number."""

    def __init__(
        self,
        learning_rate: Hyper,
        initial_accumulator_value: float,
        name: str,
        op: str,
        slot_inputs: Mapping[str, str],
        use_locking: bool,
    ) -> None:
        super().__init__(name, op, slot_inputs, use_locking=use_locking)
        if initial_accumulator_value <= 0:
            raise InvalidArgumentError(
                f"{name}: initial_accumulator_value is positive, not {initial_accumulator_value}"
            )
        self.learning_rate = learning_rate
        self.initial_accumulator_value = initial_accumulator_value

    def _create_slots(self, graph: Graph, variables: Sequence[GraphVariable]) -> None:
        for variable in variables:
            for slot in self._slot_inputs.values():
                start = None if slot == "gradient_accumulator" else constant(self.initial_accumulator_value)
                self._make_slot(variable, slot, start)

    def _prepare(self, step: OptimizerNumbers) -> OptimizerNumbers:
        step.add("lr", self.learning_rate, "learning_rate")
        return step


class AdaGrad(_SquaresOptimizer):
    """a += g**2, w -= rate * g / sqrt(a). Duchi, Hazan, Singer 2011.

    initial_accumulator_value   the first value of `a`, positive. Slot: "accumulator"

    Of variables of floats of any shape; a gradient may be of some rows. A number is a Python number or a ()
    Tensor or variable. Raises InvalidArgumentError as `Optimizer` does.
    """

    def __init__(
        self,
        learning_rate: Hyper,
        *,
        initial_accumulator_value: float = 0.1,
        name: str = "Adagrad",
        use_locking: bool = False,
    ) -> None:
        slots = {"accum": "accumulator"}
        super().__init__(learning_rate, initial_accumulator_value, name, "Adagrad", slots, use_locking)


class ProximalAdaGrad(_SquaresOptimizer):
    """AdaGrad, after which each weight is shrunk by l1 and l2 regularisation. Slot: "accumulator".

    Duchi, Singer 2009.

    Of variables of floats of any shape; a gradient may be of some rows. A number is a Python number or a ()
    Tensor or variable. Raises InvalidArgumentError as `Optimizer` does.
    """

    def __init__(
        self,
        learning_rate: Hyper,
        *,
        initial_accumulator_value: float = 0.1,
        l1: Hyper = 0.0,
        l2: Hyper = 0.0,
        name: str = "ProximalAdagrad",
        use_locking: bool = False,
    ) -> None:
        slots = {"accum": "accumulator"}
        super().__init__(
            learning_rate, initial_accumulator_value, name, "ProximalAdagrad", slots, use_locking
        )
        self.l1 = l1
        self.l2 = l2

    def _prepare(self, step: OptimizerNumbers) -> OptimizerNumbers:
        step.add("l1", self.l1, "l1_regularization_strength")
        step.add("l2", self.l2, "l2_regularization_strength")
        return super()._prepare(step)


class AdaGradDA(_SquaresOptimizer):
    """AdaGrad by dual averaging, for sparse linear models: unused rows are regularized at their next use.

    global_step   the variable that counts the steps, the same that `apply_gradients` is given
    l1, l2        strengths of the regularisation

    Slots: "gradient_accumulator", "gradient_squared_accumulator". Duchi, Hazan, Singer 2011.

    Of variables of floats of any shape; a gradient may be of some rows. A number is a Python number or a ()
    Tensor or variable. Raises InvalidArgumentError as `Optimizer` does.
    """

    def __init__(
        self,
        learning_rate: Hyper,
        global_step: GraphVariable,
        *,
        initial_accumulator_value: float = 0.1,
        l1: Hyper = 0.0,
        l2: Hyper = 0.0,
        name: str = "AdagradDA",
        use_locking: bool = False,
    ) -> None:
        slots = {each: each for each in ("gradient_accumulator", "gradient_squared_accumulator")}
        super().__init__(learning_rate, initial_accumulator_value, name, "AdagradDA", slots, use_locking)
        self.global_step = global_step
        self.l1 = l1
        self.l2 = l2

    def _prepare(self, step: OptimizerNumbers) -> OptimizerNumbers:
        step.add("l1", self.l1, "l1_regularization_strength")
        step.add("l2", self.l2, "l2_regularization_strength")
        ops, count = step.graph.ops, self.global_step.read("global_step")
        if count.dtype.name != "int64":
            count = ops.Cast(count, DstT="int64")
        step.typed["global_step"] = ops.Add(count, 1)
        return super()._prepare(step)


class AdaDelta(Optimizer):
    """Rates from moving averages of squares, of gradients and of updates. Zeiler 2012.

    rho, epsilon   decay of the averages; a number added to them, so that their roots are positive

    Slots: "accum", "accum_update".

    Of variables of floats of any shape; a gradient may be of some rows. A number is a Python number or a ()
    Tensor or variable. Raises InvalidArgumentError as `Optimizer` does.
    """

    def __init__(
        self,
        learning_rate: Hyper = 0.001,
        *,
        rho: Hyper = 0.95,
        epsilon: Hyper = 1e-8,
        name: str = "Adadelta",
        use_locking: bool = False,
    ) -> None:
        slots = {"accum": "accum", "accum_update": "accum_update"}
        super().__init__(name, "Adadelta", slots, use_locking=use_locking)
        self.learning_rate = learning_rate
        self.rho = rho
        self.epsilon = epsilon

    def _prepare(self, step: OptimizerNumbers) -> OptimizerNumbers:
        step.add("lr", self.learning_rate, "lr")
        step.add("rho", self.rho, "rho")
        step.add("epsilon", self.epsilon, "epsilon")
        return step


__all__ = ["AdaDelta", "AdaGrad", "AdaGradDA", "ProximalAdaGrad"]
