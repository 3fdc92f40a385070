"""Measures of an epoch: means of its steps' fetches, and metrics that begin anew with each epoch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flowengine.client.metrics import METRIC_VARIABLES, Metric
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.graphs.tensor import Operation
from flowengine.graphs.variables.initializing import listed_variables
from flowengine.ir.graph import NodeGraph
from flowengine.ir.traverse import reachable
from flowengine.runtime.planning.fetches import node_of
from flowengine.session import Session
from flowengine.train.hooks.step_values import is_number


class Measures:
    """Measures one pass over data after the other.

    fetches   {name: scalar} that each step fetches; an epoch has the mean, each batch as often as it has rows
    metrics   {name: fe.metrics.Metric}
    """

    def __init__(self, graph: NodeGraph, fetches: Mapping[str, Any], metrics: Mapping[str, Any]) -> None:
        """Raise InvalidArgumentError for what is no metric, and for a name that both have."""
        both = fetches.keys() & metrics.keys()
        if both:
            raise InvalidArgumentError(f"fetches= and metrics= both name '{min(both)}': rename one")
        for name, each in fetches.items():
            shape = getattr(each, "shape", None)
            if isinstance(shape, TensorShape) and shape.num_elements() not in (None, 1):
                raise _no_scalar(name, shape)
        self.fetches = dict(fetches)
        self._values = {name: _metric(name, each).value for name, each in metrics.items()}
        #: The nodes that update the metrics; each step runs them beside the training.
        self.updates = [each.update for each in metrics.values()]
        nodes = reachable(graph.nodes, [node_of(graph, each) for each in self.updates])
        self._resets = [
            each.initializer for each in listed_variables(graph, METRIC_VARIABLES) if each.op.name in nodes
        ]
        self._totals = dict.fromkeys(self.fetches, 0.0)
        self._rows = 0

    @property
    def names(self) -> list[str]:
        """The names of its numbers, in the order of a table."""
        return [*self.fetches, *self._values]

    async def begin(self, session: Session) -> None:
        """Begin a pass: metrics forget what they have seen."""
        self._totals = dict.fromkeys(self.fetches, 0.0)
        self._rows = 0
        if self._resets:
            await session.run([], targets=self._resets)

    def add(self, values: Mapping[str, Any], rows: int, when: str) -> None:
        """Count what a step has fetched.

        when   the words of the error for an infinite number or NaN that say when it came; empty to allow it

        Raises InvalidArgumentError for a value that is not a scalar, too.
        """
        for name in self.fetches:
            value = values[name]
            if not is_number(value):
                raise _no_scalar(name, list(np.shape(value)))
            number = float(np.asarray(value).reshape(()))
            if when and not math.isfinite(number):
                raise InvalidArgumentError(
                    f"'{name}' is {number} {when}: lower the rate, or clip gradients; with allow_nan=True "
                    "the training goes on"
                )
            self._totals[name] += number * rows
        self._rows += rows

    def means(self) -> dict[str, float]:
        """Return the means of what was fetched so far."""
        return {name: total / max(self._rows, 1) for name, total in self._totals.items()}

    async def end(self, session: Session) -> dict[str, float]:
        """Return {name: number} of the pass."""
        found = await session.run(self._values) if self._values else {}
        for name, value in found.items():
            if not is_number(value):
                raise InvalidArgumentError(
                    f"metrics['{name}'] has the shape {list(np.shape(value))}: it must be one number"
                )
        return self.means() | {name: float(np.asarray(value).reshape(())) for name, value in found.items()}


def targets_of(step: Any) -> list[Any]:
    """Return the targets of a step. Raises InvalidArgumentError for a function."""
    targets = list(step) if isinstance(step, list | tuple) else [step]
    for each in targets:
        if callable(each) and not isinstance(each, Operation):
            raise InvalidArgumentError(
                "fit runs operations of the graph, such as what `minimize` returns: for a function as step, "
                "use fe.train.loop"
            )
    return targets


def unfed_placeholders(graph: NodeGraph, fed: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return the placeholders that these nodes need and nobody feeds."""
    stopped = set(fed)
    nodes = reachable(
        graph.nodes,
        [each for each in wanted if each not in stopped],
        lambda node: [
            source
            for source in (*(port.node for port in node.inputs), *node.control_inputs)
            if source not in stopped
        ],
    )
    return sorted(name for name in nodes if graph[name].is_placeholder)


def _no_scalar(name: str, shape: Any) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"fetches['{name}'] has the shape {shape}, and an epoch has one number of it: fetch a scalar, such "
        "as fe.reduce_mean of it"
    )


def _metric(name: str, given: Any) -> Metric:
    if isinstance(given, tuple) and len(given) == 2:
        return Metric(*given)
    raise InvalidArgumentError(
        f"metrics['{name}'] is a {type(given).__name__}: give what a function of fe.metrics returns; a "
        "scalar of a step goes into fetches="
    )


__all__ = ["Measures", "targets_of", "unfed_placeholders"]
