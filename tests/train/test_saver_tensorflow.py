"""Checkpoints go both ways between this engine and TensorFlow, bit for bit, and so does a training run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.arrays import to_array
from flowengine.train.saveables import of_graph
from tests.tools.recorded import open_case

TENSORFLOW = os.environ.get("FLOWENGINE_TENSORFLOW_PYTHON")
HERE = Path(__file__).resolve().parent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        TENSORFLOW is None, reason="FLOWENGINE_TENSORFLOW_PYTHON names no Python with TensorFlow"
    ),
]

MODELS = (
    "alexnet_train",
    "cond_in_while_grad",
    "googlenet_train",
    "lstm_lm_full",
    "lstm_lm_sampled",
    "mnist_mlp_fig1",
    "nested_while_grad",
    "seq2seq_attention_train",
    "tp_rust_regression_old",
    "whitepaper_fig1",
    "word2vec_nce_sgd",
    "word2vec_sampled_adagrad",
)


def in_tensorflow(script: str, *arguments: str | Path) -> str:
    assert TENSORFLOW is not None
    command = [TENSORFLOW, str(HERE / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def graph_of(meta_graph: str | Path) -> fe.Graph:
    return fe.Graph.from_graph_def(Path(meta_graph).read_bytes())


def bits(value: Any) -> Any:
    array = to_array(value)
    if array.dtype.hasobject:
        return [element.hex() for element in array.reshape(-1)]
    return array.tobytes().hex()


async def kept(session: fe.Session, saver: fe.train.Saver) -> dict[str, Any]:
    """{name: [dtype, shape, elements as text]} of what the session's variables hold."""
    held = {}
    for each in saver._saveables(session) or ():
        variable = each.find(session.resources)
        assert variable is not None
        value = to_array(variable.read())
        held[each.text] = [each.dtype.name, list(value.shape), bits(value)]
    return held


async def trained(folder: Path, target: Path) -> dict[str, Any]:
    """Initialize and train a recorded model by one step, save it as `ours`; what was saved."""
    case = open_case(str(folder))
    timing = json.loads((folder / "case.json").read_text())["timing"]
    async with fe.Session(fe.Graph.from_graph_def(case.graph)) as session:
        for number in (*timing["setup"], timing["run"]):
            run = case.runs[number]
            await session.run(run.fetches, run.feeds, targets=run.targets)
        set_here = [
            each.node
            for each in of_graph(session.graph)
            if (variable := each.find(session.resources)) is not None and variable.is_initialized
        ]
        saver = fe.train.Saver(set_here)
        await saver.save(session, target / "ours")
        (target / "names.json").write_text(json.dumps(set_here))
        return await kept(session, saver)


async def test_models_cross_over_bit_for_bit(shared: Path, tmp_path: Path) -> None:
    zoo = shared / "zoo" / "open"
    ours = {}
    for name in MODELS:
        (tmp_path / name).mkdir()
        ours[name] = await trained(zoo / name, tmp_path / name)
        assert ours[name]
    done = in_tensorflow("zoo_in_tensorflow.py", zoo, tmp_path, *MODELS)
    assert done.split() == list(MODELS)
    for name in MODELS:
        folder = tmp_path / name
        assert json.loads((folder / "ours.json").read_text()) == ours[name], name
        theirs = json.loads((folder / "theirs.json").read_text())
        saver = fe.train.Saver.from_meta_graph(folder / "theirs.meta")
        graph = graph_of(folder / "theirs.meta")
        async with fe.Session(graph) as session:
            assert not saver.runs_nodes(session)
            await saver.restore(session, folder / "theirs")
            assert await kept(session, saver) == theirs, name
        async with fe.Session(graph) as session:  # as TensorFlow does it
            feeds = {"cross/Const:0": str(folder / "theirs").encode()}
            await session.run((), feeds, targets=["cross/restore_all"])
            assert await kept(session, saver) == theirs, name


async def test_a_run_that_changes_hands_has_the_losses_of_one_that_does_not(tmp_path: Path) -> None:
    """50 steps there, 50 here, 50 there again."""
    whole, shared_run = tmp_path / "whole", tmp_path / "shared"
    uninterrupted = json.loads(in_tensorflow("train_in_tensorflow.py", whole, "150").splitlines()[-1])
    first = json.loads(in_tensorflow("train_in_tensorflow.py", shared_run, "50").splitlines()[-1])
    state = fe.train.get_checkpoint_state(str(shared_run))
    assert state is not None
    meta_graph = f"{state.latest}.meta"
    saver = fe.train.Saver.from_meta_graph(meta_graph)
    second = []
    async with fe.Session(graph_of(meta_graph)) as session:
        await saver.restore(session, shared_run)
        async with fe.train.save_every(
            saver, session, shared_run / "model.ckpt", steps=20, global_step="global_step"
        ) as saves:
            for _ in range(50):
                loss = await session.run("loss:0", targets=["train"])
                second.append(float(loss))
                await saves.after_step()
    assert saves.latest == str(shared_run / "model.ckpt-100")
    third = json.loads(in_tensorflow("train_in_tensorflow.py", shared_run, "50").splitlines()[-1])
    losses = [*first, *second, *third]
    assert losses == uninterrupted
    assert losses[-1] < losses[0] / 2


def built_here() -> fe.Graph:
    """A loss that falls by a quarter a step; variables of either kind."""
    graph = fe.Graph(producer=27)
    step = graph.ops.VariableV2(shape=[], dtype="int64", name="global_step")
    w = graph.ops.VariableV2(shape=[2], dtype="float32", name="w")
    h = graph.ops.VarHandleOp(shape=[], dtype="float32", shared_name="h", name="h")
    inits: list[fe.Tensor | fe.Operation] = [
        graph.ops.Assign(step, np.int64(0)),
        graph.ops.Assign(w, np.array([1, 2], np.float32)),
        graph.ops.AssignVariableOp(h, np.float32(4)),
    ]
    graph.group(*inits, name="init")
    loss = graph.ops.Sum(graph.ops.Mul(w, graph.ops.ReadVariableOp(h, dtype="float32")), [0], name="loss")
    with graph.control_dependencies([loss]):
        updates: list[fe.Tensor | fe.Operation] = [
            graph.ops.AssignAdd(step, np.int64(1)),
            graph.ops.Assign(w, graph.ops.Mul(graph.ops.Identity(w), np.float32(0.75))),
            graph.ops.AssignAddVariableOp(h, np.float32(0.5)),
        ]
    graph.group(*updates, name="train")
    return graph


async def test_a_graph_that_was_built_here_goes_on_there(tmp_path: Path) -> None:
    graph = built_here()
    saver = fe.train.Saver()
    saver.add_to(graph)
    losses = []
    async with fe.Session(graph) as session:
        await session.run((), targets=["init"])
        for number in range(6):
            if number == 3:
                await saver.save(session, tmp_path / "model.ckpt", global_step="global_step")
            losses.append(float(await session.run("loss:0", targets=["train"])))
    theirs = json.loads(in_tensorflow("train_in_tensorflow.py", tmp_path, "3").splitlines()[-1])
    assert theirs == losses[3:]
    assert fe.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model.ckpt-6")


async def test_queue_runners_loops_and_branches_cross_over(tmp_path: Path) -> None:
    """4 steps there, 4 more there and here alike, and 4 there from what was saved here."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"

    def steps_in_tensorflow(folder: Path) -> Any:
        return json.loads(in_tensorflow("queue_in_tensorflow.py", folder, "4").splitlines()[-1])

    _, _, listed = steps_in_tensorflow(theirs)
    assert listed == [1, 1, 2]
    shutil.copytree(theirs, ours)
    losses, slope, _ = steps_in_tensorflow(theirs)
    state = fe.train.get_checkpoint_state(str(ours))
    assert state is not None
    meta_graph = ours / f"{Path(state.latest).name}.meta"
    graph = fe.Graph.load(meta_graph)
    saver = fe.train.Saver.from_meta_graph(meta_graph)
    async with fe.Session(graph) as session:
        await saver.restore(session, meta_graph.with_suffix(""))
        async with fe.train.QueueRunners(session) as coordinator:
            found = [float(await session.run("loss:0", targets=["train"])) for _ in range(4)]
            (derived,) = fe.gradients([graph.tensor("loss:0")], [graph.tensor("w:0")])
            np.testing.assert_allclose([*found, await session.run(derived)], [*losses, slope], rtol=1e-5)
            coordinator.request_stop()
        await saver.save(session, ours / "model", global_step="global_step")
    assert fe.train.latest_checkpoint(str(ours)) == str(ours / "model-8")
    wanted, wanted_slope, _ = steps_in_tensorflow(theirs)
    found, slope, listed = steps_in_tensorflow(ours)
    np.testing.assert_allclose([*found, slope], [*wanted, wanted_slope], rtol=1e-5)
    assert listed == [1, 1, 2]
