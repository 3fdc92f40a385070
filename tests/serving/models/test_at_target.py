"""Versions at a cluster keep their variables apart, and leave nothing there when they end."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

import flowengine as fe
from flowengine.cluster.local import local_cluster
from flowengine.serving.models import at_target
from flowengine.serving.models.at_target import in_container
from flowengine.serving.models.settings import ModelSettings, VersionPolicy
from tests.serving.exports import export_factor
from tests.serving.models.test_manager import watched


async def _is_initialized(target: str, container: str) -> bool:
    graph = fe.Graph()
    factor = graph.ops.VarHandleOp(shape=[], dtype="float32", container=container, shared_name="factor")
    graph.ops.VarIsInitializedOp(factor, name="is_initialized")
    async with fe.Session(graph, target=target) as session:
        return bool(await session.run("is_initialized:0"))


@pytest.mark.slow
async def test_versions_at_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count(1)
    monkeypatch.setattr(at_target, "_new_container", lambda: f"serving-{next(numbers)}")
    model = tmp_path / "m"
    export_factor(model / "1", 3.0)
    export_factor(model / "2", 5.0)
    settings = [ModelSettings("m", model, policy=VersionPolicy(latest=None))]
    async with local_cluster({"worker": 1}, options=["--log-level", "error"]) as cluster:
        target = cluster.target("worker", 0)
        async with watched(tmp_path, settings=settings, target=target) as made:
            await made.until("m", 1, "AVAILABLE")
            await made.until("m", 2, "AVAILABLE")
            assert [await made.ask("m", number=number) for number in (1, 2, 1)] == [3.0, 5.0, 3.0]
            assert await _is_initialized(target, "serving-1")
            assert await _is_initialized(target, "serving-2")
            shutil.rmtree(model / "1")
            await made.look_until("m", 1, "END")
            assert sorted(
                [await _is_initialized(target, "serving-1"), await _is_initialized(target, "serving-2")]
            ) == [False, True]
            assert await made.ask("m") == 5.0


def test_functions_and_named_containers_are_moved_with_care() -> None:
    graph = fe.Graph()
    graph.variable(2.0, name="own")
    graph.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], container="theirs", name="queue")
    moved = {node.name: node for node in in_container(graph, "mine").to_graph_def().node}
    assert moved["own"].attr["container"].s == b"mine"
    assert moved["queue"].attr["container"].s == b"theirs"
    assert "container" not in moved["own/initial_value"].attr
