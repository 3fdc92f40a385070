"""Random pairs of loops as gradients have them: one goes there and pushes, the other comes back and pops.

    there:  while i < limit:  x = body(x); push(x), in one branch of a conditional perhaps;  i += 1
    back:   while c >= 1:     y = op(y, pop());  c -= 1            with c = how often it went there

The counters wait for what is pushed and popped in their iteration, through a ControlTrigger where it may
be dead, and the way back leaves through an Identity that waits for its Switch.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol, TypeAlias

from hypothesis import strategies as st

from flowengine.core import dtypes as dt
from flowengine.core.dtypes import DType
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor

Kind: TypeAlias = tuple[DType, tuple[int, ...]]

_MAX_ITERATIONS: Final = 4
_NO_BOUND: Final = -1


class LoopSurroundings(Protocol):
    """The interface of the block that loops stand in: see `random_graphs`."""

    anchor: str | None
    last_effect: str | None

    @property
    def values(self) -> list[tuple[Tensor, Kind]]: ...

    def add(self, tensor: Tensor, kind: Kind) -> None: ...

    def anchored(self) -> AbstractContextManager[None]: ...

    def in_order(self) -> AbstractContextManager[None]: ...


class Recurrence:
    """One pair of loops being written around a body that the caller writes.

    new_block   makes the block of an iteration
    write       writes the statements of a block
    pick        gives a block's value of a kind
    """

    def __init__(
        self,
        graph: Graph,
        draw: st.DrawFn,
        new_block: Callable[[], Any],
        write: Callable[[Any], None],
        pick: Callable[[Any, Kind], Tensor],
    ) -> None:
        self._graph = graph
        self._draw = draw
        self._new_block = new_block
        self._write_body = write
        self._pick = pick

    def write(self, block: LoopSurroundings) -> None:
        """Write both loops; the block, which must hold a number, gets their results."""
        draw, ops = self._draw, self._graph.ops
        tensor, kind = draw(st.sampled_from([v for v in block.values if v[1][0] is not dt.bool_]))
        self._branching = draw(st.booleans())
        with block.anchored():
            bound = self._graph.constant(_NO_BOUND, dt.int32)
            stack = ops.StackV2(bound, elem_type=kind[0])
            choices = ops.StackV2(bound, elem_type=dt.bool_)
        with block.in_order():
            start = ops.Identity(tensor)
            zero = ops.Identity(self._number(block, 0))
        limit = self._number(block, draw(st.integers(0, _MAX_ITERATIONS)))
        count, there = self._there(block, kind, stack, choices, (zero, start), limit)
        # Not the counter itself: to feed that would be to pop more or less often than was pushed.
        block.add(ops.Identity(count), (dt.int32, ()))
        block.add(there, kind)
        first = draw(st.sampled_from([there, start]))
        block.add(self._back(kind, stack, choices, count, first), kind)

    def _there(
        self,
        block: LoopSurroundings,
        kind: Kind,
        stack: Tensor,
        choices: Tensor,
        starts: tuple[Tensor, Tensor],
        limit: Tensor,
    ) -> tuple[Tensor, Tensor]:
        graph, ops = self._graph, self._graph.ops
        frame = graph.scopes.unique_name("there")
        options: dict[str, Any] = {"frame_name": frame, "parallel_iterations": self._draw(st.integers(1, 4))}
        merges = [ops.Merge([enter, enter]).output for enter in (ops.Enter(s, **options) for s in starts)]
        constants = [ops.Enter(t, is_constant=True, **options) for t in (limit, stack, choices)]
        goes_on = ops.LoopCond(ops.Less(merges[0], constants[0]))
        switches = [ops.Switch(merge, goes_on) for merge in merges]
        body = self._new_block()
        body.anchor = ops.Identity(switches[0].output_true).node_name
        body.last_effect = body.anchor if block.last_effect is not None else None
        body.add(ops.Identity(switches[0].output_true), (dt.int32, ()))
        body.add(ops.Identity(switches[1].output_true), kind)
        counter, present = body.values[0][0], body.values[1][0]
        self._write_body(body)
        had_effects = body.last_effect not in (None, body.anchor)
        with body.in_order():
            following = ops.Identity(self._pick(body, kind))
        pushed = self._draw(st.sampled_from([following, present]))
        awaited = self._push(body, constants[1], constants[2], pushed)
        one = self._number(body, 1)
        with graph.control_dependencies(awaited):
            back = ops.NextIteration(ops.Add(counter, one))
        graph.set_back_edge(merges[0], 1, back)
        graph.set_back_edge(merges[1], 1, ops.NextIteration(following))
        count, there = (ops.Exit(switch.output_false) for switch in switches)
        if had_effects:
            block.last_effect = there.node_name
        return count, there

    def _push(self, body: Any, stack: Tensor, choices: Tensor, value: Tensor) -> list[str]:
        """Push, perhaps only where a value of the iteration says so; the nodes to wait for."""
        graph, ops = self._graph, self._graph.ops
        if not self._branching:
            with body.anchored():
                return [ops.StackPushV2(stack, value).node_name]
        with body.anchored():
            pred = ops.Identity(self._pick(body, (dt.bool_, ())))
        noted = ops.StackPushV2(choices, pred).node_name
        handle = ops.Switch(stack, pred).output_true
        pushed = ops.StackPushV2(handle, ops.Switch(value, pred).output_true).node_name
        with graph.control_dependencies([pushed]):
            return [noted, ops.ControlTrigger().name]

    def _back(self, kind: Kind, stack: Tensor, choices: Tensor, count: Tensor, start: Tensor) -> Tensor:
        graph, ops = self._graph, self._graph.ops
        frame = graph.scopes.unique_name("back")
        options: dict[str, Any] = {"frame_name": frame, "parallel_iterations": self._draw(st.integers(1, 4))}
        merges = [
            ops.Merge([enter, enter]).output for enter in (ops.Enter(s, **options) for s in (count, start))
        ]
        with graph.control_dependencies([merges[0].node_name]):
            least = graph.constant(1, dt.int32)
        handles = [ops.Enter(t, is_constant=True, **options) for t in (stack, choices)]
        goes_on = ops.LoopCond(ops.GreaterEqual(merges[0], least))
        switches = [ops.Switch(merge, goes_on) for merge in merges]
        counter, present = (switch.output_true for switch in switches)
        less = ops.Sub(counter, least)
        with graph.control_dependencies([less.node_name]):
            following, popped = self._pop(kind, handles[0], handles[1], present)
        with graph.control_dependencies([popped]):
            trigger = ops.ControlTrigger()
        with graph.control_dependencies([trigger.name]):
            graph.set_back_edge(merges[0], 1, ops.NextIteration(less))
        graph.set_back_edge(merges[1], 1, ops.NextIteration(following))
        out = switches[1].output_false
        if self._draw(st.booleans()):
            with graph.control_dependencies([out.node_name]):
                late = ops.NoOp()
            with graph.control_dependencies([late.name]):
                out = ops.Identity(out)
        result: Tensor = ops.Exit(out)
        return result

    def _pop(self, kind: Kind, stack: Tensor, choices: Tensor, present: Tensor) -> tuple[Tensor, str]:
        """(the next value, the node that popped)"""
        ops = self._graph.ops
        combine = getattr(ops, self._draw(st.sampled_from(("Add", "Sub", "Maximum"))))
        if not self._branching:
            popped = ops.StackPopV2(stack, elem_type=kind[0])
            return combine(present, popped), popped.node_name
        pred = ops.StackPopV2(choices, elem_type=dt.bool_)
        handle = ops.Switch(stack, pred).output_true
        popped = ops.StackPopV2(handle, elem_type=kind[0])
        off, on = ops.Switch(present, pred)
        return ops.Merge([off, combine(on, popped)]).output, popped.node_name

    def _number(self, block: Any, value: int) -> Tensor:
        with block.anchored():
            return self._graph.constant(value, dt.int32)


__all__ = ["Recurrence"]
