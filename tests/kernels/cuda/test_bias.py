"""A bias with its activation, and both gradients, in CUDA C: the bits of the nodes one after another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.cuda import bias
from flowengine.kernels.load import registry
from tests.kernels.cuda.closeness import FLOATS, Floats, agrees, floats, seeds
from tests.kernels.cuda.host_compiler import needs_compiler
from tests.kernels.cuda.host_launcher import HostLauncher

pytestmark = needs_compiler

#: {activation: the gradient op by what the activation gave, whether the gradient comes first}.
GRADIENTS = {
    "Relu": ("ReluGrad", True),
    "Relu6": ("Relu6Grad", True),
    "Elu": ("EluGrad", True),
    "Tanh": ("TanhGrad", False),
    "Sigmoid": ("SigmoidGrad", False),
}


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> HostLauncher:
    return HostLauncher(tmp_path_factory.mktemp("bias"), "bias")


def on_cpu(op: str, *inputs: Floats, **attrs: Any) -> Floats:
    """Return the output of the CPU's kernel for a node of an op."""
    graph = fe.Graph()
    made = getattr(graph.ops, op)(*(graph.placeholder(x.dtype.name, x.shape) for x in inputs), **attrs)
    node = graph.nodes[made.node_name]
    with np.errstate(all="ignore"):
        return np.asarray(registry().find(node).bind(node)(*inputs))


shapes = st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(1, 5), st.integers(1, 40))


@given(shapes, seeds, st.sampled_from(FLOATS), st.booleans(), st.sampled_from(list(bias.ACTIVATIONS)))
def test_a_bias_and_what_follows_it(
    launcher: HostLauncher,
    shape: tuple[int, ...],
    seed: int,
    dtype: str,
    channels_first: bool,
    activation: str | None,
) -> None:
    x = floats(seed, dtype, *shape, specials=True)
    channels = shape[1 if channels_first else 3]
    vector = floats(seed + 1, dtype, channels)
    found = bias.bias_add(launcher, x, vector, activation, channels_first=channels_first)
    spread = vector.reshape(-1, 1, 1) if channels_first else vector
    with np.errstate(all="ignore"):
        wanted = on_cpu("Add", x, np.ascontiguousarray(np.broadcast_to(spread, shape)))
    if activation is not None:
        wanted = on_cpu(activation, wanted)
    assert agrees(found, wanted, 0 if activation in (None, "Relu", "Relu6") else 4)


@given(shapes, seeds, st.sampled_from(FLOATS), st.booleans(), st.sampled_from(list(bias.ACTIVATIONS)))
def test_both_gradients(
    launcher: HostLauncher,
    shape: tuple[int, ...],
    seed: int,
    dtype: str,
    channels_first: bool,
    activation: str | None,
) -> None:
    gradient, y = floats(seed, dtype, *shape), floats(seed + 1, dtype, *shape)
    dx, sums = bias.bias_gradients(launcher, gradient, y, activation, channels_first=channels_first)
    wanted = gradient
    if activation is not None:
        op, gradient_first = GRADIENTS[activation]
        wanted = on_cpu(op, *((gradient, y) if gradient_first else (y, gradient)))
    assert agrees(dx, wanted, 0)
    exact, axes = wanted.astype(np.float64), (0, 2, 3) if channels_first else (0, 1, 2)
    step = {"float16": 1e-3, "bfloat16": 1e-2, "float32": 1e-6, "float64": 1e-14}[dtype]
    np.testing.assert_array_less(
        np.abs(sums.astype(np.float64) - exact.sum(axes)), step * (np.abs(exact).sum(axes) + 1e-30)
    )
    kept = [array.tobytes() for array in (dx, sums)]
    again = bias.bias_gradients(launcher, gradient, y, activation, channels_first=channels_first)
    assert [array.tobytes() for array in again] == kept


@pytest.mark.parametrize("channels_first", [False, True])
def test_the_gradient_of_a_bias_in_several_chunks(launcher: HostLauncher, channels_first: bool) -> None:
    shape = (3, 5, 50, 60) if channels_first else (3, 50, 60, 5)
    gradient = np.random.default_rng(1).integers(-8, 9, shape).astype(np.float32)
    _, sums = bias.bias_gradients(launcher, gradient, channels_first=channels_first)
    assert launcher.launches[-1].numbers[0] > 1
    wanted = gradient.sum((0, 2, 3) if channels_first else (0, 1, 2))
    assert sums.tolist() == wanted.tolist()


def test_what_is_no_bias(launcher: HostLauncher) -> None:
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(InvalidArgumentError, match=r"as many elements as x has channels: \[2\] vs. 3"):
        bias.bias_add(launcher, x, np.zeros(2, np.float32))
    with pytest.raises(InvalidArgumentError, match="a bias with Softmax behind it: Relu, Relu6"):
        bias.bias_add(launcher, x, np.zeros(3, np.float32), "Softmax")
