"""`flowengine gradients`: the graph that is written computes the derivative."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

import flowengine as fe
from flowengine.cli.gradients import command


def test_a_graph_is_extended(tmp_path: Path) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="x")
    other = graph.placeholder("float64", [], name="other")
    graph.ops.Mul(x, x, name="y")
    source, target = tmp_path / "graph.pb", tmp_path / "out.pb"
    source.write_bytes(graph.to_graph_def().SerializeToString())
    said = CliRunner().invoke(
        command, [str(source), "--of", "y", "--by", "x", "--by", other.name, "-o", str(target)]
    )
    assert said.exit_code == 0, said.output
    first, second = said.output.splitlines()
    assert second == "other:0: no gradient, nothing leads from it to y"
    with fe.blocking.Session(fe.Graph.load(target)) as session:
        assert session.run(first.partition(": ")[2], {"x:0": 3.0}) == 6.0
