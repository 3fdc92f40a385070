"""Calls of functions, functional loops, a Keras LSTM and lists of tensors, here and in TensorFlow.

    python -m tests.benchmarks.bench_calls [--tensorflow PYTHON] [--rounds 9] [NAME...]

Every pair is timed in turns, in one run, on one core; what is printed are medians and their ratio.
Expected: a call that is opened costs nothing, for the code of its body stands where it stood; one that is
not costs a few calls of Python, 3 us; a functional loop is the primitive one; a push is an append and a list
object, 1 us for 100 elements and for 10,000.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

import flowengine as fe
from tests.benchmarks.engines import Engine
from tests.benchmarks.workloads import Run, Workload, zoo

CALLS: Final = 100
ROUNDS_OF_LOOP: Final = 1000


@dataclass(frozen=True)
class Pair:
    """Two ways of doing the same. An engine is `open`, `called` (calls stay), or `tensorflow`.

    units   so many of what is counted are in a step of each
    """

    name: str
    first: tuple[str, Workload]
    second: tuple[str, Workload]
    units: tuple[int, int] = (1, 1)


def work(name: str, build: Callable[[fe.Graph, fe.Tensor], fe.Tensor], feed: Any, repeats: int) -> Workload:
    """A graph from x to y."""
    graph = fe.Graph()
    x = graph.placeholder("float32", np.shape(feed), name="x")
    graph.ops.Identity(build(graph, x), name="y")
    run = Run({"x:0": feed}, ["y:0"])
    return Workload(name, graph.to_graph_def().SerializeToString(), run, repeats=repeats)


# ------------------------------------------------------------------ calls


def chain(is_called: bool) -> Callable[[fe.Graph, fe.Tensor], fe.Tensor]:
    """A hundred times x * 0.5 + 1, each a call or none."""

    def build(graph: fe.Graph, x: fe.Tensor) -> fe.Tensor:
        def step(x: fe.Tensor) -> fe.Tensor:
            return x * 0.5 + 1.0

        called = fe.function(graph, [("float32", [4])])(step)
        for _ in range(CALLS):
            x = called(x) if is_called else step(x)
        return x

    return build


def recursive(graph: fe.Graph, x: fe.Tensor) -> fe.Tensor:
    """x + 1 as often as a function calls itself."""

    @fe.function(graph, ["int32", "float32"], outputs=["float32"], stateful=False)
    def deep(n: fe.Tensor, x: fe.Tensor) -> fe.Tensor:
        end = fe.function(graph, ["int32", "float32"], name="end")(lambda n, x: x)
        more = fe.function(graph, ["int32", "float32"], name="more")(lambda n, x: deep(n - 1, x + 1.0))
        branches: dict[str, Any] = {"then_branch": more.attr, "else_branch": end.attr}
        found: fe.Tensor = n.graph.ops.StatelessIf(n > 0, [n, x], Tout=["float32"], **branches)[0]
        return found

    result: fe.Tensor = deep(CALLS, x)
    return result


# ------------------------------------------------------------------ loops

Body = Callable[[fe.Tensor], fe.Tensor]


def looped(is_functional: bool, body: Body) -> Callable[[fe.Graph, fe.Tensor], fe.Tensor]:
    """A thousand rounds of a body, in a While or in Enter, Merge, Switch."""

    def build(graph: fe.Graph, x: fe.Tensor) -> fe.Tensor:
        if not is_functional:
            found: fe.Tensor = graph.while_loop(
                lambda n, _: n < ROUNDS_OF_LOOP, lambda n, x: (n + 1, body(x)), [graph.constant(0), x]
            )[1]
            return found
        types: list[Any] = ["int32", ("float32", x.shape)]
        goes = fe.function(graph, types, name="goes")(lambda n, x: n < ROUNDS_OF_LOOP)
        round_of = fe.function(graph, types, name="round")(lambda n, x: [n + 1, body(x)])
        inputs = [graph.constant(0), x]
        return graph.ops.StatelessWhile(inputs, cond=goes.attr, body=round_of.attr)[1]

    return build


def small(x: fe.Tensor) -> fe.Tensor:
    """Two operations on four numbers."""
    return fe.tanh(x) + 0.5


def choosing(is_functional: bool) -> Body:
    """A conditional: an If or Switch and Merge."""

    def body(x: fe.Tensor) -> fe.Tensor:
        graph = x.graph
        is_large = fe.reduce_sum(x) > 1.0
        if not is_functional:
            chosen: fe.Tensor = graph.cond(is_large, lambda: x * 0.5, lambda: x + 1.0)
            return chosen
        then = fe.function(graph, ["float32"], name="then")(lambda x: x * 0.5)
        other = fe.function(graph, ["float32"], name="other")(lambda x: x + 1.0)
        branches: dict[str, Any] = {"then_branch": then.attr, "else_branch": other.attr}
        return graph.ops.StatelessIf(is_large, [x], Tout=["float32"], **branches)[0]

    return body


def pushed(count: int, is_set: bool = False) -> Callable[[fe.Graph, fe.Tensor], fe.Tensor]:
    """A list to which a functional loop pushes, or whose elements it sets; the sum of all."""

    def build(graph: fe.Graph, x: fe.Tensor) -> fe.Tensor:
        def put(n: fe.Tensor, items: fe.Tensor, x: fe.Tensor) -> list[fe.Tensor]:
            ops = n.graph.ops
            if is_set:
                return [n + 1, ops.TensorListSetItem(items, n, x, element_dtype="float32"), x]
            return [n + 1, ops.TensorListPushBack(items, x, element_dtype="float32"), x]

        types: list[Any] = ["int32", "variant", ("float32", [4])]
        goes = fe.function(graph, types, name="goes")(lambda n, items, x: n < count)
        shape = graph.constant(np.array([4], np.int32))
        if is_set:
            items = graph.ops.TensorListReserve(shape, graph.constant(count), element_dtype="float32")
        else:
            items = graph.ops.EmptyTensorList(shape, graph.constant(-1), element_dtype="float32")
        body = fe.function(graph, types, name="put")(put)
        loop = graph.ops.StatelessWhile([graph.constant(0), items, x], cond=goes.attr, body=body.attr)
        stacked = graph.ops.TensorListStack(loop[1], shape, element_dtype="float32", num_elements=count)
        return fe.reduce_sum(stacked, 0)

    return build


def pairs() -> Iterator[Pair]:
    """All that is timed."""
    feed = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    written, called = work("written", chain(False), feed, 50), work("called", chain(True), feed, 50)
    yield Pair("calls, opened / written out", ("open", called), ("open", written), (CALLS,) * 2)
    yield Pair("calls, staying calls / written out", ("called", called), ("open", written), (CALLS,) * 2)
    yield Pair("calls, here / TensorFlow", ("open", called), ("tensorflow", called), (CALLS,) * 2)
    deep = work("deep", recursive, np.float32(1), 20)
    yield Pair("recursion / written out", ("open", deep), ("open", written), (CALLS,) * 2)
    for name, functional, primitive in (
        ("small body", small, small),
        ("with a conditional", choosing(True), choosing(False)),
    ):
        ours = "open", work(name, looped(True, functional), feed, 20)
        other = "open", work(name, looped(False, primitive), feed, 20)
        count = (ROUNDS_OF_LOOP, ROUNDS_OF_LOOP)
        yield Pair(f"loop, {name}, functional / primitive", ours, other, count)
        yield Pair(f"loop, {name}, here / TensorFlow", ours, ("tensorflow", ours[1]), count)
    for lstm in zoo():
        if lstm.name == "zoo/savedmodel_keras_lstm":
            yield Pair("Keras LSTM, here / TensorFlow", ("open", lstm), ("tensorflow", lstm))
    for is_set in (False, True):
        verb = "set" if is_set else "push"
        short, long = (work(verb, pushed(n, is_set), feed, 20_000 // n) for n in (100, 10_000))
        yield Pair(f"{verb} to 10,000 elements / to 100", ("open", long), ("open", short), (10_000, 100))
        both = ("open", long), ("tensorflow", long)
        yield Pair(f"{verb} to 10,000 elements, here / TensorFlow", *both, (10_000, 10_000))


class _Timing:
    """An engine that has one workload."""

    def __init__(self, engine: Engine, work: Workload, stack: ExitStack) -> None:
        self._engine = engine
        self._repeats = work.repeats
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        work.write(Path(folder))
        loaded = engine.ask(what="load", folder=folder)
        if "error" in loaded:
            raise SystemExit(f"{engine.name} cannot run '{work.name}': {loaded['error']}")
        engine.ask(what="time", repeats=20)
        self.seconds: list[float] = []

    def turn(self) -> None:
        self.seconds += self._engine.ask(what="time", repeats=self._repeats)


def start(kind: str, tensorflow: str) -> Engine:
    """An engine of a kind that pairs name, on one core."""
    if kind == "tensorflow":
        return Engine(tensorflow, "engine_tensorflow.py", 1)
    settings = {"FLOWENGINE_OPEN_CALLS": "0" if kind == "called" else "1"}
    return Engine(sys.executable, "engine_flowengine.py", 1, settings=settings)


def timed(pair: Pair, rounds: int, tensorflow: str) -> tuple[float, float]:
    """Median seconds of both."""
    with ExitStack() as stack:
        both = []
        for kind, each in (pair.first, pair.second):
            engine = stack.enter_context(start(kind, tensorflow))
            both.append(_Timing(engine, each, stack))
        for _ in range(rounds):
            for timing in both:
                timing.turn()
        return median(both[0].seconds), median(both[1].seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tensorflow", default="", help="a Python that has TensorFlow")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("names", nargs="*", help="words of which a pair's name has one")
    options = parser.parse_args()
    for pair in pairs():
        needs_tensorflow = "tensorflow" in (pair.first[0], pair.second[0])
        if needs_tensorflow and not options.tensorflow:
            continue
        if options.names and not any(word in pair.name for word in options.names):
            continue
        first, second = timed(pair, options.rounds, options.tensorflow)
        print(
            f"{pair.name:52}{first / pair.units[0] * 1e6:10.2f} us {second / pair.units[1] * 1e6:10.2f} us  "
            f"ratio {first / pair.units[0] / (second / pair.units[1]):6.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
