"""`fe.train.fit` in programs of other event loops, and with variables that are at a target."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.cluster.local import free_ports
from flowengine.transport.wire.identity import new_key

ROWS = np.arange(6, dtype=np.float32)


def averaging() -> tuple[fe.Graph, Any, Any, dict[str, Any]]:
    """A graph whose variable moves towards the mean of what is fed: with it the step and what `fit` takes."""
    graph = fe.Graph()
    with graph.device("/job:ps/task:0"):
        mean = graph.variable(np.float32(0), name="mean")
    x = graph.placeholder("float32", [None], name="x")
    loss = fe.reduce_mean(fe.square(x - mean.value()))
    error = fe.metrics.mean_absolute_error(x, fe.ones_like(x) * mean.value())
    step = fe.optimizers.Momentum(0.1, 0.5).minimize(loss)
    options = {
        "epochs": 3,
        "batch_size": 4,
        "fetches": loss,
        "metrics": {"error": error},
        "validation": {x: ROWS[:2]},
        "patience": 5,
        "quiet": True,
    }
    return graph, step, {x: ROWS}, options


def in_script(directory: Path) -> fe.train.TrainingHistory:
    graph, step, data, options = averaging()
    with fe.blocking.Session(graph, config=fe.Config(allow_soft_placement=True)) as session:
        return fe.blocking.fit(session, step, data, directory=directory, **options)


def in_asyncio(directory: Path) -> fe.train.TrainingHistory:
    graph, step, data, options = averaging()

    async def main() -> Any:
        async with fe.asyncio.Session(graph, config=fe.Config(allow_soft_placement=True)) as session:
            return await session.call(fe.train.fit, step, data, directory=directory, **options)

    found: fe.train.TrainingHistory = asyncio.run(main())
    return found


def in_anyio(directory: Path) -> fe.train.TrainingHistory:
    graph, step, data, options = averaging()

    async def main() -> Any:
        async with fe.anyio.Session(graph, config=fe.Config(allow_soft_placement=True)) as session:
            return await session.call(fe.train.fit, step, data, directory=directory, **options)

    found: fe.train.TrainingHistory = asyncio.run(main())
    return found


@pytest.mark.parametrize("train", [in_asyncio, in_anyio])
def test_programs_of_other_event_loops_have_the_same_history(train: Any, tmp_path: Path) -> None:
    wanted, found = in_script(tmp_path / "script"), train(tmp_path / "other")
    assert found.numbers == wanted.numbers
    assert (found.steps, found.best_epoch, found.reason) == (6, wanted.best_epoch, "epochs")


@pytest.mark.parametrize("is_kept", [True, False])
async def test_variables_at_a_target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_kept: bool) -> None:
    wanted = in_script(tmp_path / "script")
    monkeypatch.setenv("FLOWENGINE_CLUSTER_KEY", new_key().hex())
    ps, worker = (f"127.0.0.1:{port}" for port in free_ports(2))
    spec = fe.ClusterSpec.of({"ps": [ps], "worker": [worker]})
    graph, step, data, options = averaging()
    directory = tmp_path / "target" if is_kept else None
    async with (
        fe.Server(spec, "ps", 0),
        fe.Server(spec, "worker", 0) as server,
        fe.Session(graph, target=server.target) as session,
    ):
        found = await fe.train.fit(session, step, data, directory=directory, **options)
    assert found.numbers == wanted.numbers
    assert found.best_epoch == wanted.best_epoch
    if directory is not None:
        assert found.best_checkpoint == f"{directory}/model.ckpt-{2 * (found.best_epoch or 0) + 2}"
        assert (directory / "model.ckpt-6.meta").exists()
