"""A training run with queues that TensorFlow 1.15 began and saved goes on here, and there again."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.cli.main import main

HERE = Path(__file__).resolve().parent
TENSORFLOW = os.environ.get("FLOWENGINE_TENSORFLOW_PYTHON", "").split(os.pathsep)[0]


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """TensorFlow's run after 50 steps, as current directory: its graph reads a file there."""
    with zipfile.ZipFile(HERE / "classifier_of_tensorflow.zip") as packed:
        packed.extractall(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def losses_of(folder: Path) -> list[float]:
    """Of 150 steps in TensorFlow without an interruption."""
    losses: list[float] = json.loads((folder / "losses.json").read_text())
    return losses


async def go_on(folder: Path) -> list[float]:
    """50 more steps from the latest checkpoint, with the queues of the MetaGraphDef; saved at the end."""
    latest = fe.train.latest_checkpoint(str(folder))
    saver = fe.train.Saver.from_meta_graph(f"{latest}.meta")
    async with fe.Session(fe.Graph.load(f"{latest}.meta")) as session:
        await saver.restore(session, str(latest))
        async with fe.train.QueueRunners(session):
            losses = [float(await session.run("loss:0", targets=["train"])) for _ in range(50)]
        await saver.save(session, folder / "model.ckpt", global_step="global_step")
    return losses


async def test_it_goes_on_here(begun: Path) -> None:
    np.testing.assert_allclose(await go_on(begun), losses_of(begun)[50:100], rtol=1e-3)
    # A session later, from what was saved here.
    np.testing.assert_allclose(await go_on(begun), losses_of(begun)[100:], rtol=1e-3)


def test_it_goes_on_on_the_shell(begun: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", "model.ckpt-50.meta", "--checkpoint", ".", "--resume", "--fetch", "loss", "--json"]
    for last in (100, 150):
        assert main([*command, "--steps", "50"]) == 0
        found = json.loads(capsys.readouterr().out)
        np.testing.assert_allclose(found["values"]["loss:0"]["value"], losses_of(begun)[last - 1], rtol=1e-3)
        assert found["checkpoint"]["saved"].endswith(f"model.ckpt-{last}")


@pytest.mark.slow
@pytest.mark.skipif(not TENSORFLOW, reason="FLOWENGINE_TENSORFLOW_PYTHON names no Python with TensorFlow")
def test_it_goes_on_there_again(begun: Path) -> None:
    trio.run(go_on, begun)
    command = [TENSORFLOW, str(HERE / "classify_in_tensorflow.py"), str(begun), "50"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    theirs = json.loads(done.stdout.splitlines()[-1])
    np.testing.assert_allclose(theirs, losses_of(begun)[100:], rtol=1e-3)


def test_a_pipeline_that_was_built_here_is_in_its_meta_graph(tmp_path: Path) -> None:
    graph = fe.Graph()
    names = fe.train.string_input_producer(graph, ["a.txt"], num_epochs=2, shuffle=False)
    fe.train.batch(names.dequeue(), 1)
    meta = graph.to_meta_graph()
    runners = fe.train.queue_runners_of(meta)
    assert [each.name for each in runners] == [each.name for each in fe.train.queue_runners_of(graph)]
    assert len(runners) == 2
    (path := tmp_path / "pipeline.meta").write_bytes(meta.SerializeToString())
    again = fe.Graph.load(path)
    assert [each.to_proto() for each in fe.train.queue_runners_of(again)] == [
        each.to_proto() for each in runners
    ]
    assert again.to_meta_graph().collection_def == meta.collection_def
