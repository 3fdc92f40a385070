"""Good graphs of every op to be damaged: python -m tests.testing.fuzz.bases FOLDER.

Of an op that has a record of its own: graphs of that node alone. Of another: the smallest recorded graphs
that hold it, where the recorded material is there. Of the rest: graphs whose arguments are drawn.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from flowengine.cli.ops import matching
from flowengine.ir.graphdef import parse_graph_def
from flowengine.testing.recorded import find_cases, open_case
from tests.conformance.node_cases import cases
from tests.oprecords.found import RECORDS
from tests.testing.fuzz import drawn

#: Of an op so many graphs.
_COUNT = 4
_BYTES_MAX = 100_000


def of_records() -> Iterator[tuple[str, list[bytes]]]:
    """(op, graphs of one node) of each op that has a record."""
    for record in RECORDS:
        samples = [each for each in cases(record) if each.why.startswith("sample")]
        good = [each.graph for each in samples if each.graph is not None]
        yield record.op, good[:_COUNT]


def of_recorded_graphs(wanted: set[str], shared: Path) -> dict[str, list[bytes]]:
    """{op: the smallest recorded graphs that hold it}, of these ops."""
    found: dict[str, list[bytes]] = {}
    for address in find_cases(shared / "conformance" / "open", shared / "zoo" / "open"):
        graph = open_case(address).graph
        if len(graph) > _BYTES_MAX:
            continue
        definition = parse_graph_def(graph)
        nodes = [*definition.node, *(node for each in definition.library.function for node in each.node_def)]
        for op in wanted & {node.op for node in nodes}:
            kept = found.setdefault(op, [])
            kept.append(graph)
            kept.sort(key=len)
            del kept[_COUNT:]
    return found


def write(folder: Path, shared: Path) -> tuple[int, list[str]]:
    """Write them; how many there are, and the ops with a kernel that no graph was found for."""
    folder.mkdir(parents=True, exist_ok=True)
    graphs = {op: good for op, good in of_records() if good}
    missing = {each.name for each in matching("*")} - graphs.keys()
    if (shared / "conformance").is_dir():
        graphs |= of_recorded_graphs(missing, shared)
    runs_here = frozenset(each.name for each in matching("*"))
    for op in sorted(missing - graphs.keys()):
        if good := drawn.graphs(op, runs_here, _COUNT):
            graphs[op] = good
    for op, good in graphs.items():
        for number, graph in enumerate(good):
            (folder / f"{op}-{number}.pb").write_bytes(graph)
    return sum(map(len, graphs.values())), sorted(missing - graphs.keys())


if __name__ == "__main__":
    count, left = write(Path(sys.argv[1]), Path(os.environ.get("FLOWENGINE_SHARED", "../shared")))
    print(f"{count} graphs; none of {len(left)} ops that run here: {', '.join(left)}")
