"""Savers of MetaGraphDefs: what TensorFlow's nodes save, done without them or by running them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.checkpoint import BundleReader, V1Reader, open_checkpoint
from flowengine.graphs.saving import SaverNodes
from flowengine.ir.graphfile import load_meta_graph
from flowengine.train.meta_graphs import read_meta_graph

THEIRS = Path(__file__).with_name("run_of_tensorflow")
META = THEIRS / "model.ckpt-50.meta"


def meta_graph() -> Any:
    return load_meta_graph(META.read_bytes()).meta_graph


def graph_of(meta: Any) -> fe.Graph:
    return fe.Graph.from_graph_def(meta.SerializeToString())


class Running(fe.train.Saver):
    """A saver that runs its nodes, though it need not."""

    def _find(self, graph: Any) -> None:
        return None


def contents(prefix: str) -> dict[bytes, tuple[str, bytes]]:
    with open_checkpoint(prefix) as reader:
        return {name: (reader.dtype(name).name, reader.read(name).tobytes()) for name in reader.names()}


@pytest.mark.parametrize("running", [False, True])
async def test_a_run_goes_on_with_the_losses_it_would_have_had(running: bool, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(THEIRS, tmp_path / "run"))
    losses = json.loads((folder / "losses.json").read_text())
    saver = (Running if running else fe.train.Saver).from_meta_graph(META)
    async with fe.Session(graph_of(meta_graph())) as session:
        assert saver.runs_nodes(session) is running
        await saver.restore(session, folder)
        async with fe.train.save_every(
            saver, session, folder / "model.ckpt", steps=50, global_step="global_step"
        ) as saves:
            found = []
            for _ in range(100):
                found.append(float(await session.run("loss:0", targets=["train"])))
                await saves.after_step()
    assert found == losses[50:]
    assert [Path(each).name for each in saver.checkpoints] == [
        "model.ckpt-50",
        "model.ckpt-100",
        "model.ckpt-150",
    ]
    assert (folder / "model.ckpt-150.meta").stat().st_size > 10_000


async def test_nodes_and_files_give_the_same(tmp_path: Path) -> None:
    saver = fe.train.Saver.from_meta_graph(META)
    async with fe.Session(graph_of(meta_graph())) as session:
        await saver.restore(session, THEIRS)
        one = await saver.save(session, tmp_path / "one")
        other = await Running.from_meta_graph(META).save(session, tmp_path / "other")
        assert contents(one) == contents(other) == contents(str(THEIRS / "model.ckpt-50"))
        with BundleReader(one) as ours, BundleReader(str(THEIRS / "model.ckpt-50")) as theirs:
            assert {n: ours.entry(n).slices for n in ours.names()} == {
                n: theirs.entry(n).slices for n in theirs.names()
            }


async def test_a_saver_of_the_first_format_writes_that(tmp_path: Path) -> None:
    meta = meta_graph()
    meta.saver_def.version = 1
    saver = fe.train.Saver.from_meta_graph(meta, max_to_keep=1)
    async with fe.Session(graph_of(meta)) as session:
        await saver.restore(session, THEIRS)
        first = await saver.save(session, tmp_path / "m", global_step=1)
        second = await saver.save(session, tmp_path / "m", global_step=2)
        with V1Reader(second) as reader:
            assert b"v/Momentum" in reader
        assert saver.checkpoints == [second] != [first]
        assert contents(second) == contents(str(THEIRS / "model.ckpt-50"))
        assert len(await saver.restore(session, tmp_path)) == 9


@pytest.mark.parametrize(("written", "hours"), [(0.0, None), (0.5, 0.5), (10000.0, 10000.0)])
def test_how_often_a_checkpoint_stays_for_good_is_read(written: float, hours: float | None) -> None:
    meta = meta_graph()
    meta.saver_def.keep_checkpoint_every_n_hours = written
    assert read_meta_graph(meta).options["keep_checkpoint_every_n_hours"] == hours


async def test_without_a_saver_def_the_collections_tell(tmp_path: Path) -> None:
    meta = meta_graph()
    meta.ClearField("saver_def")
    kept = [
        entry for entry in meta.collection_def["variables"].bytes_list.value if b"part_" not in bytes(entry)
    ]
    with pytest.raises(fe.errors.InvalidArgumentError, match="part of a larger variable"):
        fe.train.Saver.from_meta_graph(meta)
    del meta.collection_def["variables"].bytes_list.value[:]
    meta.collection_def["variables"].bytes_list.value.extend(kept)
    saver = fe.train.Saver.from_meta_graph(meta.SerializeToString())
    async with fe.Session(graph_of(meta)) as session:
        assert sorted(saver.names(session)) == ["b", "b/Momentum", "global_step", "w", "w/Momentum"]
        assert await saver.restore(session, THEIRS, names=["w*"]) == ["w", "w/Momentum"]


async def test_what_the_nodes_do_besides_is_done(tmp_path: Path) -> None:
    """A node between the file and a variable is no plain restore, so the nodes are run."""
    meta = meta_graph()
    (assign,) = [node for node in meta.graph_def.node if node.name == "save/Assign"]
    source, assign.input[1] = assign.input[1], "save/negative"
    negative = meta.graph_def.node.add(name="save/negative", op="Neg", input=[source])
    negative.attr["T"].type = 9  # int64: it is the global step's
    saver = fe.train.Saver.from_meta_graph(meta)
    async with fe.Session(graph_of(meta)) as session:
        assert saver.runs_nodes(session)
        await saver.restore(session, THEIRS)
        assert await session.run("global_step:0") == -50
        with pytest.raises(fe.errors.InvalidArgumentError, match="name no subset"):
            await saver.restore(session, THEIRS, names=["w"])
        with pytest.raises(fe.errors.InvalidArgumentError, match="must be run"):
            saver.snapshot(session)
        with pytest.raises(fe.errors.InvalidArgumentError, match="only after they have run"):
            saver.names(session)


def test_what_is_no_meta_graph_is_told(tmp_path: Path) -> None:
    with pytest.raises(fe.errors.NotFoundError, match="none"):
        fe.train.Saver.from_meta_graph(tmp_path / "none.meta")
    with pytest.raises(fe.errors.InvalidArgumentError):
        fe.train.Saver.from_meta_graph(b"\xff\xff\xff")
    meta = meta_graph()
    meta.saver_def.restore_op_name = ""
    with pytest.raises(fe.errors.InvalidArgumentError, match="must name"):
        SaverNodes.of(meta.saver_def)


async def test_a_saver_added_to_a_graph_goes_on_elsewhere(tmp_path: Path) -> None:
    graph = fe.Graph()
    w = graph.ops.VariableV2(shape=[2], dtype="float32", name="w")
    h = graph.ops.VarHandleOp(shape=[], dtype="int64", shared_name="h", name="h")
    graph.group(graph.ops.Assign(w, [1.0, 2.0]), graph.ops.AssignVariableOp(h, np.int64(7)), name="init")
    saver = fe.train.Saver(max_to_keep=3)
    saver.add_to(graph)
    async with fe.Session(graph) as session:
        await session.run((), targets=["init"])
        assert not saver.runs_nodes(session)
        prefix = await saver.save(session, tmp_path / "m", global_step=1)
        graph.ops.ReadVariableOp(h, dtype="int64", name="later")
        await saver.save(session, tmp_path / "m", global_step=2)
    first, second = (load_meta_graph((tmp_path / f"m-{n}.meta").read_bytes()).meta_graph for n in (1, 2))
    assert first is not None
    assert second is not None
    assert len(second.graph_def.node) == len(first.graph_def.node) + 1
    again = fe.train.Saver.from_meta_graph(tmp_path / "m-2.meta")
    async with fe.Session(graph_of(second)) as session:
        assert sorted(await again.restore(session, prefix)) == ["h", "w"]
        assert await session.run("later:0") == 7
    async with fe.Session(graph_of(second)) as session:
        feeds = {second.saver_def.filename_tensor_name: prefix.encode()}
        await session.run((), feeds, targets=[second.saver_def.restore_op_name])
        assert (await session.run("w:0")).tolist() == [1, 2]
