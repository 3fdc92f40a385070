"""Many steps of convolutional layers with changing shapes hold no more memory, nor files, than some did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flowengine.kernels.onednn.library import search

pytestmark = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")

#: A network of each kind of layer and its gradients, for images of any size; more sizes than are remembered.
STEPS = """
import json, os, sys
import numpy as np, trio
import flowengine as fe
from flowengine.kernels.onednn.programs.preparing import SHAPES_MAX
from flowengine.runtime.threads import current_inbox

count = int(sys.argv[1])
same = {"strides": [1, 1, 1, 1], "padding": "SAME"}
halved = {"strides": [1, 2, 2, 1], "padding": "SAME"}
windows = {"ksize": [1, 2, 2, 1], **halved}

def build():
    g = fe.Graph()
    ops = g.ops
    x = g.placeholder("float32", [None, None, None, 3], name="x")
    rng = np.random.default_rng(0)
    init = []
    def variable(name, *shape):
        made = ops.VariableV2(dtype="float32", shape=shape, name=name)
        init.append(ops.Assign(made, rng.normal(size=shape).astype(np.float32) / 10))
        return made
    w1, w2, w3 = variable("w1", 5, 5, 3, 16), variable("w2", 3, 3, 16, 32), variable("w3", 3, 3, 32, 1)
    scale, shift = variable("scale", 16), variable("shift", 16)
    nothing = g.constant(np.zeros(0, np.float32))
    a = ops.Conv2D(x, w1, **halved)
    b, _, _, mean, variance, *_ = ops.FusedBatchNorm(a, scale, shift, nothing, nothing, is_training=True)
    c = ops.Relu(b)
    d = ops.MaxPool(c, **windows)
    e = ops.Conv2D(d, w2, **same)
    f = ops.DepthwiseConv2dNative(e, w3, **same)
    h = ops.AvgPool(f, **windows)
    d_f = ops.AvgPoolGrad(ops.Shape(f), h, **windows)
    d_e = ops.DepthwiseConv2dNativeBackpropInput(ops.Shape(e), w3, d_f, **same)
    d_w3 = ops.DepthwiseConv2dNativeBackpropFilter(e, ops.Shape(w3), d_f, **same)
    d_d = ops.Conv2DBackpropInput(ops.Shape(d), w2, d_e, **same)
    d_w2 = ops.Conv2DBackpropFilter(d, ops.Shape(w2), d_e, **same)
    d_c = ops.ReluGrad(ops.MaxPoolGrad(c, d, d_d, **windows), c)
    d_a, d_scale, d_shift, *_ = ops.FusedBatchNormGrad(d_c, a, scale, mean, variance, is_training=True)
    d_w1 = ops.Conv2DBackpropFilter(x, ops.Shape(w1), d_a, **halved)
    ops.Sum(ops.Conv2DBackpropInput(ops.Shape(x), w1, d_a, **halved), [0, 1, 2, 3], name="y")
    gradients = {w1: d_w1, w2: d_w2, w3: d_w3, scale: d_scale, shift: d_shift}
    rate = g.constant(np.float32(1e-6))
    g.group(*(ops.ApplyGradientDescent(v, rate, d) for v, d in gradients.items()), name="train")
    g.group(*init, name="init")
    return g

def held():
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir("/proc/self/fd"))

async def main():
    pixels = np.random.default_rng(1).normal(size=(2, 64, 64, 3)).astype(np.float32)
    seen = set()
    told = []
    # The way back from worker threads, two descriptors, is made when the first step goes to one.
    current_inbox()
    async with fe.Session(build()) as session:
        await session.run([], targets=["init"])
        for step in range(count):
            shape = 1 + step % 2, 17 + step % 29, 17 + step % 23
            seen.add(shape)
            x = pixels[tuple(map(slice, shape))]
            total = await session.run("y:0", {"x:0": x}, targets=["train"])
            assert np.isfinite(total), step
            if (step + 1) % (count // 10) == 0:
                told.append(held())
    assert len(seen) == min(count, 2 * 29 * 23) > SHAPES_MAX
    print(json.dumps(told))

trio.run(main)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux for the resident set")
@pytest.mark.parametrize(
    ("steps", "growth_bytes_max"),
    [
        # Kernels have only just begun to forget shapes.
        pytest.param(1_000, 32 << 20, id="1000", marks=pytest.mark.slow),
        pytest.param(10_000, 3 << 20, id="10000", marks=[pytest.mark.slow, pytest.mark.nightly]),
    ],
)
def test_training_on_changing_shapes_holds_no_more_than_some_steps_did(
    root: Path, steps: int, growth_bytes_max: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STEPS, str(steps)],
        cwd=root,
        env={**os.environ, "FLOWENGINE_KERNEL_PROVIDER": "onednn"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (resident, files), *later = told[5:]
    assert max(bytes_now - resident for bytes_now, _ in later) < growth_bytes_max, told
    assert {count for _, count in later} == {files}, told
