"""While and For as the primitives of loops.

r = While(x, cond, body)   ->   m = Merge(Enter(x), NextIteration(n));  s = Switch(m, LoopCond(cond(m)))
                                n = body(s:1);  r = Exit(s:0)
r = For(start, limit, delta, x, body)   ->   the same, with a count of rounds and the index beside x
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.functions.bodies import behind_identities
from flowengine.functions.branches import verdict_on
from flowengine.functions.writer import CallWriter, Written
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.ir.functions import FunctionBody
from flowengine.ir.graph import OutputPort
from flowengine.ir.names import ARGUMENT


def write_loop(writer: CallWriter, is_anchored: bool) -> Written:
    """While: what the body hands on as it is enters as a constant."""
    cond, body = writer.body(writer.node.attrs["cond"]), writer.body(writer.node.attrs["body"])
    return _LoopCode(writer, cond, body, writer.node.inputs, writer.controls(is_anchored)).written()


def write_count(writer: CallWriter, is_anchored: bool) -> Written:
    """For: the rounds are counted beforehand, ceil((limit - start) / delta) of them.

    A delta of 0 is an error of the step, as a division by zero. Raises InvalidArgumentError for a range of
    what may be no scalars.
    """
    start, limit, delta = _range_of(writer)
    graph, ops = writer.graph, writer.ops
    controls = writer.controls(is_anchored)
    with graph.name_scope(writer.prefix), graph.scopes.apart(None, controls):
        way = ops.Sub(*(ops.Cast(each, DstT=dtypes.int64) for each in (start, limit)))
        rounds = ops.Neg(ops.FloorDiv(way, ops.Cast(delta, DstT=dtypes.int64), name="whole_rounds"))
        none = ops.Sub(rounds, rounds)
    cond, body = _counting(writer)
    inputs = [none.port, rounds.port, start.port, delta.port, *writer.node.inputs[3:]]
    results, ends = _LoopCode(writer, cond, body, inputs, controls).written()
    return results[_COUNTERS:], ends


def _range_of(writer: CallWriter) -> list[Tensor]:
    found = [Tensor(writer.graph, *port) for port in writer.node.inputs[:3]]
    for name, each in zip(("start", "limit", "delta"), found, strict=True):
        if each.shape.rank != 0:
            raise InvalidArgumentError(
                f"{writer.node.op} '{writer.node.name}': {name} must be a scalar, "
                f"and '{each.name}' has the shape {each.shape}"
            )
    return found


#: What a counting loop carries before the caller's variables: rounds so far, of how many; index, its step.
_COUNTERS: Final = 4


def _counting(writer: CallWriter) -> tuple[FunctionBody, FunctionBody]:
    """The condition and the body of a loop that calls a function with an index."""
    node = writer.node
    types = [dtypes.int64, dtypes.int64, dtypes.int32, dtypes.int32, *node.attrs["T"]]
    bodies = []
    for name in ("cond", "body"):
        graph = Graph(registry=writer.graph.registry, producer=writer.graph.producer)
        graph.library = writer.graph.library
        given = [
            graph.create_op(ARGUMENT, (), {"T": dtype, "index": number}, f"argument_{number}").outputs[0]
            for number, dtype in enumerate(types)
        ]
        count, rounds, index, delta, *variables = given
        targets: tuple[str, ...] = ()
        if name == "cond":
            found = [graph.ops.Less(count, rounds)]
        else:
            attrs = {"Tout": node.attrs["T"], "f": node.attrs["body"]}
            call = graph.create_op("StatefulPartitionedCall", [[index, *variables]], attrs, "round")
            counted = graph.ops.Add(count, graph.constant(1, dtypes.int64))
            found = [counted, rounds, graph.ops.Add(index, delta), delta, *call.outputs]
            targets = (call.name,) if writer.body(node.attrs["body"]).targets else ()
        ports = tuple(each.port for each in given), tuple(each.port for each in found)
        bodies.append(FunctionBody(f"{node.name}/{name}", graph, *ports, targets))
    return bodies[0], bodies[1]


class _LoopCode:
    """The loop of two bodies. The first inputs wait for `controls`."""

    def __init__(
        self,
        writer: CallWriter,
        cond: FunctionBody,
        body: FunctionBody,
        inputs: Sequence[OutputPort],
        controls: Sequence[str],
    ) -> None:
        self.writer = writer
        self.inputs = inputs
        self.cond = cond
        self.body = body
        #: Which variables the body hands on as they are; at least one is carried, so that the loop is one.
        self.kept = [behind_identities(body, p) == body.arguments[i] for i, p in enumerate(body.results)]
        if all(self.kept):
            self.kept[:1] = [False]
        self.entered = self._entered(controls)

    def _entered(self, controls: Sequence[str]) -> list[Tensor]:
        writer, graph = self.writer, self.writer.graph
        parallel = writer.node.attrs.get("parallel_iterations", 10)
        if writer.to_run and (self.cond.targets or self.body.targets):
            parallel = 1  # one iteration's effects come after those of the one before
        frame: dict[str, Any] = {"frame_name": writer.prefix.rstrip("/"), "parallel_iterations": parallel}
        with graph.name_scope(writer.prefix), graph.scopes.apart(None, controls):
            return [
                writer.ops.Enter(Tensor(graph, *port), is_constant=self.kept[i], **frame)
                for i, port in enumerate(self.inputs)
            ]

    def written(self) -> Written:
        ops, graph, prefix, kept = self.writer.ops, self.writer.graph, self.writer.prefix, self.kept
        with graph.name_scope(prefix), graph.scopes.apart(None):
            values = [e if kept[i] else ops.Merge([e, e]).output for i, e in enumerate(self.entered)]
        first = kept.index(False)
        unchanged = frozenset(e.port for i, e in enumerate(self.entered) if kept[i])
        verdict, targets = self.writer.copied(
            self.cond, [each.port for each in values], prefix + "cond/", values[first].node_name
        )
        with graph.name_scope(prefix), graph.scopes.apart(None, targets):
            goes_on = ops.LoopCond(verdict_on(self.writer, Tensor(graph, *verdict[0])))
        with graph.name_scope(prefix), graph.scopes.apart(None):
            switches = {i: ops.Switch(v, goes_on) for i, v in enumerate(values) if not kept[i]}
            pivot = ops.Identity(switches[first].output_true, name="pivot").node_name
        given = [e.port if kept[i] else switches[i].output_true.port for i, e in enumerate(self.entered)]
        results, targets = self.writer.copied(self.body, given, prefix + "body/", pivot, unchanged)
        outputs: list[OutputPort] = []
        for i, port in enumerate(results):
            if kept[i]:
                outputs.append(self.inputs[i])
                continue
            with graph.name_scope(prefix), graph.scopes.apart(None, targets):
                following = ops.NextIteration(Tensor(graph, *port))
            graph.set_back_edge(values[i], 1, following)
            with graph.name_scope(prefix), graph.scopes.apart(None):
                outputs.append(ops.Exit(switches[i].output_false).port)
        return outputs, []
