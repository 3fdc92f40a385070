"""Whole models beside TensorFlow 1.15: the loss of every step, from equal first values and feeds.

What TensorFlow found is recorded. Where FLOWENGINE_TENSORFLOW_PYTHON names a Python that has TensorFlow 1.15,
graphs are exchanged as well: ours run there, its run here.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe
from tests.client import models, replayed
from tests.client.model_feeds import STEPS

PYTHON: Final = os.environ.get("FLOWENGINE_TENSORFLOW_PYTHON")
RTOL: Final = {"float32": 1e-4, "float64": 1e-6}
needs_tensorflow = pytest.mark.skipif(
    PYTHON is None, reason="FLOWENGINE_TENSORFLOW_PYTHON names no Python that has TensorFlow"
)


def compare(model: str, dtype: str, got: dict[str, Any]) -> None:
    for key, value in got.items():
        wanted = replayed.expected("models")[f"{model}/{dtype}|{key}"]
        np.testing.assert_allclose(np.asarray(value), wanted, RTOL[dtype], err_msg=f"{model} {dtype} {key}")


def play(mode: str, model: str, dtype: str, path: Path) -> str:
    script = Path(__file__).with_name("models_tensorflow.py")
    command = [str(PYTHON), str(script), mode, model, dtype, str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("dtype", sorted(STEPS))
@pytest.mark.parametrize("model", sorted(models.BUILDERS))
async def test_a_model_learns_as_in_tensorflow(model: str, dtype: str) -> None:
    compare(model, dtype, await models.losses(models.build(model, dtype), model, dtype, STEPS[dtype]))


@needs_tensorflow
@pytest.mark.parametrize("dtype", sorted(STEPS))
@pytest.mark.parametrize("model", sorted(models.BUILDERS))
def test_our_graph_learns_the_same_in_tensorflow(model: str, dtype: str, tmp_path: Path) -> None:
    path = tmp_path / "graph.pb"
    path.write_bytes(models.build(model, dtype).to_graph_def().SerializeToString())
    compare(model, dtype, json.loads(play("play", model, dtype, path).splitlines()[-1]))


@needs_tensorflow
@pytest.mark.parametrize("model", sorted(models.BUILDERS))
def test_our_meta_graph_learns_the_same_in_tensorflow(model: str, tmp_path: Path) -> None:
    path = tmp_path / "graph.meta"
    path.write_bytes(models.build(model, "float32").to_meta_graph().SerializeToString())
    compare(model, "float32", json.loads(play("play", model, "float32", path).splitlines()[-1]))


@needs_tensorflow
@pytest.mark.parametrize("dtype", sorted(STEPS))
@pytest.mark.parametrize("model", sorted(models.BUILDERS))
async def test_the_graph_of_tensorflow_learns_the_same_here(model: str, dtype: str, tmp_path: Path) -> None:
    path = tmp_path / "graph.pb"
    play("build", model, dtype, path)
    compare(model, dtype, await models.losses(fe.Graph.load(path), model, dtype, STEPS[dtype]))


#: Models that draw nothing: what random nodes have drawn is in no checkpoint of TensorFlow.
CERTAIN: Final = sorted(set(models.BUILDERS) - {"vae", "word2vec", "language_sampled"})


def rest(model: str) -> Any:
    """The recorded losses of the second half of the steps."""
    return replayed.expected("models")[f"{model}/float32|losses"][STEPS["float32"] // 2 :]


@needs_tensorflow
@pytest.mark.parametrize("model", CERTAIN)
async def test_a_checkpoint_of_tensorflow_is_gone_on_with_here(model: str, tmp_path: Path) -> None:
    prefix = tmp_path / "model.ckpt"
    play("half", model, "float32", prefix)
    async with fe.Session(models.build(model, "float32")) as session:
        await session.initialize()
        await fe.train.Saver().restore(session, prefix)
        half = STEPS["float32"] // 2
        got = [await models.step_of(session, model, "float32", step) for step in range(half, 2 * half)]
    np.testing.assert_allclose(got, rest(model), RTOL["float32"])


@needs_tensorflow
@pytest.mark.parametrize("model", CERTAIN)
async def test_a_checkpoint_of_ours_is_gone_on_with_in_tensorflow(model: str, tmp_path: Path) -> None:
    prefix = tmp_path / "model.ckpt"
    async with fe.Session(models.build(model, "float32")) as session:
        await session.initialize()
        for step in range(STEPS["float32"] // 2):
            await models.step_of(session, model, "float32", step)
        await fe.train.Saver().save(session, prefix)
    got = json.loads(play("rest", model, "float32", prefix).splitlines()[-1])["losses"]
    np.testing.assert_allclose(got, rest(model), RTOL["float32"])
