"""Loss scaling: a loss is made larger, so that its gradients in 16-bit floats do not become zero.

Micikevicius and others: Mixed precision training, 2018.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flowengine.client.optimizers.optimizer import Optimizer, Pair
from flowengine.core.errors import InvalidArgumentError
from flowengine.gradients.values import Gradient, IndexedSlices
from flowengine.graphs.given import need_graph
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.graphs.variables.variable import GraphVariable


class LossScaling(Optimizer):
    """Another optimizer, given gradients of a scaled loss that are divided by the scale again.

    optimizer         the optimizer that makes the steps
    scale             the first scale of the loss
    growth_interval   the scale grows after so many steps in a row with finite gradients; None for a constant
                      scale
    factor            the factor by which the scale grows, and by which it falls, to no less than 1, at a
                      gradient that is not finite

    A step whose gradients are not all finite changes no variable and is not counted. The scale is kept in the
    variables `current_loss_scale` and `good_steps`.

    The arguments of methods are those of `flowengine.optimizers.Optimizer`. Raises InvalidArgumentError as
    the other optimizer does.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        *,
        scale: float = 2.0**15,
        growth_interval: int | None = 2000,
        factor: float = 2.0,
        name: str = "LossScaling",
    ) -> None:
        super().__init__(name, "")
        if scale <= 0 or factor <= 1 or (growth_interval is not None and growth_interval < 1):
            raise InvalidArgumentError(
                f"{name}: scale is positive, factor above 1 and growth_interval at least 1, not {scale}, "
                f"{factor}, {growth_interval}"
            )
        self.optimizer = optimizer
        self._start = scale
        self._interval = growth_interval
        self._factor = factor

    def scale(self, graph: Graph) -> GraphVariable:
        """Return the variable that holds the scale in a graph: () float32."""
        need_graph(graph, "scaling.scale(graph)")
        if (graph, "current_loss_scale") not in self._others:
            with graph.scopes.outside(), graph.name_scope(None):
                for name, value, dtype in (
                    ("current_loss_scale", self._start, "float32"),
                    ("good_steps", 0, "int64"),
                ):
                    made = graph.variable(value, name=name, dtype=dtype, trainable=False)
                    self._others[graph, name] = made
        return self._others[graph, "current_loss_scale"]

    def compute_gradients(
        self, loss: Tensor, variables: Iterable[Any] | None = None, **options: Any
    ) -> list[Pair]:
        """Return the gradients of the unscaled loss; `options` are those of `Optimizer.compute_gradients`."""
        graph, ops = loss.graph, loss.graph.ops
        scale = self.scale(graph).read()
        scaled = ops.Mul(loss, _as(scale, loss))
        inverse = ops.Reciprocal(scale)
        pairs = self.optimizer.compute_gradients(scaled, variables, **options)
        return [(None if g is None else _times(g, inverse), variable) for g, variable in pairs]

    def apply_gradients(
        self, pairs: Iterable[Pair], *, global_step: GraphVariable | None = None, name: str | None = None
    ) -> Operation:
        """Apply gradients as `Optimizer.apply_gradients` if all are finite; else lower the scale only."""
        present = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
        if not present:
            raise InvalidArgumentError(
                f"{self.name}: all gradients are None: the loss depends on none of the variables"
            )
        graph = present[0][1].graph
        ops, scale = graph.ops, self.scale(graph)
        with graph.name_scope(name or self.name) as scope:
            checks = [_is_finite(graph, gradient) for gradient, _ in present]
            finite = ops.All(ops.Pack(checks), [0])
        # Of a gradient that goes nowhere nothing follows: the optimizer's nodes are then dead, all of them.
        live = [(_where(graph, gradient, finite), variable) for gradient, variable in present]
        done = self.optimizer.apply_gradients(live, global_step=global_step)
        with graph.name_scope(scope):
            applied, skipped = ops.Switch(finite, finite).output_true, ops.Switch(finite, finite).output_false
            with graph.control_dependencies([done]):
                applied = ops.Identity(applied)
            either = ops.Merge([applied, skipped]).output
            with graph.control_dependencies([either]):
                interval = self._interval
                updates = [] if interval is None else self._rescaled(graph, scale, finite, interval)
            return graph.group(either, *updates, name=scope)

    def _rescaled(self, graph: Graph, scale: GraphVariable, finite: Tensor, interval: int) -> list[Operation]:
        """The scale and its count after a step whose gradients were finite, or not."""
        ops, good = graph.ops, self._others[graph, "good_steps"]
        present, count = scale.read(), ops.Add(good.read(), 1)
        grows = ops.GreaterEqual(count, interval)
        larger = ops.Mul(present, self._factor)
        larger = ops.Select(ops.LogicalAnd(grows, ops.IsFinite(larger)), larger, present)
        smaller = ops.Maximum(ops.RealDiv(present, self._factor), 1.0)
        restarts = ops.LogicalOr(grows, ops.LogicalNot(finite))
        return [
            scale.assign_op(ops.Select(finite, larger, smaller)),
            good.assign_op(ops.Select(restarts, ops.ZerosLike(count), count)),
        ]

    @property
    def slot_names(self) -> list[str]:
        return self.optimizer.slot_names

    def slot(self, variable: GraphVariable, name: str) -> GraphVariable | None:
        return self.optimizer.slot(variable, name)

    def variables(self) -> list[GraphVariable]:
        return [*self._others.values(), *self.optimizer.variables()]


def _as(number: Tensor, like: Tensor) -> Tensor:
    dtype = like.dtype.base
    return number if number.dtype.base is dtype else number.graph.ops.Cast(number, DstT=dtype)


def _times(gradient: Gradient, factor: Tensor) -> Gradient:
    """A gradient times a number, in the type of the gradient."""
    if isinstance(gradient, IndexedSlices):
        values = factor.graph.ops.Mul(gradient.values, _as(factor, gradient.values))
        return IndexedSlices(values, gradient.indices, gradient.dense_shape)
    found: Tensor = factor.graph.ops.Mul(gradient, _as(factor, gradient))
    return found


def _is_finite(graph: Graph, gradient: Gradient) -> Tensor:
    values = gradient.values if isinstance(gradient, IndexedSlices) else gradient
    flat = graph.ops.Reshape(graph.ops.IsFinite(values), [-1])
    found: Tensor = graph.ops.All(flat, [0])
    return found


def _where(graph: Graph, gradient: Gradient, live: Tensor) -> Gradient:
    """A gradient that is there only if `live`."""
    if isinstance(gradient, IndexedSlices):
        values = graph.ops.Switch(gradient.values, live).output_true
        return IndexedSlices(values, gradient.indices, gradient.dense_shape)
    found: Tensor = graph.ops.Switch(gradient, live).output_true
    return found


__all__ = ["LossScaling"]
