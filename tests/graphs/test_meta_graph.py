"""MetaGraphDefs of graphs that were built here: collections are written, and found when they are read."""

from __future__ import annotations

import copy
import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format

import flowengine as fe


def built() -> fe.Graph:
    graph = fe.Graph()
    x = graph.placeholder("float32", [2], name="x")
    w = graph.variable([1.0, 2.0], name="w")
    graph.variable([3.0], name="r", use_resource=False, trainable=False)
    graph.variable(
        [1.0, 2.0, 3.0], name="p", partitioner=fe.partitioners.fixed_size(2), collections=["local_variables"]
    )
    loss = fe.reduce_sum(fe.square(w - x), name="loss")
    graph.add_to_collection("losses", loss)
    graph.add_to_collection("numbers", 3)
    graph.add_to_collection("rates", 0.5)
    graph.add_to_collection("words", "three")
    fe.optimizers.AdaGrad(0.5).minimize(loss, name="train")
    return graph


def _from_file(meta: Any, folder: Path) -> fe.Graph:
    path = folder / "graph.meta"
    path.write_bytes(meta.SerializeToString())
    return fe.Graph.load(path)


#: Ways to read a MetaGraphDef.
WAYS: dict[str, Callable[[Any, Path], fe.Graph]] = {
    "file": _from_file,
    "bytes": lambda meta, _: fe.Graph.from_graph_def(meta.SerializeToString()),
    "text": lambda meta, _: fe.Graph.from_graph_def(text_format.MessageToString(meta)),
    "message": lambda meta, _: fe.Graph.from_graph_def(meta),
}


@pytest.mark.parametrize("way", WAYS)
def test_collections_come_back(way: str, tmp_path: Path) -> None:
    graph = built()
    again = WAYS[way](graph.to_meta_graph(), tmp_path)
    assert again.to_meta_graph() == graph.to_meta_graph()
    assert [each.name for each in again.collection("variables")] == ["w:0", "r:0", "w/Adagrad:0"]
    assert again.collection("trainable_variables")[0] is again.collection("variables")[0]
    assert [each.save_slice.spec for each in again.collection("local_variables")] == ["3 0,2", "3 2,1"]
    assert again.collection("losses") == [again.tensor("loss:0")]
    assert again.collection("train_op") == [again.operation("train")]
    found = [again.collection(key) for key in ("numbers", "rates", "words")]
    assert found == [[3], [0.5], [b"three"]]
    with fe.blocking.Session(again) as session:
        assert len(session.initialize()) == 5
        session.run([], {"x:0": [0.0, 0.0]}, targets=["train"])
        assert session.run("loss:0", {"x:0": [1.0, 2.0]}) > 0


def test_a_part_of_a_graph_keeps_what_names_the_rest_as_it_is(tmp_path: Path) -> None:
    meta = built().to_meta_graph()
    kept = [node for node in meta.graph_def.node if not node.name.startswith(("w", "train", "loss"))]
    del meta.graph_def.node[:]
    meta.graph_def.node.extend(node for node in kept if all(i.partition(":")[0] in "xrp" for i in node.input))
    (tmp_path / "part.meta").write_bytes(meta.SerializeToString())
    part = fe.Graph.load(tmp_path / "part.meta")
    assert part.collection("losses") == ["loss:0"]
    assert isinstance(part.collection("variables")[0], bytes)


def test_what_no_message_holds_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    graph = fe.Graph()
    graph.add_to_collection("things", object())
    graph.add_to_collection(("a", "pair"), 1)
    with caplog.at_level(logging.WARNING, "flowengine.graphs"):
        assert not graph.to_meta_graph().collection_def
    assert "'things' is left out" in caplog.text


@pytest.mark.parametrize("again", [copy.copy, lambda graph: pickle.loads(pickle.dumps(graph))])
def test_a_copy_has_collections_of_its_own(again: Callable[[fe.Graph], fe.Graph]) -> None:
    graph = built()
    other = again(graph)
    assert other.to_meta_graph().collection_def == graph.to_meta_graph().collection_def
    listed = [*other.collection("variables"), *other.collection("losses"), *other.collection("train_op")]
    assert all(each.graph is other for each in listed)
    graph.variable(1.0)
    assert len(other.collection("variables")) == 3
    with fe.blocking.Session(other) as session:
        assert len(session.initialize()) == 5
