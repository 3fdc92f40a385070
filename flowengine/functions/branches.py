"""If and Case as Switches and Merges.

    r = If(p, x, then, else)   ->   t = Switch(x, p);  r = Merge(else(t:0), then(t:1))

Each branch has a pivot, an Identity of its side of the predicate: what it is made of nothing runs only where
the branch is taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core import dtypes
from flowengine.functions.writer import CallWriter, Written
from flowengine.graphs.tensor import Tensor
from flowengine.ir.attrs import FuncAttr
from flowengine.ir.graph import OutputPort


def write_conditional(writer: CallWriter, is_anchored: bool) -> Written:
    """If: a Switch for each input and a Merge for each result."""
    controls = writer.controls(is_anchored)
    predicate = _truth(writer, Tensor(writer.graph, *writer.node.inputs[0]), controls)
    functions = [writer.node.attrs["else_branch"], writer.node.attrs["then_branch"]]
    return _Branches(writer).written(functions, [(predicate, 0), (predicate, 1)])


def write_choice(writer: CallWriter, is_anchored: bool) -> Written:
    """Case: each branch under a predicate of its own; the last one for an index out of range."""
    ops, graph, prefix = writer.ops, writer.graph, writer.prefix
    branches = list(writer.node.attrs["branches"])
    index = Tensor(graph, *writer.node.inputs[0])
    with graph.scopes.apart(None, writer.controls(is_anchored)):
        index = ops.Identity(index, name=prefix + "index/")
    sides = []
    chosen: Tensor | None = None
    for number in range(len(branches) - 1):
        with graph.scopes.apart(index.node_name):
            this = ops.Equal(index, graph.constant(number), name=f"{prefix}is_{number}/")
        chosen = this if chosen is None else ops.LogicalOr(chosen, this, name=prefix + "any")
        sides.append((this, 1))
    if chosen is None:
        with graph.scopes.apart(index.node_name):
            chosen = graph.constant(False, name=prefix + "never")
    sides.append((ops.Identity(chosen, name=prefix + "found"), 0))
    return _Branches(writer).written(branches, sides)


def verdict_on(writer: CallWriter, cond: Tensor) -> Tensor:
    """A condition of any type as a boolean: not zero, not empty, or a tensor with elements."""
    if cond.dtype.is_bool and (cond.shape.rank == 0 or not (cond.shape.rank or writer.to_run)):
        return cond
    with writer.graph.scopes.apart(cond.node_name):
        if writer.to_run:
            found: Tensor = writer.ops.ToBool(cond)  # it looks at the shape that the value has
        elif cond.shape.rank:
            found = writer.ops.Greater(writer.ops.Size(cond), writer.graph.constant(0))
        else:
            nothing = "" if cond.dtype.base is dtypes.string else 0
            found = writer.ops.NotEqual(cond, writer.graph.constant(nothing, cond.dtype.base))
    return found


def _truth(writer: CallWriter, cond: Tensor, controls: Sequence[str]) -> Tensor:
    cond = verdict_on(writer, cond)
    with writer.graph.scopes.apart(None, controls):
        result: Tensor = writer.ops.Identity(cond, name=writer.prefix + "predicate/")
    return result


class _Branches:
    """Bodies of which one runs: that whose predicate has the value of its side."""

    def __init__(self, writer: CallWriter) -> None:
        self._writer = writer
        #: {(predicate, index of an input): its Switch}
        self._switches: dict[tuple[str, int], Sequence[Tensor]] = {}

    def written(self, functions: Sequence[FuncAttr], sides: Sequence[tuple[Tensor, int]]) -> Written:
        writer, ops, graph = self._writer, self._writer.ops, self._writer.graph
        results: list[list[OutputPort]] = []
        ends: list[Tensor] = []
        effects = False
        for number, (function, (predicate, side)) in enumerate(zip(functions, sides, strict=True)):
            scope = f"{writer.prefix}branch_{number}/"
            with graph.name_scope(scope):
                pivot = ops.Identity(ops.Switch(predicate, predicate)[side], name="pivot").node_name
                given = [self._switched(predicate, index)[side].port for index in self._arguments()]
            found, targets = writer.copied(writer.body(function), given, scope, pivot)
            results.append(found)
            effects = effects or bool(targets)
            with graph.scopes.apart(None, [pivot, *targets]):
                ends.append(ops.Identity(Tensor(graph, pivot, 0), name=scope + "end/"))
        merged = [
            ops.Merge([Tensor(graph, *port) for port in ports], name=writer.prefix + "result").output.port
            for ports in zip(*results, strict=True)
        ]
        if merged and not effects:
            return merged, []
        return merged, [ops.Merge(ends, name=writer.prefix + "end/").output.node_name]

    def _arguments(self) -> range:
        return range(1, len(self._writer.node.inputs))

    def _switched(self, predicate: Tensor, index: int) -> Sequence[Tensor]:
        """An argument on the two sides of a predicate."""
        key = (predicate.name, index)
        if key not in self._switches:
            given = Tensor(self._writer.graph, *self._writer.node.inputs[index])
            self._switches[key] = self._writer.ops.Switch(given, predicate, name="argument")
        return self._switches[key]
