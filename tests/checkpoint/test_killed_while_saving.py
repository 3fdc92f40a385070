"""A process that is killed while it saves over and over leaves a checkpoint that is whole."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np
import pytest

from flowengine.checkpoint import BundleReader
from tests.effort import examples

SAVES_FOR_EVER = """
import sys
import numpy as np
from flowengine.checkpoint import BundleWriter
from flowengine.core import dtypes

number = int(sys.argv[2])
while True:
    number += 1
    with BundleWriter(sys.argv[1]) as writer:
        for name in (b"a", b"b", b"c"):
            writer.add(name, np.full(50_000, number), dtypes.int64)
    print(number, flush=True)
"""

_MOMENTS: Final = examples(50)


@pytest.mark.slow
def test_what_a_killed_process_leaves_is_whole(root: Path, tmp_path: Path) -> None:
    prefix = str(tmp_path / "model")
    number = 0
    for moment in range(_MOMENTS):
        process = subprocess.Popen(
            [sys.executable, "-c", SAVES_FOR_EVER, prefix, str(number)],
            cwd=root,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        reported = int(process.stdout.readline())
        # Somewhere in the saves that follow the first one, each of which takes milliseconds.
        until = perf_counter() + random.Random(moment).random() * 0.03
        while perf_counter() < until:
            pass
        process.kill()
        rest = process.communicate()[0].split()
        reported = int(rest[-1]) if rest else reported
        with BundleReader(prefix) as reader:
            values = [reader.read(name) for name in reader.names()]
        number = int(values[0][0])
        assert number >= reported
        assert all(np.array_equal(value, np.full(50_000, number)) for value in values)
        assert len(values) == 3
