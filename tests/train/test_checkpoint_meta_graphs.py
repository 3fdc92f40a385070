"""The `.meta` beside a loop's checkpoints: the command line and others go on with it."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.cli.main import main
from flowengine.ir.proto import MetaGraphDef, VariableDef
from flowengine.train import folder


def regression() -> tuple[fe.Graph, Any, Any]:
    """A graph with two training steps, of which the second is not to be run; the loss and the first."""
    graph = fe.Graph()
    x = graph.placeholder("float32", [None, 2], name="x")
    y = graph.placeholder("float32", [None, 1], name="y")
    weight = graph.get_variable("weight", [2, 1], initializer=fe.initializers.zeros())
    loss = fe.reduce_mean(fe.square(x @ weight - y), name="loss")
    step = graph.variable(0, name="global_step", dtype="int64", trainable=False)
    train = fe.optimizers.Adam(0.05).minimize(loss, global_step=step)
    fe.optimizers.SGD(1e9).minimize(loss)
    return graph, loss, train


DATA = {
    "x:0": np.random.default_rng(0).normal(size=[20, 2]).astype(np.float32),
    "y:0": np.ones([20, 1], np.float32),
}


def train(directory: Path, steps: int) -> dict[str, Any]:
    """The variables after so many steps in all."""
    graph, loss, step = regression()
    hooks = [fe.train.Checkpoints(directory, every_steps=5)]
    with fe.blocking.Session(graph) as session:
        fe.blocking.loop(
            session, step, steps=steps, feeds=lambda number: DATA, fetches={"loss": loss}, hooks=hooks
        )
        return {each.name: session.run(each.value()) for each in graph.collection("variables")}


def described(prefix: str | Path) -> Any:
    """The MetaGraphDef beside a checkpoint."""
    return MetaGraphDef.FromString(Path(f"{prefix}.meta").read_bytes())


def test_the_command_line_goes_on_where_a_loop_was_and_a_loop_where_that_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", allow_pickle=False, **DATA)
    wanted = train(tmp_path / "whole", 30)
    train(tmp_path / "run", 10)
    feed = ["run", "run/model.ckpt-10.meta", "--feed", "data.npz", "--fetch", "loss"]
    assert main(feed) == 0
    assert capsys.readouterr().out.startswith("loss:0 = 0.")
    assert main([*feed, "--checkpoint", "run", "--resume", "--steps", "10"]) == 0
    assert "saved run/model.ckpt-20" in capsys.readouterr().err
    found = train(tmp_path / "run", 30)
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_the_graph_stays_as_it_is_and_the_file_says_what_a_step_runs(tmp_path: Path) -> None:
    graph, _, step = regression()
    before = graph.version, len(graph)
    with fe.blocking.Session(graph) as session:
        fe.blocking.loop(
            session, [step], steps=1, feeds=lambda number: DATA, hooks=[fe.train.Checkpoints(tmp_path)]
        )
    assert (graph.version, len(graph)) == before
    meta = MetaGraphDef.FromString((tmp_path / "model.ckpt-1.meta").read_bytes())
    assert list(meta.collection_def["train_op"].node_list.value) == [step.name]
    assert len(graph.collection("train_op")) == 2
    assert meta.saver_def.max_to_keep == 5
    saver = fe.blocking.Saver.from_meta_graph(tmp_path / "model.ckpt-1.meta")
    with fe.blocking.Session(fe.Graph.load(tmp_path / "model.ckpt-1.meta")) as session:
        assert "weight" in saver.restore(session, tmp_path)


def test_functions_as_steps_leave_the_list_as_it_is(tmp_path: Path) -> None:
    graph, _, _ = regression()

    async def step(session: fe.Session, number: int) -> None:
        return None

    with fe.blocking.Session(graph) as session:
        fe.blocking.loop(session, step, steps=1, hooks=[fe.train.Checkpoints(tmp_path)])
    meta = MetaGraphDef.FromString((tmp_path / "model.ckpt-1.meta").read_bytes())
    assert len(meta.collection_def["train_op"].node_list.value) == 2


def test_a_graph_that_has_grown_is_written_anew(tmp_path: Path) -> None:
    graph, _, _ = regression()
    saver = fe.blocking.Saver()
    with fe.blocking.Session(graph) as session:
        session.initialize()
        path = tmp_path / "a"

        def written(**options: Any) -> bytes | None:
            prefix = saver.save(session, path, **options)
            meta = Path(f"{prefix}.meta")
            content = meta.read_bytes() if meta.exists() else None
            meta.unlink(missing_ok=True)
            return content

        assert written() is None
        first = written(write_meta_graph=True)
        assert first is not None
        assert written(write_meta_graph=True) == first
        assert written() is None
        graph.variable(1.0, name="late")
        session.initialize()
        second = written(write_meta_graph=True)
        assert second is not None
    names = {node.name for node in MetaGraphDef.FromString(second).graph_def.node}
    assert names - {node.name for node in MetaGraphDef.FromString(first).graph_def.node} >= {"late"}


def test_what_a_collection_lists_since_is_written_too(tmp_path: Path) -> None:
    graph, loss, _ = regression()
    saver = fe.blocking.Saver()
    lists = []
    with fe.blocking.Session(graph) as session:
        session.initialize()
        for _ in range(2):
            prefix = saver.save(session, tmp_path / "a", write_meta_graph=True)
            meta = described(prefix)
            lists.append(list(meta.collection_def["mine"].node_list.value))
            graph.add_to_collection("mine", loss)
    assert lists == [[], [loss.name]]


async def test_the_file_lists_the_variables_of_its_own_graph(tmp_path: Path) -> None:
    """The graph has grown between the snapshot and the file."""
    graph, _, _ = regression()
    saver = fe.train.Saver().add_to(graph)
    async with fe.Session(graph) as session:
        await session.initialize()
        snapshot = saver.snapshot(session)
        graph.variable(1.0, name="late")
        prefix = await saver.write(snapshot, tmp_path / "a")
    meta = described(prefix)
    assert "late" not in {node.name for node in meta.graph_def.node}
    listed = meta.collection_def["variables"].bytes_list.value
    assert {"weight", "global_step"} <= {VariableDef.FromString(each).variable_name[:-2] for each in listed}
    assert not any(b"late" in each for each in listed)


def test_a_saver_of_two_loops_and_two_graphs_writes_what_each_runs(tmp_path: Path) -> None:
    saver = fe.train.Saver()

    async def alone(session: fe.Session, number: int) -> None:
        return None

    found: list[tuple[list[str], list[str]]] = []
    first, second = regression(), regression()
    first[0].constant(1.0, name="only_in_the_first")
    second[0].constant(1.0, name="only_in_the_second")
    sgd = [each for each in first[0].collection("train_op") if each is not first[2]]
    for graph, step in ((first[0], first[2]), (second[0], second[2]), (second[0], alone), (first[0], sgd)):
        directory = tmp_path / str(len(found))
        hooks = [fe.train.Checkpoints(directory, saver=saver)]
        feeds = None if step is alone else lambda number: DATA
        with fe.blocking.Session(graph) as session:
            fe.blocking.loop(session, step, steps=1, feeds=feeds, hooks=hooks, quiet=True)
        meta = described(directory / "model.ckpt-1")
        only = [node.name for node in meta.graph_def.node if node.name.startswith("only_in")]
        found.append((only, list(meta.collection_def["train_op"].node_list.value)))
    listed = [each.name for each in second[0].collection("train_op")]
    assert found == [
        (["only_in_the_first"], [first[2].name]),
        (["only_in_the_second"], [second[2].name]),
        (["only_in_the_second"], listed),
        (["only_in_the_first"], [sgd[0].name]),
    ]


def test_a_saver_of_two_graphs_without_collections_writes_each(tmp_path: Path) -> None:
    saver = fe.blocking.Saver()
    for name in ("first", "second"):
        graph = fe.Graph()
        variable = graph.ops.VariableV2(shape=[], dtype="float32", name=name)
        graph.ops.Assign(variable, graph.constant(1.0), name="init")
        with fe.blocking.Session(graph) as session:
            session.run([], targets=["init"])
            prefix = saver.save(session, tmp_path / "a", write_meta_graph=True)
        assert name in {node.name for node in described(prefix).graph_def.node}


def test_a_checkpoint_without_its_meta_is_not_the_latest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state file names a checkpoint when all its files are there."""

    def full(path: str, *arguments: Any, **options: Any) -> None:
        assert path.endswith("a-2.meta")
        raise OSError(errno.ENOSPC, "no space", path)

    graph, _, _ = regression()
    saver = fe.blocking.Saver()
    with fe.blocking.Session(graph) as session:
        session.initialize()
        prefix = saver.save(session, tmp_path / "a", global_step=1, write_meta_graph=True)
        monkeypatch.setattr(folder, "replace_file", full)
        with pytest.raises(fe.errors.OpError, match="no space"):
            saver.save(session, tmp_path / "a", global_step=2, write_meta_graph=True)
    assert fe.train.latest_checkpoint(str(tmp_path)) == prefix


def test_it_is_removed_with_its_checkpoint(tmp_path: Path) -> None:
    graph, _, _ = regression()
    saver = fe.blocking.Saver(max_to_keep=2)
    with fe.blocking.Session(graph) as session:
        session.initialize()
        for number in range(4):
            saver.save(session, tmp_path / "a", global_step=number, write_meta_graph=True)
    assert sorted(each.name for each in tmp_path.glob("*.meta")) == ["a-2.meta", "a-3.meta"]


def test_a_graph_that_cannot_be_written_is_saved_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from flowengine.train import meta_graphs

    def fails(*arguments: Any, **options: Any) -> bytes:
        raise ValueError("too large")

    monkeypatch.setattr(meta_graphs, "describe_saver", fails)
    with caplog.at_level(logging.WARNING):
        train(tmp_path, 1)
    assert "without its .meta" in caplog.text
    assert sorted(each for each in os.listdir(tmp_path) if each.endswith(("index", "meta"))) == [
        "model.ckpt-0.index",
        "model.ckpt-1.index",
    ]


def test_a_meta_graph_that_a_saver_was_made_from_stays(tmp_path: Path) -> None:
    graph, _, _ = regression()
    content = graph.to_meta_graph().SerializeToString(deterministic=True)
    saver = fe.train.Saver.from_meta_graph(content)
    with fe.blocking.Session(graph) as session:
        session.initialize()
        prefix = session.call(saver.save, tmp_path / "a", write_meta_graph=True)
    assert Path(f"{prefix}.meta").read_bytes() == content
