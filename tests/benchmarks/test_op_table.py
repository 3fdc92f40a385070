"""The table of ops: each of its graphs runs, and its rows say what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import flowengine as fe
from flowengine.ops.load import registry
from tests.benchmarks.op_table import FAMILIES, OPS, read_results, table
from tests.benchmarks.op_tables.bench import ELEMENTS, Bench


def test_the_ops_are_many_and_each_stands_in_one_family() -> None:
    assert len(OPS) >= 120
    assert len(OPS) == sum(len(family) for family in FAMILIES.values())
    assert all(op in registry() for op in OPS)


@pytest.mark.parametrize("family", FAMILIES)
async def test_every_op_of_a_family_runs(family: str) -> None:
    for op, one in FAMILIES[family].items():
        work = Bench().workload(op, one, ELEMENTS[0], 2)
        graph = fe.Graph.from_graph_def(work.graph)
        assert op in {node.op for node in graph}
        async with fe.Session(graph) as session:
            for run in [*work.setup, work.run]:
                feeds: dict[Any, Any] = dict(run.feeds)
                await session.run([], feeds, targets=list(run.targets))


def test_the_table_has_a_row_an_op_and_a_column_a_size(tmp_path: Path) -> None:
    path = tmp_path / "results"
    assert read_results(path) == {}
    path.write_text(
        "".join(f'{{"name": "Mul {size}", "step": [{ours}, 2.0]}}\n' for size, ours in ((16, 1.0), (32, 4.0)))
    )
    found = read_results(path)
    assert found["Mul 32"] == {"name": "Mul 32", "step": [4.0, 2.0]}
    lines = table(list(found.values())).splitlines()
    assert "| Mul | 0.50 | 2.00 |" in lines
    assert lines[-1].startswith("Geometric mean 1.00, largest 2.00")
