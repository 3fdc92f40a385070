"""Good graphs of every op to be damaged: python -m tests.testing.fuzz.bases FOLDER.

Of an op that has a record of its own: graphs of that node alone. Of another: the smallest recorded graphs
that hold it, where the recorded material is there. Of many: one that is written down. Of the rest: graphs
whose arguments are drawn.
Of all these those stay whose arguments are accepted when they are played as they are; an op that has none
gets drawn ones.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from flowengine.cli.ops import matching
from flowengine.ir.graphdef import parse_graph_def
from tests.conformance.node_cases import cases
from tests.effort import share
from tests.oprecords.found import RECORDS
from tests.testing.fuzz import built, drawn
from tests.tools.fuzz import campaign
from tests.tools.recorded import find_cases, open_case

#: Of an op so many graphs.
_COUNT = 4
_BYTES_MAX = 100_000


def of_records(wanted: Callable[[str], bool]) -> Iterator[tuple[str, list[bytes]]]:
    """(op, graphs of one node) of each of these ops that has a record."""
    for record in filter(lambda each: wanted(each.op), RECORDS):
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


def write(folder: Path, shared: Path, one_in: int = 1) -> tuple[int, list[str]]:
    """Write them; how many there are, and the ops with a kernel that no graph was found for.

    one_in   only those of one op in so many, except at night
    """

    def wanted(op: str) -> bool:
        return bool(share([op], one_in))

    folder.mkdir(parents=True, exist_ok=True)
    graphs = {op: good for op, good in of_records(wanted) if good}
    missing = {each.name for each in matching("*") if wanted(each.name)} - graphs.keys()
    if (shared / "conformance").is_dir():
        graphs |= of_recorded_graphs(missing, shared)
    runs_here = frozenset(each.name for each in matching("*"))
    for op in sorted(missing - graphs.keys() - built.BUILT.keys()):
        if good := drawn.graphs(op, runs_here, _COUNT):
            graphs[op] = good
    for op in filter(wanted, built.BUILT):
        graphs[op] = [*built.graphs(op), *graphs.get(op, [])]
    for op, good in graphs.items():
        for number, graph in enumerate(good):
            (folder / f"{op}-{number}.pb").write_bytes(graph)
    return sum(map(len, graphs.values())), sorted(missing - graphs.keys())


def accepted_among(graphs: dict[str, bytes], folder: Path) -> tuple[set[str], list[str]]:
    """The names of those graphs whose arguments are accepted, and what the others brought to light.

    Each is played once in a child under limits.
    """
    given = folder / "given"
    given.mkdir(parents=True)
    for name, graph in graphs.items():
        # Each in a group of its own, so that each is played once.
        (given / f"{name}-0.pb").write_bytes(graph)
    tally = campaign.run(
        "calls", 0, len(graphs), folder / "found", bases=given, as_they_are=True, hang_seconds=120
    )
    names = sorted(graphs)
    found = {names[row["seed"]]: row["finding"] for row in tally.findings}
    accepted = {name for name, (_, accepted) in tally.groups.items() if accepted}
    return accepted - found.keys(), [f"{name}: {finding}" for name, finding in found.items()]


def keep_accepted(folder: Path) -> tuple[list[str], list[str]]:
    """Of each op only the graphs that are accepted stay, where there is one.

    The ops that have none, and what was found on the way.
    """
    runs_here = frozenset(each.name for each in matching("*"))
    graphs = {path.stem: path.read_bytes() for path in sorted(folder.iterdir())}
    with tempfile.TemporaryDirectory() as aside:
        accepted, found = accepted_among(graphs, Path(aside, "first"))
        ops = {name.rpartition("-")[0] for name in accepted}
        more = {
            f"{op}-{_COUNT + 1 + number}": graph
            for op in sorted(runs_here - ops)
            for number, graph in enumerate(drawn.graphs(op, runs_here, _COUNT))
        }
        new, found_later = accepted_among(more, Path(aside, "second")) if more else (set(), [])
    for name in new:
        (folder / f"{name}.pb").write_bytes(more[name])
    ops |= {name.rpartition("-")[0] for name in new}
    for name in graphs.keys() - accepted:
        if name.rpartition("-")[0] in ops:
            (folder / f"{name}.pb").unlink()
    return sorted(runs_here - ops), found + found_later


if __name__ == "__main__":
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    count, left = write(Path(sys.argv[1]), Path(os.environ.get("FLOWENGINE_SHARED", "../shared")))
    refused, found = keep_accepted(Path(sys.argv[1]))
    for each in found:
        print(f"found: {each}")
    print(f"of {len(refused)} ops no graph is accepted as it is: {', '.join(refused)}")
    print(f"{count} graphs; none of {len(left)} ops that run here: {', '.join(left)}")
