"""Functions that datasets call: of tensors, as graphs of their own that a session runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flowengine.core.arrays import Value
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.functions.rows import rows_of
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.ir.functions import FunctionBody
from flowengine.ir.graph import OutputPort
from flowengine.resources.container import ResourceManager
from flowengine.session import Session


class GraphCall:
    """A graph with what is fed and what is fetched; each call is a step of it."""

    def __init__(
        self, name: str, graph: Graph, feeds: Sequence[OutputPort], fetches: Sequence[OutputPort]
    ) -> None:
        self.name = name
        self._graph = graph
        self._feeds, self._fetches = tuple(feeds), tuple(fetches)
        self._call: Any = None

    async def __call__(self, arguments: Sequence[Value], sequences: ResourceManager) -> tuple[Value, ...]:
        """The results for these arguments; raises the step's error."""
        if self._call is None:
            # Its variables, if it has any, live as long as the dataset.
            session = Session(self._graph, resources=ResourceManager())
            self._call = session.make_callable([*map(str, self._fetches)], [*map(str, self._feeds)])
        return tuple(await self._call(*arguments))

    def of_rows(self, count: int) -> GraphCall | None:
        """See `NamedFunction.of_rows`."""
        graph = self._graph
        effects = tuple(node.name for node in graph if node.is_stateful)
        body = rows_of(
            FunctionBody(self.name, graph, self._feeds, self._fetches, effects), count, graph.registry
        )
        if body is None:
            return None
        made = Graph(body.graph, registry=graph.registry, producer=graph.producer)
        return GraphCall(self.name, made, body.arguments, body.results)


class GraphFunction(GraphCall):
    """A function of tensors: its graph is built once.

    name            of the Python function
    types, shapes   of the results
    """

    def __init__(
        self, function: Callable[..., Any], types: Sequence[DType], shapes: Sequence[TensorShape]
    ) -> None:
        name = getattr(function, "__name__", type(function).__name__)
        graph = Graph()
        given = [
            graph.placeholder(dtype, shape, name=f"argument_{index}")
            for index, (dtype, shape) in enumerate(zip(types, shapes, strict=True))
        ]
        made = function(*given)
        results = made if isinstance(made, tuple | list) else (made,)
        for result in results:
            if not isinstance(result, Tensor):
                raise InvalidArgumentError(
                    f"'{name}' must return tensors of its arguments' graph, not a {type(result).__name__}"
                )
        self.types = tuple(result.dtype for result in results)
        self.shapes = tuple(result.shape for result in results)
        super().__init__(name, graph, [each.port for each in given], [each.port for each in results])
