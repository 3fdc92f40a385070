"""Variables in tests of layers and cells: set as both sides set them, and changed by a training step."""

from __future__ import annotations

from typing import Any

import numpy as np

import flowengine as fe
from flowengine.gradients.values import dense
from tests.client import cases


async def assigned(session: fe.Session, graph: fe.Graph, factor: float = 1.0) -> list[fe.GraphVariable]:
    """All variables of the collection "variables", each set to what `cases.initial` says, times a factor."""
    variables: list[fe.GraphVariable] = graph.collection("variables")
    first = cases.initial([(each.op.name, each.shape.as_list()) for each in variables])
    sets = [
        each.assign_op((factor * first[each.op.name]).astype(each.dtype.as_numpy_dtype)) for each in variables
    ]
    await session.run([], targets=sets)
    return variables


async def after_training(session: fe.Session, graph: fe.Graph, value: fe.Tensor) -> dict[str, Any]:
    """The loss of each step, if there is something to train, and all variables after the last."""
    found: dict[str, Any] = {}
    taken = _stepped(graph, value)
    if taken is not None:
        loss, step = taken
        losses = [await session.run(loss, targets=step) for _ in range(cases.STEPS)]
        found["losses"] = np.array(losses)
    variables = graph.collection("variables")
    after = await session.run({each.op.name: each.value() for each in variables})
    return found | {f"after {key}": each for key, each in after.items()}


def _stepped(graph: fe.Graph, value: fe.Tensor, rate: float = 0.1) -> tuple[fe.Tensor, list[Any]] | None:
    """A loss, the mean of (value - 0.3)**2 and penalties; what makes a step of gradient descent."""
    variables = graph.collection("trainable_variables")
    if not variables:
        return None
    ops = graph.ops
    error = ops.Sub(value, 0.3)
    mean = ops.Mean(ops.Reshape(ops.Mul(error, error), [-1]), [0])
    loss = ops.AddN([mean, *graph.collection("regularization_losses")])
    found = fe.gradients(loss, [each.handle for each in variables])
    updates = []
    with graph.control_dependencies(graph.collection("update_ops")):
        for variable, gradient in zip(variables, found, strict=True):
            assert gradient is not None
            whole = gradient if isinstance(gradient, fe.Tensor) else dense(graph, ops, gradient)
            updates.append(variable.assign_sub_op(ops.Mul(whole, rate)))
    return loss, updates
