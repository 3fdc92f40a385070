"""RMSProp."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.client.optimizers.optimizer import Hyper, Optimizer, OptimizerNumbers
from flowengine.graphs.graph import Graph
from flowengine.graphs.variables.initializers import ones
from flowengine.graphs.variables.variable import GraphVariable


class RMSProp(Optimizer):
    """A gradient divided by the root of a moving average of its square. Tieleman, Hinton 2012.

    decay, momentum, epsilon   of the average; of the step; added to the average, so that its root is positive
    centered                   whether to divide by the root of the variance instead. Graves 2013

    Slots: "rms", which starts at 1, "momentum", and "mg" where it is centered.

    Of variables of floats of any shape; a gradient may be of some rows. A number is a Python number or a ()
    Tensor or variable. Raises InvalidArgumentError as `Optimizer` does.
    """

    def __init__(
        self,
        learning_rate: Hyper,
        *,
        decay: Hyper = 0.9,
        momentum: Hyper = 0.0,
        epsilon: Hyper = 1e-10,
        centered: bool = False,
        name: str = "RMSProp",
        use_locking: bool = False,
    ) -> None:
        centre = {"mg": "mg"} if centered else {}
        op = "CenteredRMSProp" if centered else "RMSProp"
        slots = {"ms": "rms", **centre, "mom": "momentum"}
        super().__init__(name, op, slots, use_locking=use_locking)
        self.learning_rate = learning_rate
        self.decay = decay
        self.momentum = momentum
        self.epsilon = epsilon
        self.centered = centered

    def _create_slots(self, graph: Graph, variables: Sequence[GraphVariable]) -> None:
        for variable in variables:
            for slot in self._slot_inputs.values():
                self._make_slot(variable, slot, ones() if slot == "rms" else None)

    def _prepare(self, step: OptimizerNumbers) -> OptimizerNumbers:
        step.add("lr", self.learning_rate, "learning_rate")
        step.add("rho", self.decay, "decay")
        step.add("momentum", self.momentum, "momentum")
        step.add("epsilon", self.epsilon, "epsilon")
        return step
