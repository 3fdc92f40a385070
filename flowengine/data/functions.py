"""Functions that datasets call: of tensors, as graphs of their own that a session runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from flowengine.core.arrays import Value
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.core.shapes import TensorShape
from flowengine.functions.rows import rows_of
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.ir.functions import FunctionBody
from flowengine.ir.graph import OutputPort
from flowengine.resources.container import ResourceManager
from flowengine.resources.function_calls import CallOutcome
from flowengine.runtime.planning.fetches import as_values
from flowengine.runtime.planning.function_calls import Step, WholeCalls
from flowengine.runtime.planning.preparing import PlannedRequest, PreparedPlan
from flowengine.runtime.planning.tiers import TieredPlan
from flowengine.runtime.planning.values import own_values
from flowengine.session import Session


class _FunctionSession(Session):
    """A session of the graph of one function."""

    def prepared(self, fetches: Sequence[OutputPort], feeds: Sequence[OutputPort]) -> PlannedRequest:
        """The plan of all calls, and where its values go."""
        wanted = as_values(self.graph, [*map(str, fetches)])
        return self._planning.prepare(wanted, [*map(str, feeds)], ())

    def whole_calls(self, request: PlannedRequest) -> WholeCalls:
        """Return the `WholeCalls` of a plan, which run its calls as a whole once that is possible."""
        prepared = request.prepared

        def take(arguments: Sequence[Value]) -> list[Any]:
            _check_count(prepared, arguments)
            return [spec.convert(value) for spec, value in zip(prepared.feeds, arguments, strict=True)]

        def give(results: list[Any]) -> tuple[Value, ...]:
            return tuple(request.values(own_values(prepared.fetches, results)))

        return WholeCalls(self._runner, take, give)

    async def step(self, request: PlannedRequest, calls: WholeCalls, arguments: Sequence[Value]) -> Any:
        """A call as a step."""
        prepared = request.prepared
        _check_count(prepared, arguments)
        results = await self._step(prepared, arguments, None, None)
        if isinstance(prepared.plan, TieredPlan):
            await calls.learn(prepared.plan)
        return request.values(results)

    def simplify_error(self, error: OpError) -> OpError:
        """The error of a call, as the error of a step."""
        self._simplify_error(error)
        return error


def _check_count(prepared: PreparedPlan, arguments: Sequence[Value]) -> None:
    if len(arguments) != len(prepared.feeds):
        raise InvalidArgumentError(f"this function takes {len(prepared.feeds)} values, not {len(arguments)}")


class GraphCall:
    """A graph with what is fed and what is fetched; each call is a step of it, or one of a run."""

    def __init__(
        self, name: str, graph: Graph, feeds: Sequence[OutputPort], fetches: Sequence[OutputPort]
    ) -> None:
        self.name = name
        self._graph = graph
        self._feeds, self._fetches = tuple(feeds), tuple(fetches)
        self._session: _FunctionSession | None = None

    def _opened(self) -> tuple[WholeCalls, Step]:
        """Return the object that makes whole calls, and the step that runs one call by itself."""
        session = self._session
        if session is None:
            # Its variables, if it has any, live as long as the dataset.
            session = self._session = _FunctionSession(self._graph, resources=ResourceManager())
            self._prepared = session.prepared(self._fetches, self._feeds)
            self._calls = session.whole_calls(self._prepared)
        session.resources.bind_to_current_run()
        return self._calls, partial(session.step, self._prepared, self._calls)

    @property
    def run_length(self) -> int:
        """See `NamedFunction.run_length`."""
        return 1 if self._session is None else self._calls.run_length

    async def __call__(self, arguments: Sequence[Value], sequences: ResourceManager) -> tuple[Value, ...]:
        """The results for these arguments; raises the step's error."""
        (outcome,) = await self.outcomes((arguments,), sequences)
        return outcome.value()

    async def outcomes(
        self, calls: Sequence[Sequence[Value]], sequences: ResourceManager
    ) -> list[CallOutcome]:
        """See `NamedFunction.outcomes`."""
        whole, step = self._opened()
        outcomes = await whole.outcomes(step, calls, None)
        for outcome in outcomes:
            if outcome.error is not None and self._session is not None:
                self._session.simplify_error(outcome.error)
        return outcomes

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
