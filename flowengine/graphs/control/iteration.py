"""`graph.map`, `scan` and `fold`: a function for each row of some tensors, by a loop over TensorArrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flowengine.core.dtypes import as_dtype
from flowengine.graphs.control.loops import LoopContext
from flowengine.graphs.control.tensor_array import GraphTensorArray
from flowengine.graphs.conversion import convert
from flowengine.graphs.errors import ConstructionTypeError, ConstructionValueError
from flowengine.graphs.structures import assert_alike, flatten, pack_like
from flowengine.graphs.tensor import Tensor

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph


class RowLoop:
    """A loop over the rows of tensors, from the first to the last or back.

    count   how many rows there are: int32
    """

    def __init__(
        self, graph: Graph, elems: Any, scope: str, parallel_iterations: int, swap_memory: bool
    ) -> None:
        self.graph = graph
        self._elems = elems
        self._tensors = [convert(graph, each, name="elems") for each in flatten(elems)]
        if not self._tensors:
            raise ConstructionValueError("elems is empty: give at least one tensor")
        for tensor in self._tensors:
            if tensor.shape.rank == 0:
                raise ConstructionValueError(f"'{tensor.name}' is a scalar: elems must have rows")
        known = next((each.shape[0] for each in self._tensors if each.shape.rank and each.shape[0]), None)
        self.count: Tensor = (
            graph.ops.StridedSlice(
                graph.ops.Shape(self._tensors[0]), [0], [1], [1], shrink_axis_mask=1, name="strided_slice"
            )
            if known is None
            else graph.constant(known, name="n")
        )
        self._rows = [
            GraphTensorArray.create(graph, each.dtype.base, self.count).unstack(each)
            for each in self._tensors
        ]
        self.loop = LoopContext(graph, scope + "while/while_context", parallel_iterations, swap_memory)
        self._outputs: list[GraphTensorArray] = []
        self._infers = True

    def first_row(self, place: Any) -> Any:
        """A row before the loop begins, in the structure of elems."""
        rows = [each.read(place) for each in self._rows]
        return pack_like(self._elems, rows)

    def begin(self, place: Any, is_reverse: bool) -> None:
        """Let the loop begin at a place, and go on for as long as there are rows."""
        graph = self.graph
        self._step = -1 if is_reverse else 1
        start = self.loop.carry(convert(graph, place))
        with self.loop.entered():
            decision = graph.ops.GreaterEqual(start, 0) if is_reverse else graph.ops.Less(start, self.count)
            self._decision = self.loop.bring(decision)

    def decide(self) -> None:
        self.loop.decide(self._decision)

    def row(self) -> Any:
        """The row of an iteration, in the structure of elems."""
        return pack_like(self._elems, [each.read(self.loop.variables[0]) for each in self._rows])

    def output(
        self, value: Tensor, infer_shape: bool, written: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """The flow of an array that has a value of each iteration, and is read by `stacked`.

        written   a place that is written before the loop begins, and its value
        """
        with self.loop.left():
            array = GraphTensorArray.create(self.graph, value.dtype.base, self.count, infer_shape=infer_shape)
            first = array if written is None else array.write(*written)
        inside = array.__flowengine_with_parts__([self.loop.carry(first.flow)])
        self._outputs.append(array)
        return inside.write(self.loop.variables[0], value).flow

    def next_place(self) -> Tensor:
        found: Tensor = self.graph.ops.AddV2(self.loop.variables[0], self._step)
        return found

    def stacked(self, flows: list[Tensor]) -> list[Tensor]:
        """Return the stacked elements of each array at the end of the loop."""
        known = self._tensors[0].shape[0]
        results = []
        for array, flow in zip(self._outputs, flows, strict=True):
            tensor = array.__flowengine_with_parts__([flow]).stack()
            if tensor.shape.rank:
                tensor.set_shape([known, *tensor.shape.as_list()[1:]])
            results.append(tensor)
        return results


def map_rows(
    graph: Graph,
    fn: Callable[[Any], Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int = 10,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
) -> Any:
    """See `Graph.map`."""
    with graph.name_scope(name or "map") as scope:
        rows = RowLoop(graph, elems, scope, parallel_iterations, swap_memory)
        with graph.name_scope("while"):
            rows.begin(graph.constant(0), False)
            rows.decide()
            with rows.loop.entered():
                made = fn(rows.row())
                values = _tensors(graph, made, dtype)
                flows = [rows.output(rows.loop.bring(each), infer_shape) for each in values]
                following = [rows.next_place(), *flows]
            exits = rows.loop.close(following)
            graph.note_context(rows.loop)
        return pack_like(made if dtype is None else dtype, rows.stacked(exits[1:]))


def fold(
    graph: Graph,
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    reverse: bool = False,
    parallel_iterations: int = 10,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """See `Graph.fold`."""
    with graph.name_scope(name or ("foldr" if reverse else "foldl")) as scope:
        return _accumulated(
            graph, fn, elems, initializer, reverse, parallel_iterations, swap_memory, scope, None
        )


def scan(
    graph: Graph,
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    reverse: bool = False,
    parallel_iterations: int = 10,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
) -> Any:
    """See `Graph.scan`."""
    with graph.name_scope(name or "scan") as scope:
        return _accumulated(
            graph, fn, elems, initializer, reverse, parallel_iterations, swap_memory, scope, infer_shape
        )


def _accumulated(
    graph: Graph,
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any,
    reverse: bool,
    parallel_iterations: int,
    swap_memory: bool,
    scope: str,
    infer_shape: bool | None,
) -> Any:
    """The last value, or where `infer_shape` is no None all of them."""
    rows = RowLoop(graph, elems, scope, parallel_iterations, swap_memory)
    first = edge = graph.ops.Sub(rows.count, 1) if reverse else graph.constant(0)
    start = initializer
    if start is None:
        start = rows.first_row(edge)
        first = graph.ops.AddV2(first, -1 if reverse else 1)
    initial = [convert(graph, each) for each in flatten(start)]
    loop = rows.loop
    with graph.name_scope("while"):
        rows.begin(first, reverse)
        for each in initial:
            loop.carry(each)
        rows.decide()
        with loop.entered():
            so_far = pack_like(start, loop.variables[1 : 1 + len(initial)])
            made = fn(so_far, rows.row())
            assert_alike(start, made, "the initializer and the result of the function")
            values = [
                loop.bring(convert(graph, each, before.dtype.base))
                for each, before in zip(flatten(made), initial, strict=True)
            ]
            flows = []
            if infer_shape is not None:
                for value, before in zip(values, initial, strict=True):
                    written = (edge, before) if initializer is None else None
                    flows.append(rows.output(value, infer_shape, written))
            following = [rows.next_place(), *values, *flows]
        exits = loop.close(following)
        graph.note_context(loop)
    if infer_shape is None:
        return pack_like(start, exits[1 : 1 + len(initial)])
    return pack_like(start, rows.stacked(exits[1 + len(initial) :]))


def _tensors(graph: Graph, made: Any, dtype: Any) -> list[Tensor]:
    """Convert the results of a function to tensors of the types that `dtype` asks for."""
    values = flatten(made)
    if dtype is None:
        return [convert(graph, each) for each in values]
    types = [as_dtype(each) for each in flatten(dtype)]
    if len(types) != len(values):
        raise ConstructionTypeError(f"the function returns {len(values)} values; dtype lists {len(types)}")
    return [convert(graph, each, kind) for each, kind in zip(values, types, strict=True)]
