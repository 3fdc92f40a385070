"""Versions at a cluster keep their variables apart, and leave nothing there when they end."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar

import pytest

import flowengine as fe
from flowengine.cluster.local import local_cluster
from flowengine.saved_model.reading import read_saved_model
from flowengine.serving.models import at_target
from flowengine.serving.models.at_target import in_container, open_at
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


def test_the_bodies_of_functions_are_moved() -> None:
    graph_def = fe.Graph().to_graph_def()
    function = graph_def.library.function.add()
    function.signature.name = "f"
    node = function.node_def.add(name="weights", op="VarHandleOp")
    node.attr["dtype"].type = 1
    node.attr["shape"].shape.SetInParent()
    moved = in_container(fe.Graph.from_graph_def(graph_def), "mine").to_graph_def()
    assert moved.library.function[0].node_def[0].attr["container"].s == b"mine"


class FakeSession(fe.Session):
    """A session of a cluster that notes which containers were cleared, and may not answer."""

    made: ClassVar[list[FakeSession]] = []
    failure: ClassVar[Exception | None] = None

    def __init__(self, graph: fe.Graph, *, target: str, config: Any) -> None:
        super().__init__(graph)
        self.calls: list[Any] = []
        self.made.append(self)

    async def reset(self, containers: Sequence[str] | None = None) -> None:
        self.calls.append(containers)
        if self.failure is not None:
            raise self.failure

    async def close(self) -> None:
        self.calls.append("closed")
        await super().close()


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[FakeSession]:
    """The sessions that were opened at a cluster."""
    monkeypatch.setattr(at_target, "Session", FakeSession)
    monkeypatch.setattr(FakeSession, "made", [])
    return FakeSession.made


async def test_a_version_that_is_not_restored_leaves_no_container(
    tmp_path: Path, sessions: list[FakeSession]
) -> None:
    saved = read_saved_model(export_factor(tmp_path / "m", 3.0))

    async def restoring(session: fe.Session, saved: Any) -> None:
        raise fe.errors.DataLossError("cut off")

    for _ in range(2):
        with pytest.raises(fe.errors.DataLossError):
            await open_at("trio://nowhere:1", saved, None, restoring)
    (first, closed), (second, _) = (each.calls for each in sessions)
    assert (len(first), len(second), closed) == (1, 1, "closed")
    assert first != second


@pytest.mark.parametrize("error", [fe.errors.UnavailableError("gone"), OSError("reset")])
async def test_a_session_is_closed_though_its_cluster_is_gone(
    tmp_path: Path, sessions: list[FakeSession], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def restoring(session: fe.Session, saved: Any) -> None:
        pass

    monkeypatch.setattr(FakeSession, "failure", error)
    saved = read_saved_model(export_factor(tmp_path / "m", 3.0))
    model = await open_at("trio://nowhere:1", saved, None, restoring)
    with pytest.raises(OSError, match="reset") if isinstance(error, OSError) else nullcontext():
        await model.close()
    assert sessions[0].calls[-1] == "closed"
