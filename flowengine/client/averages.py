"""Moving averages of variables and tensors: what a model is often evaluated with.

average = fe.ExponentialMovingAverage(0.999)
with graph.control_dependencies([train]):
    both = average.apply(graph.collection("trainable_variables"))
smooth = average.average(w)                         # a variable: "w/ExponentialMovingAverage:0"
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flowengine.client.optimizers.optimizer import parts_of, slot_variable
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.graphs.variables import keys
from flowengine.graphs.variables.initializers import zeros
from flowengine.graphs.variables.variable import GraphVariable


class ExponentialMovingAverage:
    """Averages in which older values count for less: average -= (1 - decay) * (average - value).

    decay         a number or () tensor between 0 and 1
    num_updates   a () count of updates: the decay then is at most (1 + n) / (10 + n), so that the average
                  follows quickly at first
    zero_debias   whether averages of tensors, which start at zero, are corrected for it (Kingma, Ba 2015);
                  that of a variable starts at its value
    name          of the averages: `w/NAME` for a variable `w`

    Methods take a variable or tensor as `value`, or `variables`. Raises InvalidArgumentError for one that is
    not floating point.

    >>> graph = fe.Graph()
    >>> w = graph.variable(0.0, name="w")
    >>> averages = fe.ExponentialMovingAverage(0.5)
    >>> update = averages.apply([w])
    >>> averages.average_name(w), sorted(averages.variables_to_restore([w]))
    ('w/ExponentialMovingAverage', ['w/ExponentialMovingAverage'])
    >>> with fe.blocking.Session(graph) as session:
    ...     initialized = session.initialize()
    ...     print(session.run(w.assign(8.0)), session.run(update), session.run(averages.average(w)))
    8.0 None 4.0
    """

    def __init__(
        self,
        decay: Any,
        num_updates: Any = None,
        *,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        self.decay = decay
        self.num_updates = num_updates
        self.zero_debias = zero_debias
        self.name = name
        self._averages: dict[tuple[Graph, str], GraphVariable] = {}
        self._biased: dict[tuple[Graph, str], tuple[GraphVariable, GraphVariable]] = {}

    def apply(self, values: Iterable[Any]) -> Operation:
        """Return the operation that adds the present values to their averages.

        values   variables and tensors of floats, such as graph.collection("trainable_variables")

        Creates missing averages. Raises InvalidArgumentError if a value is not floating point.
        """
        listed = list(parts_of(values))
        if not listed:
            raise InvalidArgumentError(
                "a moving average of nothing: give apply() at least one variable or tensor"
            )
        graph: Graph = listed[0].graph
        for each in listed:
            if not each.dtype.base.is_floating:
                raise InvalidArgumentError(
                    f"'{each.name}' is {each.dtype}: only floats have a moving average"
                )
            if (graph, each.name) not in self._averages:
                self._averages[graph, each.name] = self._made(graph, each)
        with graph.name_scope(self.name) as scope:
            decay = self._decay(graph)
            updates = [self._update(graph, each, decay) for each in listed]
            return graph.group(*updates, name=scope)

    def average(self, value: Any) -> GraphVariable | None:
        """Return the variable that holds the average of `value`; None before `apply` was called with it."""
        return self._averages.get((value.graph, value.name))

    def average_name(self, value: Any) -> str:
        """Return the average's name in a checkpoint, whether its variable was made or not."""
        found = self.average(value)
        return f"{value.op.name}/{self.name}" if found is None else found.op.name

    def variables_to_restore(self, variables: Iterable[GraphVariable]) -> dict[str, GraphVariable]:
        """{name in a checkpoint: variable}, by which a saver restores the averages in place of the variables.

        Of those that are not trainable and have no average the name is their own.
        """
        found = {}
        for each in parts_of(variables):
            has_average = each.trainable or self.average(each) is not None
            found[self.average_name(each) if has_average else each.op.name] = each
        return found

    def _made(self, graph: Graph, value: Any) -> GraphVariable:
        if not isinstance(value, GraphVariable):
            with graph.scopes.outside(), graph.name_scope(None):
                made: GraphVariable = graph.variable(
                    zeros(),
                    name=f"{value.op.name}/{self.name}",
                    shape=value.shape,
                    dtype=value.dtype.base,
                    trainable=False,
                )
            return made
        graph.collections.add_once(keys.MOVING_AVERAGE_VARIABLES, value)
        return slot_variable(value, lambda graph, shape, dtype: value.initialized_value(), self.name)

    def _decay(self, graph: Graph) -> Tensor:
        ops = graph.ops
        decay = (
            self.decay
            if isinstance(self.decay, Tensor)
            else graph.constant(self.decay, "float32", name="decay")
        )
        count = self.num_updates
        if count is None:
            return decay
        if hasattr(count, "__flowengine_tensor__"):
            count = count.__flowengine_tensor__(graph, None, None)
        count = ops.Cast(count, DstT="float32", name="num_updates")
        found: Tensor = ops.Minimum(decay, ops.RealDiv(ops.Add(count, 1.0), ops.Add(count, 10.0)))
        return found

    def _update(self, graph: Graph, value: Any, decay: Tensor) -> Operation:
        """average -= (average - value) * (1 - decay), corrected for a start at zero where there was one."""
        average = self._averages[graph, value.name]
        ops, dtype = graph.ops, average.dtype
        now = value if isinstance(value, Tensor) else value.read()
        with graph.colocate_with(average.handle):
            rest = ops.Sub(graph.constant(1.0, "float32"), decay)
            rest = rest if dtype is rest.dtype.base else ops.Cast(rest, DstT=dtype)
            if not self.zero_debias or not isinstance(value, Tensor):
                return average.assign_sub_op(ops.Mul(ops.Sub(average.read(), now), rest))
            biased, count = self._debiasing(graph, average)
            with graph.control_dependencies([now]):
                biased_now = biased.assign_sub(ops.Mul(ops.Sub(biased.read(), now), rest))
                steps = count.assign_add(1.0)
            factor = ops.Sub(
                graph.constant(1, dtype), ops.Pow(ops.Sub(graph.constant(1, dtype), rest), steps)
            )
            return average.assign_op(ops.RealDiv(biased_now, factor))

    def _debiasing(self, graph: Graph, average: GraphVariable) -> tuple[GraphVariable, GraphVariable]:
        """Return the uncorrected average, and its count of updates."""
        key = (graph, average.name)
        if key not in self._biased:
            with graph.scopes.outside(), graph.name_scope(None), graph.colocate_with(average.handle):
                biased = graph.variable(
                    zeros(),
                    name=f"{average.op.name}/biased",
                    shape=average.shape,
                    dtype=average.dtype,
                    trainable=False,
                    use_resource=average.is_resource,
                )
                count = graph.variable(
                    0.0,
                    name=f"{average.op.name}/local_step",
                    dtype=average.dtype,
                    trainable=False,
                    use_resource=average.is_resource,
                )
            self._biased[key] = biased, count
        return self._biased[key]


__all__ = ["ExponentialMovingAverage"]
