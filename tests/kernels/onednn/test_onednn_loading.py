"""How oneDNN is found and left alone: many threads, changing shapes, a fork, no library at all."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.kernels.load import registry
from flowengine.kernels.onednn.library import search
from flowengine.kernels.providers import providers

needs_library = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")

NETWORK = """
import numpy as np, flowengine as fe
graph = fe.Graph()
x = graph.ops.Placeholder(dtype=np.float32, name="x")
w = graph.constant(np.linspace(-1, 1, 3 * 3 * 8 * 16, dtype=np.float32).reshape(3, 3, 8, 16))
y = graph.ops.Conv2D(x, w, strides=[1, 1, 1, 1], padding="SAME")
y = graph.ops.MaxPool(graph.ops.Relu(y), ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID", name="y")
value = np.linspace(0, 1, 2 * 14 * 14 * 8, dtype=np.float32).reshape(2, 14, 14, 8)
"""


def run(root: Path, code: str, **variables: str) -> str:
    """Return the output of a fresh interpreter."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("GOMP_", "OMP_"))}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=root, env={**environment, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_and_small_steps_do_not_load_it(root: Path) -> None:
    code = (
        "import flowengine as fe, numpy as np\n"
        "graph = fe.Graph()\n"
        "a = graph.ops.Placeholder(dtype=np.float32)\n"
        "graph.ops.MatMul(a, a, name='product')\n"
        "with fe.blocking.Session(graph) as session:\n"
        "    session.run('product:0', {a: np.eye(3, dtype=np.float32)})\n"
        "print('libdnnl' in open('/proc/self/maps').read())"
    )
    if not Path("/proc/self/maps").exists():
        pytest.skip("this system does not tell what a process has loaded")
    assert run(root, code).split() == ["False"]


def test_without_the_library_numpy_does_the_work_and_one_line_is_logged(root: Path) -> None:
    code = (
        "import logging; logging.basicConfig(level=logging.INFO, format='%(message)s')\n"
        "import sys; logging.getLogger().handlers[0].setStream(sys.stdout)\n"
        + NETWORK
        + "with fe.blocking.Session(graph) as session:\n"
        "    for _ in range(3): total = session.run('y:0', {'x:0': value}).sum()\n"
        "print(round(float(total), 3))"
    )
    absent = run(
        root, code, FLOWENGINE_ONEDNN="/nowhere/libdnnl.so.3", FLOWENGINE_KERNEL_PROVIDER="auto"
    ).splitlines()
    told = [line for line in absent if "oneDNN" in line]
    assert len(told) == 1
    assert "/nowhere/libdnnl.so.3" in told[0]
    alone = run(root, code, FLOWENGINE_KERNEL_PROVIDER="numpy").splitlines()
    assert absent[-1] == alone[-1]
    assert not [line for line in alone if "oneDNN" in line]


def test_a_provider_that_is_asked_for_must_be_there(root: Path) -> None:
    code = (
        "import flowengine as fe\n"
        "try: fe.blocking.Session(fe.Graph(), config=fe.Config(kernel_provider='onednn'))\n"
        "except fe.errors.FailedPreconditionError as error: print(error)"
    )
    assert "/nowhere/libdnnl.so.3" in run(root, code, FLOWENGINE_ONEDNN="/nowhere/libdnnl.so.3")
    with pytest.raises(fe.errors.InvalidArgumentError, match="kernel_provider is 'mkl'"):
        fe.Config(kernel_provider="mkl").resolved()


def test_a_library_that_is_something_else_is_refused(root: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "libdnnl.so.3"
    wrong.write_bytes(b"no library")
    code = "from flowengine.kernels.providers import providers; print(providers()[0])"
    said = run(root, code, FLOWENGINE_ONEDNN=str(wrong))
    assert "available=False" in said
    assert str(wrong) in said


def test_numpy_is_always_there() -> None:
    onednn, numpy = providers()
    assert (onednn.name, numpy.name, numpy.available) == ("onednn", "numpy", True)
    assert onednn.available == (not onednn.reason)


@needs_library
def test_the_environment_is_left_as_it_was(root: Path) -> None:
    code = (
        "import os; before = dict(os.environ)\n"
        "from flowengine.kernels.onednn.library import search\n"
        "assert search().library is not None\n"
        "print(dict(os.environ) == before)"
    )
    assert run(root, code).split() == ["True"]


@needs_library
def test_a_fork_goes_on_with_numpy(root: Path) -> None:
    if not hasattr(os, "fork"):
        pytest.skip("this system does not fork")
    code = NETWORK + (
        "from flowengine.kernels.load import registry\n"
        "import os, sys\n"
        "node = next(n for n in graph if n.op == 'Conv2D')\n"
        "kernel = registry().find(node).bind(node)\n"
        "filters = np.ones((3, 3, 8, 64), np.float32)\n"
        "big = np.ones((8, 28, 28, 8), np.float32)\n"
        "before = kernel(big, filters)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(0 if np.allclose(kernel(big, filters), before) else 1)\n"
        "print(os.waitpid(child, 0)[1])"
    )
    assert run(root, code).split() == ["0"]


def _network() -> tuple[fe.Graph, Any]:
    graph = fe.Graph()
    x = graph.ops.Placeholder(dtype=np.float32, name="x")
    w = graph.ops.Placeholder(dtype=np.float32, name="w")
    y = graph.ops.Conv2D(x, w, strides=[1, 1, 1, 1], padding="SAME")
    y = graph.ops.MaxPool(y, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    graph.ops.LRN(y, depth_radius=2, name="y")
    return graph, x


@needs_library
def test_concurrent_calls_give_the_same_values() -> None:
    graph, _ = _network()
    rng = np.random.default_rng(0)
    filters = rng.standard_normal((3, 3, 8, 16)).astype(np.float32)
    feeds = [rng.standard_normal((2, 12 + i, 12, 8)).astype(np.float32) for i in range(4)]
    with fe.blocking.Session(graph, config=fe.Config(kernel_provider="numpy")) as session:
        expected = [session.run("y:0", {"x:0": feed, "w:0": filters}) for feed in feeds]
    wrong: list[float] = []

    def steps(session: Any, first: int) -> None:
        for i in range(first, first + 40):
            got = session.run("y:0", {"x:0": feeds[i % 4], "w:0": filters})
            if not np.allclose(got, expected[i % 4], rtol=1e-4, atol=1e-5):
                wrong.append(float(np.abs(got - expected[i % 4]).max()))

    with fe.blocking.Session(graph) as session:
        threads = [threading.Thread(target=steps, args=(session, i)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@needs_library
@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(700, id="700"),
        pytest.param(10_000, id="10000", marks=[pytest.mark.slow, pytest.mark.nightly]),
    ],
)
def test_changing_shapes_do_not_fill_memory(steps: int) -> None:
    if not Path("/proc/self/statm").exists():
        pytest.skip("this system does not tell how much memory a process has")
    graph, _ = _network()
    node = next(node for node in graph if node.op == "Conv2D")
    pool = next(node for node in graph if node.op == "MaxPool")
    convolve, reduce = (registry("onednn").find(n).bind(n) for n in (node, pool))
    filters = np.ones((3, 3, 4, 4), np.float32)
    before = 0
    for step in range(steps):
        # More shapes than are remembered, over and over.
        x = np.ones((1, 3 + step % 53, 3 + step % 47, 4), np.float32)
        reduce(convolve(x, filters))
        if step == steps // 2:
            before = _resident_bytes()
    assert _resident_bytes() - before < 64 << 20


@needs_library
def test_values_of_constants_are_packed_once_and_let_go() -> None:
    import gc

    from flowengine.kernels.onednn import convolution
    from flowengine.kernels.onednn.layers.shapes import WindowAttributes

    graph, _ = _network()
    node = next(node for node in graph if node.op == "Conv2D")
    convolve = registry("onednn").find(node).bind(node)
    sliding = WindowAttributes.of(node)
    x = np.ones((1, 9, 9, 8), np.float32)
    numbers = np.random.default_rng(0).standard_normal((3, 3, 8, 16)).astype(np.float32)
    constant = np.frombuffer(numbers.tobytes(), np.float32).reshape(numbers.shape)
    wanted = convolve(x, numbers)
    for _ in range(2):
        np.testing.assert_allclose(convolve(x, constant), wanted, rtol=1e-5)
    layer = convolution.forward(sliding, x.shape, constant.shape, (), True)
    assert layer is not None
    assert layer.kept() == 1
    # What also adds a bias uses the same copy, as does another batch.
    for shape, forms in ((x.shape, ("add channel", "relu")), ((2, 9, 9, 8), ())):
        other = convolution.forward(sliding, shape, constant.shape, forms, True)
        assert other is not None
        assert other._packed is layer._packed
    # A read-only view of what may yet change is no constant.
    view = numbers.view()
    view.flags.writeable = False
    convolve(x, view)
    numbers *= 2
    np.testing.assert_allclose(convolve(x, view), 2 * wanted, rtol=1e-5)
    del constant
    gc.collect()
    assert layer.kept() == 0
