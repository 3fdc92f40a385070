"""`compare --steps N`: the losses of two trainings, at first with a learning rate of zero.

With a learning rate of zero nothing learns, so that the losses show whether the forward passes agree, over
all batches. With the real one, the losses also show whether the gradients and the optimizer do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from flowengine.cli.comparing.sides import ComparedSide
from flowengine.cli.failure import USAGE, CommandError
from flowengine.cli.graphs import check_node
from flowengine.cli.results import plain_json
from flowengine.cli.running.steps import set_up
from flowengine.core.errors import FailedPreconditionError
from flowengine.graphs.reading import needed_by
from flowengine.ir.traits import Reads, Uses
from flowengine.tools.compare.differences import TOLERANCE

if TYPE_CHECKING:
    from flowengine.ir.graph import NodeGraph

#: The names that ops of optimizers give the input of their learning rate.
_RATES: Final = ("lr", "alpha")


@dataclass(frozen=True, slots=True)
class LossDifference:
    """The values of one fetch in one step on both sides.

    error   relative to the larger one; infinite if only one is finite
    """

    phase: str
    step: int
    name: str
    one: float
    other: float
    error: float


def check_trains(side: ComparedSide) -> None:
    """CommandError where a side cannot train: a record, or no loss or nothing that trains is named."""
    if side.request is None:
        raise CommandError(f"--steps: {side.path} is a record, which does not train", USAGE)
    step = side.step
    if not step.targets:
        from flowengine.cli.running.training import facts_of

        step.targets = facts_of(step.source.meta, step.source.graph).train
        for name in step.targets:
            check_node(step.source.graph, name, USAGE, "--target")
    if not step.targets or not step.fetches:
        missing = "--target NODE, which trains" if not step.targets else "--fetch LOSS"
        raise CommandError(f"--steps: {side.path} does not say what a step is: add {missing}", USAGE)


def learning_rates(graph: NodeGraph, targets: Sequence[str]) -> list[str]:
    """Return the tensors that ops of optimizers take as their learning rate.

    An op that writes variables and has an input of that name is one.
    """
    found: dict[str, None] = {}
    for name in needed_by(graph, targets):
        node = graph.nodes[name]
        if node.op_def is None or not node.inputs:
            continue
        first = node.input_types()[0]
        if not (first.is_ref or first.name == "resource") or node.has(Reads) or node.has(Uses):
            continue
        for arg, port in zip(node.op_def.inputs, node.inputs, strict=False):
            if arg.name in _RATES:
                found[str(port)] = None
    return list(found)


async def compare_losses(
    one: ComparedSide, other: ComparedSide, steps: int, rates: Sequence[Sequence[str]]
) -> list[LossDifference]:
    """Train both sides twice, without and with a learning rate; return the differences of all steps.

    rates   the tensors with the learning rate, of each side
    """
    found = []
    for phase in ("learning rate 0", "training"):
        losses = []
        for side, tensors in zip((one, other), rates, strict=True):
            losses.append(await _losses(side, steps, tensors if phase != "training" else ()))
        for number, (left, right) in enumerate(zip(*losses, strict=True), 1):
            for name, a, b in zip(one.step.shown, left, right, strict=False):
                found.append(LossDifference(phase, number, name, a, b, _error(a, b)))
    return found


async def _losses(side: ComparedSide, steps: int, rates: Sequence[str]) -> list[list[float]]:
    from flowengine.cli.models.restoring import remedied
    from flowengine.core.run_options import RunOptions
    from flowengine.session import Session

    job = side.job(steps)
    options = RunOptions(timeout_seconds=side.timeout_seconds)
    try:
        async with Session(job.graph, config=job.config, target=side.at) as session:
            await set_up(session, job, options)
            feeds = dict(job.feeds)
            for name in rates:
                rate = await session.run(name, job.feeds, options=options)
                feeds[name] = np.zeros_like(rate)
            values = []
            for _ in range(steps):
                fetched = await session.run(job.fetches, feeds, targets=job.targets, options=options)
                values.append(
                    [_number(side, name, each) for name, each in zip(job.names, fetched, strict=True)]
                )
            return values
    except FailedPreconditionError as error:
        raise remedied(
            error, side.step.source, side.path, restoration=job.restoration, trains=False
        ) from error


def _number(side: ComparedSide, name: str, value: Any) -> float:
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "fiubV":
        given = f"{array.dtype} {list(array.shape)}"
        raise CommandError(
            f"--steps: {name} of {side.path} is {given}: fetch a loss, which is one number", USAGE
        )
    return float(array.reshape(()).astype(np.float64))


def _error(one: float, other: float) -> float:
    if one == other or (np.isnan(one) and np.isnan(other)):
        return 0.0
    if not (np.isfinite(one) and np.isfinite(other)):
        return float("inf")
    return abs(one - other) / max(abs(one), abs(other))


def loss_lines(found: Sequence[LossDifference], tolerance: float | None) -> tuple[list[str], bool]:
    """Return the table of losses, and whether two differ by more than rounding."""
    limit = TOLERANCE if tolerance is None else tolerance
    lines: list[str] = []
    first: dict[str, LossDifference] = {}
    phase = ""
    for each in found:
        if each.phase != phase:
            phase = each.phase
            lines.append(f"{phase}")
        lines.append(f"  step {each.step}  {each.name}  {each.one:.9g}  {each.other:.9g}  {each.error:.2g}")
        if each.error > limit:
            first.setdefault(phase, each)
    lines.extend(
        f"{each.phase}: {each.name} differs in step {each.step}, by {each.error:.2g}"
        for each in first.values()
    )
    if not first:
        lines.append("the losses are equal within the tolerance")
    return lines, bool(first)


def losses_document(found: Sequence[LossDifference]) -> dict[str, Any]:
    """Return the losses for JSON, which has no NaN and no infinities: they are strings."""
    rows = [asdict(each) for each in found]
    return {
        "losses": [
            {
                key: plain_json(np.array(value)) if isinstance(value, float) else value
                for key, value in row.items()
            }
            for row in rows
        ]
    }


__all__ = [
    "LossDifference",
    "check_trains",
    "compare_losses",
    "learning_rates",
    "loss_lines",
    "losses_document",
]
