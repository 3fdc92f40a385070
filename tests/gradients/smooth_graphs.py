"""Random differentiable graphs with conditionals, nested loops, TensorArrays and gathers, by Hypothesis.

A block of statements works on values in double precision and on whole numbers. Predicates, trip counts and
indices are made of whole numbers only, which no step of a difference changes. All values stay within about
-1 and 1, so that a loop in a loop in a loop neither explodes nor forgets where it began.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.arrays import Array
from flowengine.testing.control import conditional, while_loop

KIND: Final = "float64"
DEPTH: Final = 3
Shape = tuple[int, ...]
_SHAPES: Final[tuple[Shape, ...]] = ((), (3,), (2, 3))
_TRIPS: Final = 3
_SMOOTH: Final = ("Tanh", "Sin", "Sigmoid", "Atan", "Erf", "Neg", "Square", "Asinh", "Softsign")
#: Values that lie at a kink, or are even, are found by the differences themselves.
_KINKED: Final = ("Relu", "Abs", "Elu")
_JOINS: Final = ("AddV2", "Sub", "Mul", "RealDiv", "Maximum", "Minimum")


@dataclass(frozen=True)
class SmoothGraph:
    """A graph with outputs ys, and what its inputs are fed.

    xs       floating placeholders, by which it is differentiated
    feeds    {placeholder: value}, of whole numbers too
    """

    graph: fe.Graph
    ys: list[fe.Tensor]
    xs: list[fe.Tensor]
    feeds: dict[fe.Tensor, Array]


@dataclass
class _Block:
    """The values that a statement may take, the newest last."""

    values: list[tuple[fe.Tensor, Shape]]
    numbers: list[fe.Tensor]
    depth: int
    added: list[tuple[fe.Tensor, Shape]] = field(default_factory=list)

    def add(self, tensor: fe.Tensor, shape: Shape) -> None:
        self.values.append((tensor, shape))
        self.added.append((tensor, shape))


class SmoothWriter:
    """One graph being written; `draw` makes each choice."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.graph = fe.Graph()
        self.ops: Any = self.graph.ops
        self._straight: list[Callable[[_Block], None]] = [
            *[self._unary] * 3,
            *[self._join] * 3,
            *[self._gather] * 2,
            self._reduce,
            self._spread,
            self._parts,
            self._product,
            self._scatter,
            self._array,
            self._constant,
        ]

    def write(self) -> SmoothGraph:
        draw, graph = self.draw, self.graph
        random = np.random.default_rng(draw(st.integers(0, 2**16)))
        shapes = draw(st.lists(st.sampled_from(_SHAPES), min_size=1, max_size=2))
        xs = [graph.placeholder(KIND, shape, name=f"x{i}") for i, shape in enumerate(shapes)]
        feeds = {
            x: random.uniform(0.1, 0.9, shape) * random.choice([-1, 1], shape)
            for x, shape in zip(xs, shapes, strict=True)
        }
        numbers = [graph.placeholder("int32", [], name=f"n{i}") for i in range(2)]
        feeds |= {number: np.array(draw(st.integers(0, _TRIPS)), np.int32) for number in numbers}
        block = _Block(list(zip(xs, shapes, strict=True)), numbers, DEPTH)
        self._statements(block, 1, 4)
        made = block.added[-2:]
        ys = [tensor for tensor, _ in made]
        # Every input counts: an output that forgets one has nothing to be compared.
        ends = [self.ops.Mean(value, _axes(shape)) for value, shape in [*block.values[: len(xs)], *made]]
        return SmoothGraph(graph, [*ys, self.ops.Tanh(self.ops.AddN(ends))], xs, feeds)

    # -- blocks -------------------------------------------------------------------------------------

    def _statements(self, block: _Block, least: int, most: int) -> None:
        choices = [*self._straight]
        if block.depth:
            choices += [self._conditional] * 4 + [self._loop] * 6
        for _ in range(self.draw(st.integers(least, most))):
            self.draw(st.sampled_from(choices))(block)

    def _pick(self, block: _Block, shapes: Sequence[Shape] = _SHAPES) -> tuple[fe.Tensor, Shape]:
        """A value of one of these shapes; made of one that there is, if none has it."""
        fitting = [value for value in block.values if value[1] in shapes]
        if fitting:
            return self.draw(st.sampled_from(fitting[-6:]))
        tensor, _ = self._pick(block)
        return self._of_shape(tensor, shapes[0]), shapes[0]

    def _of_shape(self, tensor: fe.Tensor, shape: Shape) -> fe.Tensor:
        flat = self.ops.Reshape(tensor, [-1])
        made: fe.Tensor = self.ops.BroadcastTo(self.ops.Mean(flat, [0]), np.array(shape, np.int32))
        return made

    def _number(self, block: _Block) -> fe.Tensor:
        """A whole number that there is, or a little more."""
        number = self.draw(st.sampled_from(block.numbers))
        more = self.draw(st.integers(0, 2))
        made: fe.Tensor = self.ops.AddV2(number, np.int32(more)) if more else number
        return made

    def _index(self, block: _Block, size: int) -> fe.Tensor:
        made: fe.Tensor = self.ops.FloorMod(self._number(block), np.int32(size))
        return made

    # -- straight code ------------------------------------------------------------------------------

    def _unary(self, block: _Block) -> None:
        tensor, shape = self._pick(block)
        op = self.draw(st.sampled_from(_SMOOTH * 2 + _KINKED))
        block.add(getattr(self.ops, op)(tensor), shape)

    def _join(self, block: _Block) -> None:
        (x, shape), op = self._pick(block), self.draw(st.sampled_from(_JOINS))
        y, _ = self._pick(block, (shape, ()))
        if op == "RealDiv":
            y = self.ops.AddV2(self.ops.Square(y), np.float64(1.5))
        joined = getattr(self.ops, op)(x, y)
        half = np.float64(0.5)
        block.add(self.ops.Mul(joined, half) if op in ("AddV2", "Sub") else joined, shape)

    def _gather(self, block: _Block) -> None:
        tensor, shape = self._pick(block, ((3,), (2, 3)))
        if self.draw(st.booleans()):
            block.add(self.ops.GatherV2(tensor, self._index(block, shape[0]), np.int32(0)), shape[1:])
            return
        places = self.draw(st.lists(st.integers(0, 2), min_size=3, max_size=3))
        block.add(self.ops.GatherV2(tensor, np.array(places, np.int32), np.int32(len(shape) - 1)), shape)

    def _reduce(self, block: _Block) -> None:
        tensor, shape = self._pick(block, ((3,), (2, 3)))
        op = self.draw(st.sampled_from(["Mean", "Max", "Prod"]))
        block.add(getattr(self.ops, op)(tensor, np.array([0], np.int32)), shape[1:])

    def _spread(self, block: _Block) -> None:
        tensor, shape = self._pick(block, ((), (3,)))
        wider = (3,) if not shape else (2, 3)
        if self.draw(st.booleans()):
            block.add(self.ops.BroadcastTo(tensor, np.array(wider, np.int32)), wider)
        else:
            other = self.ops.Sin(tensor)
            block.add(self.ops.Pack([tensor, other, tensor][: wider[0]]), wider)

    def _parts(self, block: _Block) -> None:
        tensor, shape = self._pick(block, ((3,), (2, 3)))
        axis = len(shape) - 1
        one, two = self.ops.SplitV(tensor, np.array([2, 1], np.int32), np.int32(axis), num_split=2)
        block.add(self.ops.ConcatV2([two, self.ops.Tanh(one)], np.int32(axis)), shape)

    def _product(self, block: _Block) -> None:
        (x, _), (y, _) = self._pick(block, ((2, 3),)), self._pick(block, ((2, 3),))
        square = self.ops.Mul(self.ops.MatMul(x, y, transpose_b=True), np.float64(1 / 3))
        block.add(self.ops.MatMul(self.ops.Tanh(square), y), (2, 3))

    def _scatter(self, block: _Block) -> None:
        tensor, shape = self._pick(block, ((3,), (2, 3)))
        place = self.ops.ExpandDims(self._index(block, shape[0]), np.int32(0))
        row = self.ops.Tanh(self._pick(block, (shape[1:],))[0])
        places = self.ops.ExpandDims(place, np.int32(0))
        rows = self.ops.ExpandDims(row, np.int32(0))
        changed = self.ops.TensorScatterAdd(tensor, places, rows)
        block.add(self.ops.Mul(changed, np.float64(0.5)), shape)

    def _constant(self, block: _Block) -> None:
        shape = self.draw(st.sampled_from(_SHAPES))
        value = self.draw(st.sampled_from([0.25, -0.5, 0.8]))
        block.add(self.graph.constant(np.full(shape, value)), shape)

    def _array(self, block: _Block) -> None:
        """A TensorArray that is filled from one value, changed at a place, and put together again."""
        tensor, shape = self._pick(block, ((3,), (2, 3)))
        array = self._new_array(np.int32(shape[0] + 1), shape[1:])
        flow = self.ops.TensorArrayScatterV3(
            array.handle, np.arange(shape[0], dtype=np.int32), tensor, array.flow
        )
        row = self.ops.Sin(self._pick(block, (shape[1:],))[0])
        flow = self.ops.TensorArrayWriteV3(array.handle, np.int32(shape[0]), row, flow)
        order = self.draw(st.permutations(range(shape[0] + 1)))[: shape[0]]
        gathered = self.ops.TensorArrayGatherV3(
            array.handle, np.array(order, np.int32), flow, dtype=KIND, element_shape=shape[1:]
        )
        block.add(gathered, shape)

    def _new_array(self, size: Any, shape: Shape) -> Any:
        return self.ops.TensorArrayV3(size, dtype=KIND, element_shape=shape, clear_after_read=False)

    # -- control flow -------------------------------------------------------------------------------

    def _conditional(self, block: _Block) -> None:
        pred = self.ops.Less(self._number(block), np.int32(self.draw(st.integers(0, 3))))
        kept = self._captured(block)
        wanted = self.draw(st.lists(st.sampled_from(_SHAPES), min_size=1, max_size=2))
        count = len(kept)

        def branch(*inputs: fe.Tensor) -> list[fe.Tensor]:
            return self._inner(block, kept, inputs[:count], inputs[count:], wanted)

        results = conditional(
            self.graph, pred, branch, branch, [*(tensor for tensor, _ in kept), *block.numbers]
        )
        for result, shape in zip(results, wanted, strict=True):
            block.add(result, shape)

    def _captured(self, block: _Block) -> list[tuple[fe.Tensor, Shape]]:
        return self.draw(st.lists(st.sampled_from(block.values), min_size=1, max_size=3, unique=True))

    def _inner(
        self,
        block: _Block,
        kept: Sequence[tuple[fe.Tensor, Shape]],
        tensors: Sequence[fe.Tensor],
        numbers: Sequence[fe.Tensor],
        wanted: Sequence[Shape],
    ) -> list[fe.Tensor]:
        """Statements on what came in; values of the wanted shapes."""
        shapes = [shape for _, shape in kept]
        inner = _Block(list(zip(tensors, shapes, strict=True)), list(numbers), block.depth - 1)
        self._statements(inner, 0, 3)
        return [self._pick(inner, (shape,))[0] for shape in wanted]

    def _loop(self, block: _Block) -> None:
        """Some variables go round; perhaps a TensorArray is read by turns, and one is written."""
        start = self._captured(block)
        fixed = self._captured(block)
        reads, writes = self.draw(st.booleans()), self.draw(st.booleans())
        trips = self._number(block)
        source = self._filled(block) if reads else None
        shape = self.draw(st.sampled_from(_SHAPES[:2]))
        sink = self._new_array(trips, shape) if writes else None
        variables, outer = len(start), len(block.numbers)
        parallel = self.draw(st.sampled_from([1, 10]))

        def body(i: fe.Tensor, *rest: fe.Tensor) -> list[fe.Tensor]:
            parts = list(rest)
            inside, parts = parts[:variables], parts[variables:]
            flow = parts.pop(0) if sink is not None else None
            captured, parts = parts[: len(fixed)], parts[len(fixed) :]
            numbers, parts = parts[:outer], parts[outer + 1 :]
            kept = [*start, *fixed]
            if source is not None:
                place = self.ops.FloorMod(i, np.int32(3))
                row = self.ops.TensorArrayReadV3(parts[0], place, parts[1], dtype=KIND)
                kept, captured = [*kept, (row, source[2])], [*captured, row]
            wanted = [each for _, each in start] + [shape] * (sink is not None)
            made = self._inner(block, kept, [*inside, *captured], [i, *numbers], wanted)
            # What does not change would run ahead of its loop, were it not for the edge of this Identity.
            results = [self.ops.AddV2(i, np.int32(1)), *map(self.ops.Identity, made[:variables])]
            if flow is not None:
                results.append(self.ops.TensorArrayWriteV3(parts[-1], i, made[-1], flow))
            return results

        count = 1 + variables + (sink is not None)
        invariants = [*(tensor for tensor, _ in fixed), *block.numbers, trips]
        invariants += list(source[:2]) if source is not None else []
        limit = count + len(fixed) + outer
        starts = [self.graph.constant(np.int32(0)), *(tensor for tensor, _ in start)]
        if sink is not None:
            starts.append(sink.flow)
            invariants.append(sink.handle)
        ends = while_loop(
            self.graph,
            lambda i, *rest: self.ops.Less(i, rest[limit - 1]),
            body,
            starts,
            invariants=invariants,
            parallel_iterations=parallel,
        )
        for end, (_, kind) in zip(ends[1:], start, strict=False):
            block.add(end, kind)
        if sink is not None:
            order = self.ops.Range(np.int32(0), trips, np.int32(1))
            stacked = self.ops.TensorArrayGatherV3(
                sink.handle, order, ends[-1], dtype=KIND, element_shape=shape
            )
            total = self.ops.Mul(self.ops.Sum(stacked, np.array([0], np.int32)), np.float64(1 / 5))
            block.add(total, shape)

    def _filled(self, block: _Block) -> tuple[fe.Tensor, fe.Tensor, Shape]:
        """Handle and flow of a TensorArray of three elements, and their shape."""
        tensor, _ = self._pick(block, ((3,),))
        array = self._new_array(np.int32(3), ())
        places = np.arange(3, dtype=np.int32)
        return array.handle, self.ops.TensorArrayScatterV3(array.handle, places, tensor, array.flow), ()


def _axes(shape: Shape) -> Array:
    return np.arange(len(shape), dtype=np.int32)


@st.composite
def smooth_graphs(draw: st.DrawFn) -> SmoothGraph:
    """A graph with at least one output, which depends on all of its floating inputs."""
    return SmoothWriter(draw).write()
