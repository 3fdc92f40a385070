"""Model workloads: training over PS tasks and workers whose result is known bit by bit.

Synchronous: in each step every worker computes its gradient of `sum((w x - y)^2) / 2` from the parameters on
all PS tasks, and the average is applied. What a worker sees is a function of its number and the step's, and
sums are taken in one order, so that NumPy computes the same bits. The step's number is a variable that is
saved with the others: what a step that failed has half done is gone with the next restoring.

Asynchronous: each worker has a program of its own, which adds its updates as it goes. Their order is open, so
only what holds for every order is checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import flowengine as fe

#: A power of two: what is multiplied with it is not rounded.
_RATE: Final = 1 / 64
_SIZE: Final = 3


@dataclass(frozen=True, slots=True)
class Training:
    """A graph to train.

    ps, workers    tasks of either job
    """

    ps: int = 2
    workers: int = 3

    @property
    def jobs(self) -> dict[str, int]:
        return {"ps": self.ps, "worker": self.workers}

    def start(self, ps: int) -> Any:
        """Return a PS task's initial parameters."""
        return np.arange(1, _SIZE + 1, dtype=np.float64) - 2 * ps

    def graph(self) -> fe.Graph:
        """`init`, and `train:0`, which gives the number of the step that it was."""
        g = fe.Graph()
        ops = g.ops
        parameters, inits = [], []
        for number in range(self.ps):
            with g.device(f"/job:ps/task:{number}"):
                parameters.append(ops.VariableV2(shape=[_SIZE], dtype="float64", name=f"w{number}"))
                inits.append(ops.Assign(parameters[-1], g.constant(self.start(number))))
        with g.device("/job:ps/task:0"):
            step = ops.VariableV2(shape=[], dtype="int64", name="step")
            inits.append(ops.Assign(step, g.constant(np.int64(0))))
            now = ops.Identity(step, name="now")
        gradients = [self._gradients(g, worker, parameters, now) for worker in range(self.workers)]
        applied = []
        for number, parameter in enumerate(parameters):
            with g.device(f"/job:ps/task:{number}"):
                total = ops.AddN([each[number] for each in gradients])
                rate = g.constant(np.float64(_RATE / self.workers))
                applied.append(ops.ApplyGradientDescent(parameter, rate, total))
        with g.device("/job:ps/task:0"), g.control_dependencies(applied):
            ops.AssignAdd(step, g.constant(np.int64(1)), name="train")
        with g.device("/job:ps/task:0"), g.control_dependencies(inits):
            ops.NoOp(name="init")
        return g

    def _gradients(self, g: fe.Graph, worker: int, parameters: list[Any], now: Any) -> list[Any]:
        ops = g.ops
        with g.device(f"/job:worker/task:{worker}"):
            number = ops.Cast(now, DstT="float64")
            x = ops.Sub(
                ops.FloorMod(ops.Mul(number, g.constant(np.float64(worker + 3))), g.constant(np.float64(7))),
                g.constant(np.arange(_SIZE, dtype=np.float64)),
            )
            y = ops.Add(number, g.constant(np.float64(worker)))
            return [ops.Mul(ops.Sub(ops.Mul(each, x), y), x) for each in parameters]

    def reference(self, steps: int) -> list[Any]:
        """The parameters after so many steps, as NumPy computes them."""
        parameters = [self.start(number) for number in range(self.ps)]
        for step in range(steps):
            totals = [np.zeros(_SIZE) for _ in parameters]
            for worker in range(self.workers):
                x = (np.float64(step) * (worker + 3)) % 7 - np.arange(_SIZE)
                y = np.float64(step) + worker
                totals = [total + (w * x - y) * x for total, w in zip(totals, parameters, strict=True)]
            rate = np.float64(_RATE / self.workers)
            parameters = [w - rate * total for w, total in zip(parameters, totals, strict=True)]
        return parameters


__all__ = ["Training"]
