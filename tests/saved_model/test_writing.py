"""SavedModels and frozen graphs that are written here; TensorFlow reads them where there is one."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.cli.main import main
from flowengine.cli.models.likely import likely_outputs
from flowengine.core.errors import AlreadyExistsError, FailedPreconditionError, InvalidArgumentError
from flowengine.ir.graphfile import load_saved_model

Output = pytest.CaptureFixture[str]
HERE = Path(__file__).parent
#: One or several Pythons with TensorFlow, with the system's separator between them.
TENSORFLOW = os.environ.get("FLOWENGINE_TENSORFLOW_PYTHON")


def regression() -> fe.Graph:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None, 2], name="x")
    w = graph.variable(np.array([[1.0], [2.0]], "f"), name="w")
    b = graph.variable(np.array([0.5], "f"), name="b", use_resource=False)
    graph.ops.Add(graph.ops.MatMul(x, w.value()), b.value(), name="y")
    graph.variable(np.int64(0), name="seen", collections=["local_variables"])
    graph.group(w.assign_sub_op(np.array([[0.5], [0.5]], "f")), name="step")
    return graph


SIGNATURES: dict[str, Any] = {"serving_default": ({"x": "x"}, {"y": "y:0"})}


async def exported(folder: Path, **options: Any) -> None:
    graph = regression()
    async with fe.Session(graph) as session:
        await session.initialize()
        await session.run((), targets=["step"])
        await fe.saved_model.save(session, folder, signatures=SIGNATURES, **options)


@pytest.mark.parametrize("prune", [False, True])
async def test_what_is_written_is_loaded(tmp_path: Path, prune: bool) -> None:
    await exported(tmp_path / "model", prune=prune, training="step")
    assert os.listdir(tmp_path) == ["model"]
    async with await fe.saved_model.load(tmp_path / "model") as model:
        assert (await model(x=[[1.0, 2.0]]))["y"].tolist() == [[4.0]]
        assert model.signature.inputs["x"].shape.as_list() == [None, 2]
        assert model.saved.training == "step"
        assert sorted(model.saved.variables) == (["b", "w"] if prune else ["b", "seen", "w"])
        assert (await model.train("serving_default", x=[[1.0, 2.0]]))["y"].shape == (1, 1)
        assert (await model.variables["w"].read()).tolist() == [[0.0], [1.0]]
    meta = load_saved_model(tmp_path / "model").meta_graph
    assert meta is not None
    assert ("variables" in meta.collection_def) is not prune


async def test_a_saver_restores_from_the_directory(tmp_path: Path) -> None:
    await exported(tmp_path / "model")
    graph = regression()
    async with fe.Session(graph) as session:
        assert await fe.train.Saver().restore(session, tmp_path / "model") == ["w", "b"]
        assert (await session.run("y:0", {"x:0": [[1.0, 2.0]]})).tolist() == [[4.0]]


async def test_parts_of_a_variable_are_slices(tmp_path: Path) -> None:
    graph = fe.Graph()
    whole = graph.variable(
        np.arange(6, dtype="f").reshape(3, 2), name="v", partitioner=fe.partitioners.fixed_size(2)
    )
    graph.ops.Identity(graph.ops.ConcatV2([each.value() for each in whole.parts], 0), name="y")
    async with fe.Session(graph) as session:
        await session.initialize()
        await fe.saved_model.save(session, tmp_path / "m", signatures={"serving_default": ({}, {"y": "y"})})
    async with await fe.saved_model.load(tmp_path / "m") as model:
        assert (await model())["y"].tolist() == [[0, 1], [2, 3], [4, 5]]


async def test_assets_and_what_initializes_come_along(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("one\ntwo\n")
    graph = fe.Graph()
    ops = graph.ops
    asset = graph.constant(str(words), name="asset")
    table = ops.HashTableV2(key_dtype="string", value_dtype="int64", name="table")
    init = ops.InitializeTableFromTextFileV2(table, asset, key_index=-2, value_index=-1, name="fill")
    given = graph.placeholder("string", [None], name="words")
    found = ops.LookupTableFindV2(table, given, graph.constant(-1, "int64"), name="ids")
    async with fe.Session(graph) as session:
        await fe.saved_model.save(
            session,
            tmp_path / "m",
            signatures={"serving_default": ({"words": given}, {"ids": found})},
            assets={asset: words},
            initializing=init,
        )
    words.unlink()
    async with await fe.saved_model.load(tmp_path / "m") as model:
        assert (await model(["two", "?"]))["ids"].tolist() == [1, -1]


async def test_sparse_tensors_are_told_as_such(tmp_path: Path) -> None:
    graph = fe.Graph()
    parts = fe.saved_model.SparseValue(
        graph.placeholder("int64", [None, 2], name="indices"),
        graph.placeholder("float32", [None], name="values"),
        graph.placeholder("int64", [2], name="dense_shape"),
    )
    graph.ops.SparseToDense(parts.indices, parts.dense_shape, parts.values, 0.0, name="y")
    async with fe.Session(graph) as session:
        await fe.saved_model.save(
            session, tmp_path / "m", signatures={"f": ({"s": parts}, {"again": parts, "y": "y"})}
        )
    async with await fe.saved_model.load(tmp_path / "m") as model:
        given = ([[0, 1]], [5.0], [1, 2])
        outputs = await model.signatures["f"](s=given)
        assert outputs["y"].tolist() == [[0, 5]]
        assert outputs["again"].values.tolist() == [5]
        with pytest.raises(InvalidArgumentError, match="a tuple of indices, values, dense_shape"):
            model.signatures["f"](s=[1, 2])


async def test_folders_above_an_export_are_made(tmp_path: Path) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [], name="x")
    async with fe.Session(graph) as session:
        await fe.saved_model.save(
            session, tmp_path / "a" / "b" / "1", signatures={"s": ({"x": x}, {"y": x + x})}
        )
    async with await fe.saved_model.load(tmp_path / "a" / "b" / "1") as model:
        assert (await model(x=2.0))["y"] == 4.0


async def test_a_refused_export_leaves_nothing(tmp_path: Path) -> None:
    graph = regression()
    async with fe.Session(graph) as session:
        with pytest.raises(FailedPreconditionError):
            await fe.saved_model.save(session, tmp_path / "m", signatures=SIGNATURES)
        await session.initialize()
        wrong: Any
        for wrong in ({"f": {"x": "x"}}, {"f": (["x"], {})}, {"f": ({"x": "y:1"}, {})}):
            with pytest.raises(InvalidArgumentError):
                await fe.saved_model.save(session, tmp_path / "m", signatures=wrong)
        assert not os.listdir(tmp_path)
        (tmp_path / "m").mkdir()
        with pytest.raises(AlreadyExistsError, match="is not overwritten"):
            await fe.saved_model.save(session, tmp_path / "m", signatures=SIGNATURES)
        assert not os.listdir(tmp_path / "m")


def test_a_blocking_session_is_saved_and_frozen(tmp_path: Path) -> None:
    from flowengine.saved_model.freezing import freeze_in

    graph = regression()
    with fe.blocking.Session(graph) as session:
        session.initialize()
        session.call(fe.saved_model.save, tmp_path / "m", signatures=SIGNATURES)
        frozen = session.call(freeze_in, graph, ["y"])
    with fe.blocking.load_saved_model(tmp_path / "m") as model, fe.blocking.Session(frozen) as alone:
        assert model(x=[[1.0, 1.0]])["y"] == alone.run("y:0", {"x:0": [[1.0, 1.0]]}) == 3.5


def unpacked(name: str, folder: Path) -> Path:
    with zipfile.ZipFile(HERE / "recorded" / f"{name}.zip") as packed:
        packed.extractall(folder / name)
    return folder / name


@pytest.mark.parametrize("name", ["simple", "keras_dense", "keras_words"])
def test_a_model_is_frozen_on_the_shell(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = unpacked(name, tmp_path)
    target = str(tmp_path / "frozen.pb")
    assert main(["freeze", str(folder), "-o", target]) == 0
    source, fed = capsys.readouterr().out.strip().split(": ", 1)[1].split(" of ")
    graph = fe.Graph.load(target)
    assert not any(node.op in ("VarHandleOp", "VariableV2", "StatefulPartitionedCall") for node in graph)
    if name == "keras_words":
        return  # its table is initialized by the SavedModel's own node, which a frozen graph does not have
    (call,) = json.loads((folder / "values.json").read_text())
    (x,) = call["inputs"].values()
    assert main(["run", target, "-x", f"{fed}={json.dumps(x)}", "-y", source, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["values"].values()
    (wanted,) = call["outputs"].values()
    np.testing.assert_allclose(found["value"], wanted, rtol=1e-5)


def test_nothing_is_left_of_how_variables_came_into_functions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A call that waits for all its inputs waited for nodes that told of the variables."""
    target = str(tmp_path / "frozen.pb")
    assert main(["freeze", str(HERE.parents[1] / "docs" / "examples" / "keras_digits"), "-o", target]) == 0
    output = capsys.readouterr().out.strip().split(": ", 1)[1].split(" of ")[0]
    assert [each.name for each in likely_outputs(fe.Graph.load(target))] == [output]


async def test_a_loop_over_a_variable_is_frozen() -> None:
    """A handle that enters a loop through a call is a constant that enters it."""
    graph = fe.Graph()
    w = graph.variable(np.float32(2.0), name="w")
    x = graph.placeholder("float32", [], name="x")
    ops = graph.ops
    handle = ops.Enter(w.handle, frame_name="f", is_constant=True)
    enter, i = ops.Enter(x, frame_name="f"), ops.Enter(graph.constant(0), frame_name="f")
    merge, count = ops.Merge([enter, enter]).output, ops.Merge([i, i]).output
    go = ops.LoopCond(ops.Less(count, ops.Enter(graph.constant(3), frame_name="f", is_constant=True)))
    value, number = ops.Switch(merge, go), ops.Switch(count, go)
    read = ops.ReadVariableOp(handle, dtype="float32")
    with graph.control_dependencies([number.output_true]):
        one = graph.constant(1)
    graph.set_back_edge(merge, 1, ops.NextIteration(ops.Mul(value.output_true, read)))
    graph.set_back_edge(count, 1, ops.NextIteration(ops.Add(number.output_true, one)))
    ops.Exit(value.output_false, name="y")
    async with fe.Session(graph) as session:
        await session.initialize()
        frozen = await fe.freeze(graph, session, ["y"])
        assert not any(each.output_types and each.output_types[0].name == "resource" for each in frozen)
        async with fe.Session(frozen) as alone:
            assert await alone.run("y:0", {"x:0": 5.0}) == await session.run("y:0", {"x:0": 5.0}) == 40


async def test_what_changes_a_variable_cannot_be_frozen() -> None:
    graph = regression()
    async with fe.Session(graph) as session:
        await session.initialize()
        with pytest.raises(InvalidArgumentError, match=r"\(AssignSubVariableOp\) uses a variable itself"):
            await fe.freeze(graph, session, ["step"])
        with pytest.raises(InvalidArgumentError, match="outputs is empty"):
            await fe.freeze(graph, session, [])


@pytest.mark.skipif(TENSORFLOW is None, reason="FLOWENGINE_TENSORFLOW_PYTHON names no Python with TensorFlow")
def test_tensorflow_loads_what_is_written(tmp_path: Path) -> None:
    assert TENSORFLOW is not None

    async def write() -> None:
        await exported(tmp_path / "model")
        async with await fe.saved_model.load(unpacked("keras_dense", tmp_path)) as model:
            facts = model.signature
            sides = [{k: t.tensors[0] for k, t in side.items()} for side in (facts.inputs, facts.outputs)]
            signatures = {"serving_default": tuple(sides)}
            await fe.saved_model.save(model.session, tmp_path / "again", signatures=signatures, prune=True)

    trio.run(write)
    (call,) = json.loads((tmp_path / "keras_dense" / "values.json").read_text())
    for name, given, wanted in (
        ("model", [[1.0, 2.0]], [[4.0]]),
        ("again", call["inputs"]["x"], call["outputs"]["output_0"]),
    ):
        for python in TENSORFLOW.split(os.pathsep):
            command = [python, str(HERE / "call_in_tensorflow.py"), str(tmp_path / name), json.dumps(given)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr[-2000:]
            for values in json.loads(done.stdout.splitlines()[-1]).values():
                np.testing.assert_allclose(values, wanted, rtol=1e-5)
