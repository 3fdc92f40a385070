"""Graphs that TensorFlow and its users wrote: all are read, and written as they were."""

from __future__ import annotations

import io
import json
import tarfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowengine.ir.graph import NodeGraph
from flowengine.ir.graphdef import graph_from_def, graph_to_def
from flowengine.ir.graphfile import load_saved_model, parse_graph_def
from flowengine.ops.load import registry

#: One conformance case in so many: the suite is to stay quick.
SAMPLE = 8


def round_trip(data: bytes) -> NodeGraph:
    original = parse_graph_def(data)
    graph = graph_from_def(original, registry())
    written = graph_to_def(graph)
    as_read = original.SerializeToString(deterministic=True)
    assert written.SerializeToString(deterministic=True) == as_read
    # All of it is known by name.
    written.DiscardUnknownFields()
    assert len(written.SerializeToString(deterministic=True)) == len(as_read)
    return graph


def recorded_graphs(shared: Path) -> Iterator[bytes]:
    for packed in sorted((shared / "conformance" / "open").glob("*.tar")):
        with tarfile.open(packed) as members:
            names = sorted(name for name in members.getnames() if name.endswith(".zip"))
            for name in names[::SAMPLE]:
                member = members.extractfile(name)
                assert member is not None
                with zipfile.ZipFile(io.BytesIO(member.read())) as case:
                    yield case.read("graph.pb")


def test_our_own_recorded_graphs(root: Path) -> None:
    found = sorted((root / "tests" / "conformance" / "recorded").glob("*/graph.pb"))
    assert found
    for path in found:
        round_trip(path.read_bytes())


@pytest.mark.conformance
def test_whole_models(shared: Path) -> None:
    cases = sorted((shared / "zoo" / "open").glob("*/case.json"))
    assert cases
    for case in cases:
        about = json.loads(case.read_text())
        graph = round_trip((case.parent / about["graph"]).read_bytes())
        for folder in case.parent.glob("**/saved_model.pb*"):
            assert len(load_saved_model(folder.parent).graph_def.node) > 0
        for run in about["runs"]:
            for name in run["fetches"]:
                assert name.split(":")[0] in graph


@pytest.mark.conformance
def test_graphs_of_the_corpus(shared: Path) -> None:
    count = sum(1 for data in recorded_graphs(shared) if round_trip(data) is not None)
    assert count > 0


@pytest.mark.conformance
@pytest.mark.slow
def test_a_graph_of_36_000_nodes_is_read_in_about_a_second(shared: Path) -> None:
    """Expected: 36,074 nodes at 15 us each, 0.5 s alone on a core; 5 s leaves room for a busy machine."""
    data = (shared / "zoo" / "big" / "lanes_36074_nodes.pb").read_bytes()
    registry()
    start = time.process_time()
    graph = round_trip(data)
    assert len(graph) == 36_074
    assert time.process_time() - start < 5
