"""Gradient descent, with momentum, and with a proximal step."""

from __future__ import annotations

from typing import Any

from flowengine.client.optimizers.optimizer import Hyper, Optimizer, OptimizerNumbers
from flowengine.gradients.values import IndexedSlices
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.graphs.variables.variable import GraphVariable


class SGD(Optimizer):
    """Gradient descent: w -= rate * g.

    Of variables of floats of any shape; a gradient may be of some rows. A number is a Python number or a ()
    Tensor or variable. Raises InvalidArgumentError as `Optimizer` does.
    """

    def __init__(
        self, learning_rate: Hyper, *, name: str = "GradientDescent", use_locking: bool = False
    ) -> None:
        super().__init__(name, "GradientDescent", use_locking=use_locking)
        self.learning_rate = learning_rate

    def _prepare(self, step: OptimizerNumbers) -> OptimizerNumbers:
        step.add("alpha", self.learning_rate, "learning_rate")
        return step

    def _apply_dense(self, gradient: Tensor, variable: GraphVariable, step: OptimizerNumbers) -> Operation:
        return self._applied("Apply", variable, step, {"delta": gradient})

    def _apply_sparse(
        self, gradient: IndexedSlices, variable: GraphVariable, step: OptimizerNumbers
    ) -> Operation:
        # Rows of equal index may be subtracted one after the other.
        ops = step.graph.ops
        delta = ops.Mul(gradient.values, step.number("alpha", variable.dtype))
        if variable.is_resource:
            done: Operation = ops.ResourceScatterSub(
                variable.handle, gradient.indices, delta, dtype=variable.dtype
            )
            return done
        scattered: Tensor = ops.ScatterSub(
            variable.handle, gradient.indices, delta, use_locking=self.use_locking
        )
        return scattered.op


class Momentum(Optimizer):
    """Gradient descent with momentum: a = momentum * a + g, w -= rate * a.

    nesterov   w -= rate * (g + momentum * a) instead. Sutskever, Martens, Dahl, Hinton 2013

    Slot: "momentum".

    Of variables of floats of any shape; a gradient may be of some rows. A number is a Python number or a ()
    Tensor or variable. Raises InvalidArgumentError as `Optimizer` does.
    """

    def __init__(
        self,
        learning_rate: Hyper,
        momentum: Hyper,
        *,
        nesterov: bool = False,
        name: str = "Momentum",
        use_locking: bool = False,
    ) -> None:
        super().__init__(name, "Momentum", {"accum": "momentum"}, use_locking=use_locking)
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.nesterov = nesterov

    def _prepare(self, step: OptimizerNumbers) -> OptimizerNumbers:
        step.add("lr", self.learning_rate, "learning_rate")
        step.add("momentum", self.momentum, "momentum")
        return step

    def _attrs(self) -> dict[str, Any]:
        return {"use_nesterov": self.nesterov}


class ProximalSGD(Optimizer):
    """Gradient descent, after which each weight is shrunk by l1 and l2 regularisation. Duchi, Singer 2009.

    Of variables of floats of any shape; a gradient may be of some rows. A number is a Python number or a ()
    Tensor or variable. Raises InvalidArgumentError as `Optimizer` does.
    """

    def __init__(
        self,
        learning_rate: Hyper,
        *,
        l1: Hyper = 0.0,
        l2: Hyper = 0.0,
        name: str = "ProximalGradientDescent",
        use_locking: bool = False,
    ) -> None:
        super().__init__(name, "ProximalGradientDescent", use_locking=use_locking)
        self.learning_rate = learning_rate
        self.l1 = l1
        self.l2 = l2

    def _prepare(self, step: OptimizerNumbers) -> OptimizerNumbers:
        step.add("alpha", self.learning_rate, "learning_rate")
        step.add("l1", self.l1, "l1_regularization_strength")
        step.add("l2", self.l2, "l2_regularization_strength")
        return step

    def _apply_dense(self, gradient: Tensor, variable: GraphVariable, step: OptimizerNumbers) -> Operation:
        return self._applied("Apply", variable, step, {"delta": gradient})


__all__ = ["SGD", "Momentum", "ProximalSGD"]
