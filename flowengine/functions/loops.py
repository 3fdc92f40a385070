"""While as the primitives of loops.

r = While(x, cond, body)   ->   m = Merge(Enter(x), NextIteration(n));  s = Switch(m, LoopCond(cond(m)))
                                n = body(s:1);  r = Exit(s:0)
"""

from __future__ import annotations

from typing import Any

from flowengine.functions.bodies import behind_identities
from flowengine.functions.branches import verdict_on
from flowengine.functions.writer import CallWriter, Written
from flowengine.graphs.tensor import Tensor
from flowengine.ir.functions import FunctionBody
from flowengine.ir.graph import OutputPort


def write_loop(writer: CallWriter, is_anchored: bool) -> Written:
    """While: what the body hands on as it is enters as a constant."""
    cond, body = writer.body(writer.node.attrs["cond"]), writer.body(writer.node.attrs["body"])
    return _LoopCode(writer, cond, body, is_anchored).written()


class _LoopCode:
    def __init__(self, writer: CallWriter, cond: FunctionBody, body: FunctionBody, is_anchored: bool) -> None:
        self.writer = writer
        self.cond = cond
        self.body = body
        #: Which variables the body hands on as they are; at least one is carried, so that the loop is one.
        self.kept = [behind_identities(body, p) == body.arguments[i] for i, p in enumerate(body.results)]
        if all(self.kept):
            self.kept[:1] = [False]
        self.entered = self._entered(is_anchored)

    def _entered(self, is_anchored: bool) -> list[Tensor]:
        writer, graph = self.writer, self.writer.graph
        parallel = writer.node.attrs.get("parallel_iterations", 10)
        if writer.to_run and (self.cond.targets or self.body.targets):
            parallel = 1  # one iteration's effects come after those of the one before
        frame: dict[str, Any] = {"frame_name": writer.prefix.rstrip("/"), "parallel_iterations": parallel}
        controls = writer.controls(is_anchored)
        with graph.name_scope(writer.prefix), graph.scopes.apart(None, controls):
            return [
                writer.ops.Enter(Tensor(graph, *port), is_constant=self.kept[i], **frame)
                for i, port in enumerate(writer.node.inputs)
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
                outputs.append(self.writer.node.inputs[i])
                continue
            with graph.name_scope(prefix), graph.scopes.apart(None, targets):
                following = ops.NextIteration(Tensor(graph, *port))
            graph.set_back_edge(values[i], 1, following)
            with graph.name_scope(prefix), graph.scopes.apart(None):
                outputs.append(ops.Exit(switches[i].output_false).port)
        return outputs, []
