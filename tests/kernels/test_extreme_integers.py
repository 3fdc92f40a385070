"""No integer that an op takes makes a kernel run for ever, or take all memory: see `extreme_integers.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.kernels.common.windows import Windows, windows
from tests.effort import IS_NIGHTLY


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux for the size of the process")
def test_each_integer_as_large_as_can_be(root: Path, tmp_path: Path) -> None:
    # In the usual run, a tenth of the cases of each op.
    one_in = "1" if IS_NIGHTLY else "10"
    log, ended = tmp_path / "log", False
    log.touch()
    first, wrong, lines = 0, list[str](), list[str]()
    while not ended:
        done = subprocess.run(
            [sys.executable, "-m", "tests.kernels.extreme_integers", str(first), str(log), one_in],
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )
        lines = log.read_text().splitlines()
        ended = lines[-1:] == ["end"]
        if not ended:
            begun = [line for line in lines if line[:1].isdigit()]
            assert begun, done.stderr
            wrong.append(f"{begun[-1]} ended its process with {done.returncode}: {done.stderr[-500:]}")
            first = int(begun[-1].split()[0]) + 1
    wrong += [line for line in lines if line.startswith("!")]
    assert wrong == []


@given(
    size=st.integers(0, 7),
    window=st.one_of(st.integers(1, 40), st.sampled_from([2**31, 2**40])),
    stride=st.one_of(st.integers(1, 12), st.sampled_from([2**31, 2**40])),
    padding=st.sampled_from([b"SAME", b"VALID"]),
)
def test_clipped_windows_hold_the_same_elements(size: int, window: int, stride: int, padding: bytes) -> None:
    try:
        whole = windows((size,), (window,), (stride,), (1,), padding)
    except fe.errors.InvalidArgumentError:
        return
    clipped = whole.clipped()
    assert clipped.out == whole.out
    assert clipped.window[0] <= max(2 * size, 1)

    def held(geometry: Windows) -> list[range]:
        begins = [i * geometry.strides[0] - geometry.before[0] for i in range(geometry.out[0])]
        return [range(max(b, 0), min(b + geometry.window[0], size)) for b in begins]

    assert held(clipped) == held(whole)
    if size and whole.out[0]:
        last = (clipped.out[0] - 1) * clipped.strides[0] + clipped.window[0]
        assert clipped.padded[0] >= last


@pytest.mark.parametrize("provider", ["numpy", "auto"])
@pytest.mark.parametrize("absurd", [2**31, 2**40])
@pytest.mark.parametrize("op", ["MaxPool", "AvgPool"])
def test_a_window_beyond_the_image_is_the_image(op: str, absurd: int, provider: str) -> None:
    x = np.arange(2 * 5 * 4 * 3, dtype=np.float32).reshape(2, 5, 4, 3)
    graph = fe.Graph()
    image = graph.placeholder("float32", None, name="x")
    sizes = {"ksize": [1, absurd, absurd, 1], "strides": [1, absurd, 2, 1], "padding": "SAME"}
    graph.create_op(op, [image], sizes, "y")

    async def main() -> Any:
        async with fe.Session(graph, config=fe.Config(kernel_provider=provider)) as session:
            return await session.run("y:0", {"x:0": x})

    whole = (x.max if op == "MaxPool" else x.mean)(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(trio.run(main), np.broadcast_to(whole, (2, 1, 2, 3)), rtol=1e-6)
