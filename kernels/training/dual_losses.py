"""Losses of linear models with their duals, for stochastic dual coordinate ascent.

For each: the dual variable that is best while the others stay, the loss by the product of example and
weights, and what the dual variable adds to the dual problem.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Final

from flowengine.core.errors import InvalidArgumentError

HOST: Final = "numbers one at a time"

#: Newton's method doubles the digits at each step.
_STEPS: Final = 10
_MOST: Final = 1.7976931348623157e308


class DualLoss(ABC):
    """One loss. `smoothness` is how much its slope changes at most, for the order of examples."""

    smoothness: float = 1.0

    def label(self, label: float) -> float:
        """The label as the loss wants it; InvalidArgumentError for others."""
        return label

    @abstractmethod
    def updated(self, label: float, dual: float, product: float, curvature: float) -> float:
        """The best dual variable. curvature: weight times squared norm over the strength of l2"""

    @abstractmethod
    def primal(self, product: float, label: float, weight: float) -> float:
        """The loss."""

    @abstractmethod
    def dual(self, dual: float, label: float, weight: float) -> float:
        """Return the term that the dual variable adds to the dual problem."""

    @abstractmethod
    def slope(self, product: float, label: float) -> float:
        """The derivative of the loss by the product."""


class BinaryLoss(DualLoss):
    """A loss of two classes: 0 and 1 become -1 and 1."""

    def label(self, label: float) -> float:
        if label not in (0.0, 1.0):
            raise InvalidArgumentError(
                f"Only labels of 0.0 or 1.0 are supported right now. Found example with label: {label}"
            )
        return 1.0 if label else -1.0


def _y_log_y(y: float) -> float:
    return y * math.log(y) if y > 0 else 0.0


class LogisticLoss(BinaryLoss):
    smoothness = 4.0

    def updated(self, label: float, dual: float, product: float, curvature: float) -> float:
        x = 0.0
        for _ in range(_STEPS):
            tanh = math.tanh(x)
            gap = -2 * label * x - product - curvature * (0.5 * (1 + tanh) / label - dual)
            x -= gap / (-2 * label - curvature * (1 - tanh * tanh) * 0.5 / label)
        return 0.5 * (1 + math.tanh(x)) / label

    def primal(self, product: float, label: float, weight: float) -> float:
        margin = label * product
        return (math.log1p(math.exp(-abs(margin))) - min(margin, 0.0)) * weight

    def dual(self, dual: float, label: float, weight: float) -> float:
        share = dual * label
        return (_y_log_y(share) + _y_log_y(1 - share)) * weight

    def slope(self, product: float, label: float) -> float:
        return -label * 0.5 * (1 - math.tanh(0.5 * label * product))


class SquaredLoss(DualLoss):
    def updated(self, label: float, dual: float, product: float, curvature: float) -> float:
        return dual + (label - dual - product) / (1 + curvature)

    def primal(self, product: float, label: float, weight: float) -> float:
        return (product - label) ** 2 * weight * 0.5

    def dual(self, dual: float, label: float, weight: float) -> float:
        return dual * (0.5 * dual - label) * weight

    def slope(self, product: float, label: float) -> float:
        return product - label


class HingeLoss(BinaryLoss):
    #: Within this distance of the margin it is a parabola.
    gamma: float = 0.0
    smoothness = 0.0

    def updated(self, label: float, dual: float, product: float, curvature: float) -> float:
        if not curvature + self.gamma:
            return dual
        best = dual + (label - product - self.gamma * dual) / (curvature + self.gamma)
        return min(max(label * best, 0.0), 1.0) * label

    def primal(self, product: float, label: float, weight: float) -> float:
        margin = label * product
        if margin >= 1:
            return 0.0
        if margin <= 1 - self.gamma:
            return (1 - margin - self.gamma / 2) * weight
        return (1 - margin) ** 2 * weight * 0.5 / self.gamma

    def dual(self, dual: float, label: float, weight: float) -> float:
        share = dual * label
        if not 0 <= share <= 1:
            return _MOST
        return (0.5 * self.gamma * dual * dual - share) * weight

    def slope(self, product: float, label: float) -> float:
        margin = label * product
        if margin >= 1:
            return 0.0
        return -label if margin <= 1 - self.gamma else (margin - 1) / self.gamma * label


class SmoothHingeLoss(HingeLoss):
    gamma = 1.0
    smoothness = 1.0


class PoissonLoss(DualLoss):
    def label(self, label: float) -> float:
        if label < 0:
            raise InvalidArgumentError(
                "Only non-negative labels can be used with the Poisson log loss. Found example with label: "
                f"{label}"
            )
        return label

    def updated(self, label: float, dual: float, product: float, curvature: float) -> float:
        rest = label - dual
        x = math.log(rest) if rest > 0 else 0.0
        for _ in range(_STEPS):
            power = math.exp(min(x, 700.0))
            x -= (x - product - curvature * (rest - power)) / (1 + curvature * power)
        return label - math.exp(min(x, 700.0))

    def primal(self, product: float, label: float, weight: float) -> float:
        return (math.exp(min(product, 700.0)) - product * label) * weight

    def dual(self, dual: float, label: float, weight: float) -> float:
        rest = label - dual
        if rest < 0:
            return _MOST
        return rest * (math.log(rest) - 1) * weight if rest else 0.0

    def slope(self, product: float, label: float) -> float:
        return math.exp(min(product, 700.0)) - label


#: {value of `loss_type`: the loss}
LOSSES: Final[dict[bytes, DualLoss]] = {
    b"logistic_loss": LogisticLoss(),
    b"squared_loss": SquaredLoss(),
    b"hinge_loss": HingeLoss(),
    b"smooth_hinge_loss": SmoothHingeLoss(),
    b"poisson_loss": PoissonLoss(),
}
