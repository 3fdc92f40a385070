"""Each barrier of the sources is needed, and the tests' way of running threads sees one that is left out."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from flowengine.kernels.cuda import batch_norm, softmax, sources
from tests.kernels.cuda.closeness import Floats, floats
from tests.kernels.cuda.host_compiler import needs_compiler
from tests.kernels.cuda.host_launcher import HostLauncher

FAMILIES = ("batch_norm", "softmax")
_BARRIER = re.compile(r"__syncthreads\(\);")
BARRIERS = len(_BARRIER.findall(sources.source(*FAMILIES)))


def results(folder: Path, left_out: int | None) -> list[Floats]:
    """Return the results of kernels that reduce, in both orders of their threads, without one barrier."""

    def changed(text: str) -> str:
        if left_out is None:
            return text
        found = list(_BARRIER.finditer(text))[left_out]
        return text[: found.start()] + text[found.end() :]

    folder.mkdir()
    launcher = HostLauncher(folder, *FAMILIES, changed=changed)
    x, one = floats(1, "float32", 6, 5, 7, 40), np.ones(40, np.float32)
    made: list[Floats] = []
    for launcher.backwards in (False, True):
        made += [
            softmax.softmax(launcher, x.reshape(-1, 280)),
            *softmax.cross_entropy(launcher, x.reshape(-1, 40), np.abs(x).reshape(-1, 40)),
            *softmax.sparse_cross_entropy(launcher, x.reshape(-1, 40), np.zeros(210, np.int64)),
            batch_norm.by_batch_statistics(launcher, x, one, one, epsilon=0.1)[1].biased,
            batch_norm.gradients(launcher, x, x, one, one, one, epsilon=0.1, is_training=True)[1],
        ]
    return made


@needs_compiler
def test_no_barrier_can_be_left_out(tmp_path: Path) -> None:
    assert BARRIERS >= 5
    wanted = [array.tobytes() for array in results(tmp_path / "whole", None)]
    half = len(wanted) // 2
    assert wanted[:half] == wanted[half:]
    for number in range(BARRIERS):
        found = [array.tobytes() for array in results(tmp_path / str(number), number)]
        assert found != wanted, f"nothing is lost without barrier {number}"


@needs_compiler
def test_a_barrier_that_not_all_threads_reach(tmp_path: Path) -> None:
    def changed(text: str) -> str:
        return text.replace("room[threadIdx.x] = value;", "if (threadIdx.x > 40) return value;", 1)

    launcher = HostLauncher(tmp_path, "softmax", changed=changed)
    with pytest.raises(AssertionError, match="softmax_float32: some threads never came to a barrier"):
        softmax.softmax(launcher, floats(1, "float32", 2, 300))
