"""Resources of one task, used in the scope of another: TensorFlow 1.15's values, without soft placement."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe
from flowengine.cluster.local import local_cluster

CASES: Final[dict[str, Any]] = json.loads((Path(__file__).parent / "graphs" / "edges.json").read_text())


@pytest.mark.slow
async def test_ops_go_to_their_resources() -> None:
    assert len(CASES) >= 30
    different = {}
    async with local_cluster({"ps": 1, "worker": 1}, options=["--log-level", "error"]) as cluster:
        for name, (data, expected) in CASES.items():
            graph = fe.Graph.from_graph_def(base64.b64decode(data))
            async with fe.Session(graph, target=cluster.target("worker", 0)) as session:
                await session.run([], targets=["i"])
                values = [np.asarray(await session.run("y:0")).tolist() for _ in range(3)]
            if not np.allclose(values, expected, rtol=1e-6, atol=0):
                different[name] = values
    assert not different


@pytest.mark.parametrize("name", CASES)
async def test_and_on_two_devices_of_one_task(name: str) -> None:
    data, expected = CASES[name]
    text = base64.b64decode(data)
    graph_def = fe.Graph.from_graph_def(text).to_graph_def()
    for node in graph_def.node:
        node.device = {"/job:ps/task:0": "/device:CPU:0", "/job:worker/task:0": "/device:CPU:1"}.get(
            node.device, ""
        )
    graph = fe.Graph.from_graph_def(graph_def)
    config = fe.Config(device_count={"CPU": 2}, allow_soft_placement=False)
    async with fe.Session(graph, config=config) as session:
        await session.run([], targets=["i"])
        values = [np.asarray(await session.run("y:0")).tolist() for _ in range(3)]
    np.testing.assert_allclose(values, expected, rtol=1e-6)
