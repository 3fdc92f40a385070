"""Thousands of damaged graphs: each is read or refused, in bounded memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.effort import examples

#: Enough for the interpreter, NumPy and the op definitions, with room for what a small graph may hold.
MEMORY_BYTES = 2_000_000_000
#: Graphs: ten thousand at night.
COUNT = examples(10_000)


@pytest.mark.slow
def test_damaged_graphs_are_read_or_refused(root: Path) -> None:
    recorded = sorted((root / "tests" / "conformance" / "recorded").glob("*/graph.pb"))
    small = [str(path) for path in recorded if path.stat().st_size < 30_000]
    assert small
    environment = {**os.environ, "PYTHONPATH": str(root), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [
            sys.executable,
            str(Path(__file__).with_name("mutate.py")),
            str(COUNT),
            "1",
            str(MEMORY_BYTES),
            *small,
        ],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    outcomes = json.loads(done.stdout)
    assert sum(outcomes.values()) == COUNT
    # Damage that always or never shows would mean that nothing is tried.
    assert outcomes["read"] > COUNT // 20
    assert outcomes["refused"] > COUNT // 5
