"""A deterministic synchronous training run over one PS task and two workers, and what it ends with.

python -m tests.faults.training --target TARGET --directory DIR [--steps N]

It has all that a recovery must put back: variables on the PS task, random nodes on the workers, gradients
that meet in a queue, and a generator of the client's that draws the batches.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import trio

import flowengine as fe

WORKERS = 2
FEATURES = 24
ROWS = 16
SAVE_STEPS = 5


def training_graph() -> fe.Graph:
    """Least squares by gradients that two workers compute, each on its half of the batch with dropout."""
    g = fe.Graph()
    with g.device("/job:ps/task:0"):
        w = g.ops.VariableV2(shape=[FEATURES, 1], dtype="float32", name="w")
        moments = g.ops.VariableV2(shape=[FEATURES, 1], dtype="float32", name="moments")
        start = g.ops.RandomStandardNormal(
            np.array([FEATURES, 1], np.int32), dtype="float32", seed=1, seed2=1
        )
        g.group(
            g.ops.Assign(w, start), g.ops.Assign(moments, np.zeros([FEATURES, 1], np.float32)), name="init"
        )
        queue = g.ops.FIFOQueueV2(component_types=["float32"], shapes=[[FEATURES, 1]], name="gradients")
    puts = []
    for worker in range(WORKERS):
        x = g.placeholder("float32", [ROWS, FEATURES], name=f"x{worker}")
        y = g.placeholder("float32", [ROWS, 1], name=f"y{worker}")
        with g.device(f"/job:worker/task:{worker}"):
            drawn = g.ops.RandomUniform(
                np.array([ROWS, FEATURES], np.int32), dtype="float32", seed=2, seed2=worker + 1
            )
            dropped = g.ops.Mul(x, g.ops.Cast(g.ops.Less(drawn, np.float32(0.9)), DstT="float32"))
            error = g.ops.Sub(g.ops.MatMul(dropped, w), y)
            gradient = g.ops.MatMul(dropped, error, transpose_a=True, name=f"gradient{worker}")
        with g.device("/job:ps/task:0"):
            puts.append(g.ops.QueueEnqueueV2(queue, [gradient]))
    with g.device("/job:ps/task:0"), g.control_dependencies(puts):
        # Whichever comes first: the sum of two does not depend on it.
        (both,) = g.ops.QueueDequeueManyV2(queue, np.int32(WORKERS), component_types=["float32"])
        total = g.ops.Sum(both, np.array([0], np.int32))
        g.ops.ApplyMomentum(
            w,
            moments,
            np.float32(0.01),
            g.ops.Mul(total, np.float32(1 / ROWS)),
            np.float32(0.9),
            name="train",
        )
    return g


class Batches:
    """The input of the run: drawn by a generator whose place is part of the checkpoints."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(11)
        self._truth = np.random.default_rng(12).standard_normal((FEATURES, 1)).astype(np.float32)

    def next(self) -> dict[str, Any]:
        feeds = {}
        for worker in range(WORKERS):
            x = self.random.standard_normal((ROWS, FEATURES)).astype(np.float32)
            feeds[f"x{worker}:0"] = x
            feeds[f"y{worker}:0"] = x @ self._truth
        return feeds


async def train(
    target: str, directory: str, steps: int, on_step: Callable[[int], object] | None = None
) -> tuple[Any, fe.train.RecoveredRun]:
    """Train through whatever happens: what the variables end with, and how it went."""
    batches = Batches()
    values: list[Any] = []

    async def step(session: fe.Session, number: int) -> None:
        if on_step is not None:
            on_step(number)
        await session.run((), batches.next(), targets=["train"])
        if number == steps - 1:
            values[:] = await session.run(["w:0", "moments:0"])

    result = await fe.train.run_with_recovery(
        training_graph(),
        step,
        steps=steps,
        directory=directory,
        target=target,
        config=fe.Config(sync_checkpoints=False, allow_soft_placement=not target or None),
        save_steps=SAVE_STEPS,
        state={"random": batches.random},
        max_wait_seconds=60,
    )
    if not values:  # all was done before
        async with fe.Session(training_graph(), target=target) as session:
            values[:] = await session.run(["w:0", "moments:0"])
    return values, result


def digest(values: Any) -> str:
    """A short text that differs where any bit does."""
    return hashlib.sha256(b"".join(np.ascontiguousarray(each).tobytes() for each in values)).hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="")
    parser.add_argument("--directory", required=True)
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()

    def told(number: int) -> None:
        print(number, flush=True)

    values, _ = trio.run(train, arguments.target, arguments.directory, arguments.steps, told)
    print("digest", digest(values), flush=True)


if __name__ == "__main__":
    main()
