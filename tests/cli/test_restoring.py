"""`--init` beside `--restore`, `--resume` and `freeze`: initializers run first, so that a restore stays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.cli import failure
from flowengine.cli.main import main
from flowengine.ir.proto import MetaGraphDef, VariableDef

Output = pytest.CaptureFixture[str]

#: {variable: the value that `init` gives it}; a checkpoint holds ten times as much.
INITIAL = {"a": 1.0, "b": 2.0, "c": 3.0}


def build(stored: Sequence[str], folder: Path) -> None:
    """Write graph.pb, model.meta and the checkpoint `model` of some of the variables into a folder."""
    graph = fe.Graph()
    setters = []
    for name, value in INITIAL.items():
        variable = graph.ops.VariableV2(shape=[], dtype="float32", name=name)
        setters.append(graph.ops.Assign(variable, value))
        graph.ops.Identity(variable, name=f"{name}_read")
        graph.ops.Assign(variable, 10 * value, name=f"train_{name}")
    graph.group(*setters, name="init")
    graph.ops.AssignAdd(graph.tensor("a:0"), 0.0, name="nothing")

    async def save() -> None:
        saver = fe.train.Saver(stored)
        async with fe.Session(graph) as session:
            await session.run((), targets=[f"train_{name}" for name in stored])
            await saver.save(session, folder / "model")

    folder.mkdir(exist_ok=True)
    trio.run(save)
    content = graph.to_graph_def()
    (folder / "graph.pb").write_bytes(content.SerializeToString())
    with_nodes = fe.Graph.from_graph_def(content)
    saver = fe.train.Saver(stored)
    saver.add_to(with_nodes)
    meta = MetaGraphDef(graph_def=with_nodes.to_graph_def())
    meta.saver_def.filename_tensor_name = "save/Const:0"
    meta.saver_def.save_tensor_name = "save/control_dependency:0"
    meta.saver_def.restore_op_name = "save/restore_all"
    (folder / "model.meta").write_bytes(meta.SerializeToString())


def after(stored: Sequence[str]) -> dict[str, float]:
    """Return the values of the fetches: ten times the initial value for a variable that was restored."""
    return {f"{name}_read:0": 10 * value if name in stored else value for name, value in INITIAL.items()}


def values(file: Path) -> dict[str, Any]:
    with np.load(file) as kept:
        return {name: float(kept[name]) for name in kept}


FETCHES = [word for name in INITIAL for word in ("--fetch", f"{name}_read")]
FINALS = [word for name in INITIAL for word in ("--final", f"{name}_read")]


@given(
    st.lists(st.sampled_from(sorted(INITIAL)), min_size=1, unique=True),
    st.sampled_from(["graph.pb", "model.meta"]),
)
@settings(max_examples=8, deadline=None)
def test_a_variable_has_the_value_of_the_checkpoint_or_else_its_initial_one(
    tmp_path_factory: pytest.TempPathFactory, stored: list[str], file: str
) -> None:
    folder = tmp_path_factory.mktemp("run")
    build(stored, folder)
    graph, output, frozen = str(folder / file), folder / "out.npz", str(folder / "frozen.pb")
    setting = ["--init", "init", "--restore", str(folder / "model")]
    for options in (FETCHES, [*FINALS, "--target", "nothing"]):
        assert main(["run", graph, *setting, *options, "--output", str(output), "--force"]) == 0
        assert values(output) == after(stored)
    assert main(["freeze", graph, *setting, *FETCHES, "-o", frozen]) == 0
    assert main(["run", frozen, *FETCHES, "--output", str(output), "--force"]) == 0
    assert values(output) == after(stored)


@pytest.mark.parametrize("recover", [[], ["--recover"]], ids=["resume", "recover"])
def test_a_run_that_goes_on_initializes_what_its_checkpoints_lack(
    recover: list[str], tmp_path: Path, capsys: Output
) -> None:
    build(["a"], tmp_path)
    output, folder = tmp_path / "out.npz", str(tmp_path / "run")
    command = ["run", str(tmp_path / "model.meta"), "--checkpoint", folder, "--resume", "--init", "init"]
    command += [*recover, *FINALS, "--output", str(output), "--force"]
    assert main([*command, "--target", "train_a"]) == 0
    assert values(output) == after(["a"])
    assert main([*command, "--target", "nothing", "--steps", "2"]) == 0
    assert values(output) == after(["a"])


def test_an_error_names_the_options_that_keep_the_checkpoint(tmp_path: Path, capsys: Output) -> None:
    """With --init alone, the checkpoint beside the graph would not be read."""
    build(["a"], tmp_path)
    (tmp_path / "model.meta").unlink()
    (tmp_path / "checkpoint").write_text(f'model_checkpoint_path: "{tmp_path / "model"}"\n')
    command = ["run", str(tmp_path / "graph.pb"), *FETCHES]
    output = tmp_path / "out.npz"
    assert main(command) == failure.STEP_ERROR
    advice = f"--restore {tmp_path / 'model'} --init init"
    assert capsys.readouterr().err.strip().endswith(f": add {advice}")
    assert main([*command, *advice.split(), "--output", str(output)]) == 0
    assert values(output) == after(["a"])


def test_an_error_of_a_training_run_names_no_option_that_training_refuses(
    tmp_path: Path, capsys: Output
) -> None:
    build(["a"], tmp_path)
    command = ["run", str(tmp_path / "model.meta"), "--checkpoint", str(tmp_path / "run")]
    assert main([*command, "--target", "nothing"]) == failure.STEP_ERROR
    assert capsys.readouterr().err.strip().endswith(": add --init init")


def test_a_checkpoint_of_other_variables_is_refused(tmp_path: Path, capsys: Output) -> None:
    build(["a"], tmp_path)
    graph = fe.Graph()
    graph.group(graph.ops.Assign(graph.ops.VariableV2(shape=[], dtype="float32", name="x"), 1.0), name="init")
    graph.ops.Identity(graph.tensor("x:0"), name="y")
    file = tmp_path / "other.pb"
    file.write_bytes(graph.to_graph_def().SerializeToString())
    command = ["run", str(file), "--fetch", "y", "--init", "init", "--restore", str(tmp_path / "model")]
    assert main(command) == failure.UNREADABLE_GRAPH
    assert "it holds none of the graph's variables: variable 'x'" in capsys.readouterr().err


@pytest.mark.parametrize("training", [True, False], ids=["resume", "restore"])
def test_a_local_variable_that_was_restored_is_not_initialized_again(training: bool, tmp_path: Path) -> None:
    build(["a", "b"], tmp_path)
    file = tmp_path / "model.meta"
    meta = MetaGraphDef.FromString(file.read_bytes())
    graph = fe.Graph.from_graph_def(meta.graph_def)
    for name in ("b", "c"):
        start = graph.ops.Assign(graph.tensor(f"{name}:0"), INITIAL[name], name=f"{name}_init")
        entry = VariableDef(variable_name=f"{name}:0", initializer_name=start.op.name)
        meta.collection_def["local_variables"].bytes_list.value.append(entry.SerializeToString())
    meta.graph_def.CopyFrom(graph.to_graph_def())
    file.write_bytes(meta.SerializeToString())
    (tmp_path / "checkpoint").write_text(f'model_checkpoint_path: "{tmp_path / "model"}"\n')
    way = ["--checkpoint", str(tmp_path), "--resume"] if training else ["--restore", str(tmp_path / "model")]
    output = tmp_path / "out.npz"
    assert main(["run", str(file), *way, "--target", "nothing", *FINALS, "--output", str(output)]) == 0
    assert values(output) == after(["a", "b"])
