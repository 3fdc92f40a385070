"""Fit a line over a small cluster: weights at a parameter server, half of the data at each of two workers.

flowengine cluster up --local ps=1,worker=2 -- python cluster_train.py
"""

import os

import numpy as np
import trio

import flowengine as fe

rng = np.random.default_rng(0)
x = rng.standard_normal((2, 500, 3)).astype(np.float32)  # a half for each worker
y = x @ np.array([[1], [2], [3]], np.float32)

graph = fe.Graph()
with graph.device("/job:ps/task:0"):
    w = graph.ops.VariableV2(shape=[3, 1], dtype="float32", name="w")
    graph.ops.Assign(w, np.zeros((3, 1), np.float32), name="init")

gradients: list[fe.Tensor] = []
for worker in range(2):
    with graph.device(f"/job:worker/task:{worker}"):
        mine = graph.constant(x[worker])
        error = graph.ops.Sub(graph.ops.MatMul(mine, w), y[worker])
        gradients.append(graph.ops.MatMul(mine, error, transpose_a=True))

with graph.device("/job:ps/task:0"):
    step = graph.ops.Mul(graph.ops.AddN(gradients), np.float32(0.3 / 1000))
    graph.ops.AssignSub(w, step, name="train")


async def main() -> None:
    async with fe.Session(graph, target=os.environ["FLOWENGINE_TARGET"]) as session:
        await session.run([], targets=["init"])
        for _ in range(50):
            await session.run([], targets=["train"])
        fitted = np.asarray(await session.run("w:0"), np.float32)
        print("w =", fitted[:, 0].round(3))


if __name__ == "__main__":
    trio.run(main)
