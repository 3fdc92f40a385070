"""Graphs of one node each from the records of ops: python -m tests.testing.fuzz.bases FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.conformance.node_cases import cases
from tests.oprecords.found import RECORDS


def write(folder: Path) -> int:
    """Write the good samples of every op; how many there are."""
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for record in RECORDS:
        samples = [each for each in cases(record) if each.why.startswith("sample")]
        good = [each.graph for each in samples if each.graph is not None]
        for number, graph in enumerate(good[:4]):
            (folder / f"{record.op}-{number}.pb").write_bytes(graph)
            count += 1
    return count


if __name__ == "__main__":
    print(f"{write(Path(sys.argv[1]))} graphs of one node")
