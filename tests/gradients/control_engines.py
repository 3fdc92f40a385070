"""FlowEngine as an engine of `control_programs`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

import numpy as np

import flowengine as fe
from flowengine.gradients.values import dense

_OPTIMIZERS: Final[dict[str, Callable[[], Any]]] = {
    "sgd": lambda: fe.optimizers.SGD(0.125),
    "momentum": lambda: fe.optimizers.Momentum(0.125, 0.5),
    "adam": lambda: fe.optimizers.Adam(0.125, beta1=0.5, beta2=0.75, epsilon=2.0**-20),
}


class Engine:
    """The calls of `control_programs`, over a graph of its own.

    use_resource   whether variables are resources, or references
    """

    def __init__(self, *, use_resource: bool = True) -> None:
        self.graph = fe.Graph()
        self.variables: dict[str, Any] = {}
        self._use_resource = use_resource
        self._session: Any = None

    def placeholder(self, shape: Any, name: str) -> Any:
        return self.graph.placeholder("float64", shape, name=name)

    def variable(self, value: Any, name: str) -> Any:
        made = self.graph.variable(np.array(value), name=name, use_resource=self._use_resource)
        self.variables[name] = made
        return made

    def read(self, variable: Any) -> Any:
        return variable.value()

    def read_now(self, name: str) -> Any:
        return self.variables[name]

    def constant(self, value: Any) -> Any:
        return self.graph.constant(value, "float64")

    def binary(self, kind: str, x: Any, y: Any) -> Any:
        if kind == "+":
            return x * 0.5 + y
        if kind == "-":
            return x - y * 0.5
        if kind == "*":
            return x * y * 0.5
        if kind == "tanh":
            return fe.tanh(x + y)
        if kind == "rows":
            return fe.gather(x, [2, 0, 2]) * 0.5 - y
        return self.graph.ops.Select(fe.greater(x, 0.03), x * 0.5, y)

    def exceeds(self, x: Any, bound: float) -> Any:
        return fe.reduce_sum(x) > bound

    def total(self, x: Any) -> Any:
        return fe.reduce_sum(x)

    def cond(self, flag: Any, then: Any, other: Any) -> Any:
        return self.graph.cond(flag, then, other)

    def loop(self, most: int, goes_on: Any, body: Any, start: list[Any]) -> list[Any]:
        def condition(i: Any, *carried: Any) -> Any:
            return fe.logical_and(i < most, goes_on(*carried)) if goes_on else i < most

        found: list[Any] = self.graph.while_loop(
            condition, lambda i, *carried: [i + 1, *body(*carried)], [self.graph.constant(0), *start]
        )
        return found[1:]

    def after(self, tensors: Any) -> AbstractContextManager[None]:
        return self.graph.control_dependencies(tensors)

    def beside(self, tensor: Any) -> AbstractContextManager[None]:
        return self.graph.colocate_with(tensor)

    def on(self, device: str) -> AbstractContextManager[None]:
        return self.graph.device(device)

    def within(self, name: str) -> AbstractContextManager[str]:
        return self.graph.name_scope(name)

    def gradients(self, y: Any, xs: list[Any]) -> list[Any]:
        return [None if each is None else _dense(each) for each in fe.gradients(y, xs)]

    def minimize(self, kind: str, loss: Any) -> Any:
        optimizer = _OPTIMIZERS[kind]()
        found = optimizer.compute_gradients(loss)
        pairs = [(_dense(g), v) for g, v in found if g is not None]
        if not pairs:
            return None
        # Nothing else orders the reads of a variable and its update.
        with self.graph.control_dependencies([loss, *(g for g, _ in pairs)]):
            return optimizer.apply_gradients(pairs)

    def session(self) -> Callable[..., Any]:
        self._session = fe.blocking.Session(self.graph)
        self._session.initialize()
        run: Callable[..., Any] = self._session.run
        return run

    def close(self) -> None:
        self._session.close()


def _dense(gradient: Any) -> Any:
    if isinstance(gradient, fe.IndexedSlices):
        graph = gradient.values.graph
        return dense(graph, graph.ops, gradient)
    return gradient
