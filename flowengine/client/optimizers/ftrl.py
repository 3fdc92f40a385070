"""Follow the regularised leader."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.client.optimizers.optimizer import Hyper, Optimizer, OptimizerNumbers
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.graph import Graph
from flowengine.graphs.variables.initializers import constant
from flowengine.graphs.variables.variable import GraphVariable


class FTRL(Optimizer):
    """Follow the regularised leader, per coordinate. McMahan and others 2013.

    learning_rate_power         the rate falls with the squares' sum to the power of -this; at most 0
    initial_accumulator_value   the first value of that sum, at least 0
    l1, l2                      strengths of the regularisation
    l2_shrinkage                strength of a penalty of the present weights, at least 0

    Slots: "accum", "linear".

    Of variables of floats of any shape; a gradient may be of some rows. A number is a Python number or a ()
    Tensor or variable. Raises InvalidArgumentError as `Optimizer` does.
    """

    def __init__(
        self,
        learning_rate: Hyper,
        *,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1: Hyper = 0.0,
        l2: Hyper = 0.0,
        l2_shrinkage: float = 0.0,
        name: str = "Ftrl",
        use_locking: bool = False,
    ) -> None:
        op = "FtrlV2" if l2_shrinkage > 0 else "Ftrl"
        super().__init__(name, op, {"accum": "accum", "linear": "linear"}, use_locking=use_locking)
        if initial_accumulator_value < 0 or learning_rate_power > 0 or l2_shrinkage < 0:
            raise InvalidArgumentError(
                f"{name}: initial_accumulator_value and l2_shrinkage are at least 0, learning_rate_power at "
                f"most 0, not {initial_accumulator_value}, {l2_shrinkage}, {learning_rate_power}"
            )
        self.learning_rate = learning_rate
        self.learning_rate_power = learning_rate_power
        self.initial_accumulator_value = initial_accumulator_value
        self.l1 = l1
        self.l2 = l2
        self.l2_shrinkage = l2_shrinkage

    def _create_slots(self, graph: Graph, variables: Sequence[GraphVariable]) -> None:
        for variable in variables:
            self._make_slot(variable, "accum", constant(self.initial_accumulator_value))
            self._make_slot(variable, "linear")

    def _prepare(self, step: OptimizerNumbers) -> OptimizerNumbers:
        step.add("lr", self.learning_rate, "learning_rate")
        step.add("l1", self.l1, "l1_regularization_strength")
        step.add("l2", self.l2, "l2_regularization_strength")
        if self.l2_shrinkage > 0:
            step.add("l2_shrinkage", self.l2_shrinkage, "l2_shrinkage_regularization_strength")
        step.add("lr_power", self.learning_rate_power, "learning_rate_power")
        return step


__all__ = ["FTRL"]
