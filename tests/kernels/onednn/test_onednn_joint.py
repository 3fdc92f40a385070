"""Layers that the library computes as one program give what they give one by one, to the last bit."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.errors import InternalError, OpError
from flowengine.kernels.onednn.library import search
from flowengine.kernels.onednn.programs.program import PrimitiveProgram
from tests.effort import examples
from tests.kernels.onednn.joint_kinds import KINDS, drawn, joined_between, windows
from tests.kernels.onednn.rig import ENOUGH, Rig, chain, constant, inputs_of_chain, numbers, same
from tests.kernels.turns import Turns

pytestmark = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("constants", [False, True])
def test_a_chain_of_layers_is_one_program(constants: bool, layout: str) -> None:
    rig = chain(layout)
    fixed = inputs_of_chain(layout=layout)
    if constants:
        fixed.update({name: constant(fixed[name]) for name in ("w1", "b1", "w2")})
    for run in range(6):
        values = {**fixed, "x": inputs_of_chain(10 * run, layout=layout)["x"]}
        if not constants:
            values["w1"] = numbers(run, 3, 3, 16, 24)
        # NCHW has its bias behind the convolution, by a kernel that tells nothing.
        assert rig.ran_joined(**values) == (run > 1), run
        assert rig.joined == (0 if run < 1 else 3 if layout == "NHWC" else 2)


@pytest.mark.parametrize("constants", [False, True])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_layer_is_joined(kind: str, layout: str, constants: bool) -> None:
    rig = joined_between(fe.Graph(), layout, kind)
    shape = (2, 9, 9, 16) if layout == "NHWC" else (2, 16, 9, 9)
    fixed = drawn(rig, 0, shape, constants)
    for run in range(6):
        values = {
            **(fixed if constants else drawn(rig, run, shape)),
            "x": numbers(run, *shape),
        }
        rig.check(**values)
    # Else the factors are computed of other variances each time.
    is_joined = constants or kind != "normalized"
    # No library's: what makes the gradient of the maxima.
    assert rig.sequence.joined == (rig.sequence.names - {"Mul"} if is_joined else set())


@settings(max_examples=examples(80))
@given(st.data())
def test_random_networks_keep_every_bit(data: st.DataObject) -> None:
    """Chains and branches of layers and gradients, whose results others take as well."""
    graph = fe.Graph()
    layout = data.draw(st.sampled_from(["NHWC", "NHWC", "NCHW"]))
    net = _Network(graph, layout, data.draw)
    for _ in range(data.draw(st.integers(2, 9))):
        net.grow()
    made = net.pool[1:]
    others = data.draw(st.lists(st.sampled_from(made), max_size=2, unique_by=lambda item: item[0].name))
    gives = {tensor.port: tensor for tensor, _ in (made[-1], *others)}
    rig = Rig(graph, list(gives.values()))
    fixed = {name: numbers(place, *shape) for place, (name, shape) in enumerate(net.given.items())}
    for name in fixed:
        # Variances are among them.
        fixed[name] = np.abs(fixed[name]) + 1 if name.startswith("v") else fixed[name]
        if data.draw(st.booleans()):
            fixed[name] = constant(fixed[name])
    for run in range(data.draw(st.integers(3, 12))):
        if data.draw(st.sampled_from([False, False, False, True])):
            name = data.draw(st.sampled_from(sorted(fixed)))
            if not fixed[name].flags.writeable:
                fixed[name] = constant(fixed[name] / 2)
        values = dict(fixed)
        for name, value in fixed.items():
            if value.flags.writeable and (name == "x" or run % 2):
                values[name] = value * np.float32(1 + run / 8)
        turns = Turns(data.draw(st.lists(st.booleans(), max_size=10)))
        rig.check(turns=turns, **values)


class _Network:
    """A network that grows by what is drawn. `pool`: tensors and their (count, side, channels)."""

    def __init__(self, graph: fe.Graph, layout: str, draw: Callable[..., Any]) -> None:
        self.graph, self._layout, self._draw = graph, layout, draw
        self.given: dict[str, tuple[int, ...]] = {}
        form = (draw(st.integers(1, 2)), draw(st.integers(4, 8)), draw(st.sampled_from([3, 8, 16])))
        self.pool = [(self._placeholder("x", self._shape(*form)), form)]

    def _shape(self, count: int, side: int, deep: int) -> tuple[int, ...]:
        return (count, side, side, deep) if self._layout == "NHWC" else (count, deep, side, side)

    def _placeholder(self, kind: str, shape: tuple[int, ...]) -> Any:
        name = kind if kind == "x" else f"{kind}{len(self.given)}"
        self.given[name] = shape
        return self.graph.placeholder("float32", None, name=name)

    def _sizes(self, *sizes: int) -> Any:
        return self.graph.constant(np.array(sizes, np.int32))

    def _filters(self, inward: int) -> tuple[Any, int, int]:
        side, outward = self._draw(st.sampled_from([1, 3])), self._draw(st.sampled_from([8, 16]))
        return self._placeholder("w", (side, side, inward, outward)), side, outward

    def grow(self) -> None:
        x, (count, side, deep) = self._draw(st.sampled_from(self.pool))
        laid: dict[str, Any] = {"data_format": self._layout}
        ops = self.graph.ops
        stride = self._draw(st.sampled_from([1, 1, 2]))
        less = -(-side // stride)
        how: dict[str, Any] = {"strides": windows(self._layout, stride), "padding": "SAME", **laid}
        kinds = ["conv", "conv", "conv", "pool", "concat", "sum", "gradients", "gate", "pool gradient"]
        kind = self._draw(st.sampled_from(kinds))
        fellows = [tensor for tensor, form in self.pool if form == (count, side, deep)]
        if kind == "conv":
            w, _, outward = self._filters(deep)
            y = self._followed(ops.Conv2D(x, w, **how), outward, (count, less, outward))
            self.pool.append((y, (count, less, outward)))
        elif kind == "pool":
            op = self._draw(st.sampled_from([ops.MaxPool, ops.AvgPool]))
            y = op(x, ksize=windows(self._layout, self._draw(st.integers(1, 3))), **how)
            self.pool.append((y, (count, less, deep)))
        elif kind == "concat":
            axis = self.graph.constant(3 if self._layout == "NHWC" else 1)
            other = self._draw(st.sampled_from(fellows))
            self.pool.append((ops.ConcatV2([x, other], axis), (count, side, 2 * deep)))
        elif kind == "sum":
            self.pool.append((ops.Relu(ops.AddV2(x, self._draw(st.sampled_from(fellows)))), self._form(x)))
        elif kind == "gate":
            self.pool.append((ops.ReluGrad(x, self._draw(st.sampled_from(fellows))), self._form(x)))
        elif kind == "gradients":
            w, size, outward = self._filters(deep)
            y = ops.Relu(ops.Conv2D(x, w, **how))
            above = ops.ReluGrad(ops.Mul(y, y), y)
            back = ops.Conv2DBackpropInput(self._sizes(*self._shape(count, side, deep)), w, above, **how)
            of_filters = ops.Conv2DBackpropFilter(x, self._sizes(size, size, deep, outward), above, **how)
            self.pool.append((back, (count, side, deep)))
            self.pool.append((ops.AddV2(back, ops.Sum(of_filters, self._sizes(0, 1, 2, 3))), self._form(x)))
        else:
            whole = self._sizes(*self._shape(count, side, deep))
            window: dict[str, Any] = {"ksize": windows(self._layout, 2), **how}
            if self._draw(st.booleans()):
                y = ops.MaxPool(x, **window)
                self.pool.append((ops.MaxPoolGrad(x, y, ops.Neg(y), **window), self._form(x)))
            else:
                self.pool.append((ops.AvgPoolGrad(whole, ops.AvgPool(x, **window), **window), self._form(x)))

    def _form(self, tensor: Any) -> tuple[int, int, int]:
        return next(form for other, form in self.pool if other is tensor)

    def _followed(self, y: Any, deep: int, form: tuple[int, int, int]) -> Any:
        """With up to three of what a convolution may compute along."""
        ops = self.graph.ops
        laid: dict[str, Any] = {"data_format": self._layout}
        for _ in range(self._draw(st.integers(0, 3))):
            kind = self._draw(st.sampled_from(["bias", "Relu", "Relu6", "norm", "residual", "number"]))
            fellows = [tensor for tensor, other in self.pool if other == form]
            if kind == "bias":
                y = ops.BiasAdd(y, self._placeholder("b", (deep,)), **laid)
            elif kind == "norm":
                vectors = [self._placeholder("v", (deep,)) for _ in range(4)]
                y = ops.FusedBatchNorm(y, *vectors, is_training=False, **laid)[0]
            elif kind == "number":
                y = ops.Mul(y, self._placeholder("n", ()))
            elif kind == "residual" and fellows:
                y = ops.AddV2(y, self._draw(st.sampled_from(fellows)))
            elif kind != "residual":
                y = getattr(ops, kind)(y)
        return y


def test_another_shape_goes_through_the_layers_and_is_joined_in_time() -> None:
    rig = chain()
    rig.join(**inputs_of_chain())
    assert rig.ran_joined(**inputs_of_chain(7))
    for count, side in ((1, 9), (2, 12)):
        values = inputs_of_chain(1, count, side)
        misses = 0
        while not rig.ran_joined(**values):
            misses += 1
            assert misses < 40
        assert misses > 1


def test_shapes_that_take_turns_are_right() -> None:
    rig = chain()
    for run in range(60):
        rig.check(**inputs_of_chain(run, 1 + run % 3 // 2, 9 + run % 2))


def test_what_a_joint_was_not_made_for_runs_by_itself() -> None:
    fixed = inputs_of_chain()
    fixed["w1"], fixed["b1"] = constant(fixed["w1"]), constant(fixed["b1"])
    rig = chain()
    rig.join(**fixed)
    x, w1 = fixed["x"], fixed["w1"]
    apart = np.zeros((*x.shape[:3], 32), np.float32)
    apart[..., ::2] = x
    others = {
        "gaps": {"x": apart[..., ::2]},
        "order": {"x": np.asfortranarray(x)},
        "a kind of array": {"x": x.view(np.memmap)},
        "an equal constant": {"w1": constant(w1)},
        "another constant": {"w1": constant(w1 * 2)},
        "no constant": {"w1": w1 * 3},
        "one that does not stay": {"b1": numbers(8, 24)},
        "more": {"x": numbers(4, 3, 9, 9, 16)},
    }
    for other in others.values():
        assert not rig.ran_joined(**{**fixed, **other})
        assert rig.ran_joined(**fixed)
        if rig.sequence._misses == 3:
            rig = chain()
            rig.join(**fixed)


def test_values_of_another_type_are_as_wrong_as_they_are_by_themselves() -> None:
    """Nothing reads float64 as if it were float32."""
    rig = chain()
    values = inputs_of_chain()
    rig.join(**values)
    for name in ("x", "w1", "b1", "w2"):
        wrong = {**values, name: values[name].astype(np.float64)}
        with mock.patch.object(PrimitiveProgram, "__call__", side_effect=AssertionError("computed")):
            listed = rig.listed(wrong)
            units = [unit.joint for unit in rig.sequence._units if unit.joint is not None]
            assert [joint.run([*listed, *[None] * 8]) for joint in units] == [False]


def test_many_threads_run_one_sequence() -> None:
    """Each with inputs of its own, from the first run on; some have other shapes for a while."""
    rig = chain()
    fixed = {name: constant(v) if name == "w2" else v for name, v in inputs_of_chain().items()}
    images = [inputs_of_chain(seed, 1 + seed % 4, 9 + seed % 3)["x"] for seed in range(6)]
    images += [inputs_of_chain(seed)["x"] for seed in range(6)]
    listed = [rig.listed({**fixed, "x": x}) for x in images]
    expected = [rig.alone(values) for values in listed]
    failures: list[BaseException] = []
    start = threading.Barrier(4)

    def runs(first: int) -> None:
        try:
            start.wait()
            for run in range(120):
                which = (first + run) % 6 + (0 if run % 30 > 22 else 6)
                same(rig.sequence.run(listed[which]), expected[which])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=runs, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    runs(3)
    for thread in threads:
        thread.join()
    assert not failures
    # The last ones had other shapes: what is joined may have been given up a moment ago.
    for _ in range(ENOUGH):
        same(rig.sequence.run(listed[6]), expected[6])
    assert rig.joined


async def test_the_loop_and_its_workers_run_one_sequence() -> None:
    rig = chain()
    values = [rig.listed(inputs_of_chain(seed)) for seed in range(4)]
    expected = [rig.alone(each) for each in values]

    async def runs(first: int) -> None:
        for run in range(first, first + 20):
            which = run % 4
            if run % 2:
                same(rig.sequence.run(values[which]), expected[which])
            else:
                same(await trio.to_thread.run_sync(rig.sequence.run, values[which]), expected[which])

    async with trio.open_nursery() as nursery:
        for first in range(4):
            nursery.start_soon(runs, first)
    assert rig.joined == 3


@pytest.mark.parametrize("runs", [0, 1, 5])
@pytest.mark.parametrize(
    ("name", "shape", "node"),
    [("x", (2, 9, 9, 7), "first"), ("w2", (3, 3, 5, 8), "second"), ("b1", (7,), "bias")],
)
def test_an_error_is_of_the_node_that_raised_it(
    name: str, shape: tuple[int, ...], node: str, runs: int
) -> None:
    rig = chain()
    values = inputs_of_chain()
    for _ in range(runs):
        rig.check(**values)
    with pytest.raises(OpError) as caught:
        rig.sequence.run(rig.listed({**values, name: numbers(0, *shape)}))
    assert caught.value.node_name == node
    rig.join(**values)
    assert rig.joined == 3


def test_a_library_that_fails_leaves_it_to_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The joint has changed nothing by then, and kernels that fail as well say so."""
    rig = chain()
    values = inputs_of_chain()
    rig.join(**values)
    listed = rig.listed(values)
    expected = rig.alone(listed)
    proceed = PrimitiveProgram._proceed

    def fail(self: PrimitiveProgram, *how: Any) -> int:
        if len(self._steps) > 2:
            raise InternalError("oneDNN could not compute: status 1")
        return proceed(self, *how)

    monkeypatch.setattr(PrimitiveProgram, "_proceed", fail)
    same(rig.sequence.run(listed), expected)
    monkeypatch.setattr(PrimitiveProgram, "_proceed", mock.Mock(side_effect=InternalError("status 1")))
    with pytest.raises(InternalError) as caught:
        rig.sequence.run(listed)
    assert caught.value.node_name == "first"


FORK = """
import os, signal
import numpy as np
import flowengine as fe
from tests.kernels.onednn.rig import chain, inputs_of_chain
rig = chain()
# Large enough for every core: the library has threads of its own, which a child has not.
values = inputs_of_chain(0, 8, 40)
for _ in range(5):
    (before,) = rig.sequence.run(rig.listed(values))
assert rig.joined == 3
child = os.fork()
if child == 0:
    signal.alarm(60)  # what hangs ends
    for _ in range(30):
        (after,) = rig.sequence.run(rig.listed(values))
    assert not rig.joined
    os._exit(0 if np.allclose(after, before, atol=1e-3) else 1)
status = os.waitpid(child, 0)[1]
(after,) = rig.sequence.run(rig.listed(values))
print(status, rig.joined, np.array_equal(after, before))
"""


def test_a_fork_goes_on_with_numpy(root: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("this system does not fork")
    done = subprocess.run(
        [sys.executable, "-c", FORK], cwd=root, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0", "3", "True"]
