"""Loops and conditionals for tests, written with the control-flow primitives themselves.

    i, total = while_loop(
        g, lambda i, t, n: g.ops.Less(i, n), lambda i, t, n: [...], [zero, start], invariants=[ten]
    )

What the functions below capture from outside must be handed in: a loop's body sees only what it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor


def while_loop(
    g: Graph,
    condition: Callable[..., Tensor],
    body: Callable[..., Sequence[Tensor]],
    start: Sequence[Tensor],
    *,
    invariants: Sequence[Tensor] = (),
    parallel_iterations: int = 10,
    name: str = "while",
) -> list[Tensor]:
    """Return the loop variables after the loop.

    g                 the graph to add the loop to
    condition, body   take the variables, then the `invariants`; the one returns a bool, the other the next
                      variables
    start             the first values
    parallel_iterations   how many iterations may be under way at once

    Raises InvalidArgumentError for variables that change their type.
    """
    ops = g.ops
    with g.name_scope(name) as scope:
        frame: dict[str, Any] = {
            "frame_name": scope.rstrip("/"),
            "parallel_iterations": parallel_iterations,
        }
        enters = [ops.Enter(tensor, **frame) for tensor in start]
        fixed = [ops.Enter(tensor, is_constant=True, **frame) for tensor in invariants]
        # Control edges that apply outside would cross into the frame.
        with g.control_dependencies(None):
            merges = [ops.Merge([enter, enter]).output for enter in enters]
            with g.control_dependencies([merges[0]]):
                goes_on = ops.LoopCond(condition(*merges, *fixed))
            switches = [ops.Switch(merge, goes_on) for merge in merges]
            inside = [ops.Identity(switch.output_true) for switch in switches]
            with g.control_dependencies([inside[0]]):
                results = body(*inside, *fixed)
            for merge, result in zip(merges, results, strict=True):
                g.set_back_edge(merge, 1, ops.NextIteration(result))
            return [ops.Exit(switch.output_false) for switch in switches]


def conditional(
    g: Graph,
    pred: Tensor,
    on_true: Callable[..., Sequence[Tensor]],
    on_false: Callable[..., Sequence[Tensor]],
    inputs: Sequence[Tensor],
    *,
    name: str = "cond",
) -> list[Tensor]:
    """Return the results of one branch.

    g      the graph to add the conditional to
    pred   one bool
    on_true, on_false   take `inputs`, as they are where their branch is taken, and return as many tensors

    Raises InvalidArgumentError for branches that do not fit together.
    """
    ops = g.ops
    with g.name_scope(name):
        anchors = ops.Switch(pred, pred)
        switches = [ops.Switch(tensor, pred) for tensor in inputs]
        results = []
        for side, branch in enumerate((on_false, on_true)):
            with g.control_dependencies([ops.Identity(anchors[side])]):
                results.append([ops.Identity(r) for r in branch(*(switch[side] for switch in switches))])
        return [ops.Merge(list(pair)).output for pair in zip(*results, strict=True)]


__all__ = ["conditional", "while_loop"]
