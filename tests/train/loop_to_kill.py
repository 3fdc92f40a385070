"""A training loop in a process of its own, for the test that kills it: loop_to_kill.py FOLDER STEPS"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import flowengine as fe


def graph() -> tuple[fe.Graph, Any, Any]:
    """A model whose steps depend on their number, a random node, and a generator outside of the graph."""
    made = fe.Graph()
    x = made.placeholder("float32", [3], name="x")
    w = made.variable(np.zeros(3, np.float32), name="w")
    noise = made.ops.RandomUniform([3], dtype="float32", seed=5)
    loss = fe.reduce_sum((w - x - noise) * (w - x))
    return made, w, fe.optimizers.Momentum(0.05, 0.9).minimize(loss)


def train(folder: str, steps: int, hooks: tuple[Any, ...] = ()) -> Any:
    made, w, step = graph()
    generator = np.random.default_rng(1)

    async def make_step(session: fe.Session, number: int) -> None:
        fed = generator.standard_normal(3).astype(np.float32) + number
        await session.run([], {"x:0": fed}, targets=[step])

    keeping = fe.train.Checkpoints(folder, every_steps=5, state={"generator": generator})
    with fe.blocking.Session(made) as session:
        result = session.call(fe.train.loop, make_step, steps=steps, hooks=[keeping, *hooks])
        assert result.steps == steps
        return session.run(w.value())


class Telling(fe.train.Hook):
    async def after_step(self, state: fe.train.LoopState) -> None:
        print(state.step, flush=True)


if __name__ == "__main__":
    print(train(sys.argv[1], int(sys.argv[2]), (Telling(),)).tolist())
