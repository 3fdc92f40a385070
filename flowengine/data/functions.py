"""Functions that datasets call: of tensors, as graphs of their own that a session runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flowengine.core.arrays import Value
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.resources.container import ResourceManager
from flowengine.session import Session


class GraphFunction:
    """A function of tensors: its graph is built once, and each call is a step of it.

    name            of the Python function
    types, shapes   of the results
    """

    def __init__(
        self, function: Callable[..., Any], types: Sequence[DType], shapes: Sequence[TensorShape]
    ) -> None:
        self.name = getattr(function, "__name__", type(function).__name__)
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
                    f"'{self.name}' must return tensors of its arguments' graph, "
                    f"not a {type(result).__name__}"
                )
        self.types = tuple(result.dtype for result in results)
        self.shapes = tuple(result.shape for result in results)
        self._graph = graph
        self._feeds, self._fetches = given, list(results)
        self._call: Any = None

    async def __call__(self, arguments: Sequence[Value], sequences: ResourceManager) -> tuple[Value, ...]:
        """The results for these arguments; raises the step's error."""
        if self._call is None:
            # Its variables, if it has any, live as long as the dataset.
            self._call = Session(self._graph, resources=ResourceManager()).make_callable(
                self._fetches, self._feeds
            )
        return tuple(await self._call(*arguments))
