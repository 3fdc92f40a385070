"""The guard names the member of a claim that made a bad value, with the inputs that this member had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core import errors
from flowengine.kernels.provider import MemberRun
from flowengine.runtime.guarding.claim_members import first_bad_member
from flowengine.runtime.guarding.guard import Guard
from flowengine.runtime.guarding.watched import copying_out
from tests.runtime.claims_of_cold_plans import claim_at_once

SIDE = 64


async def fault_of(
    graph: fe.Graph, fetches: Any, feeds: Any, hidden: str, targets: Any = (), **options: Any
) -> errors.OpError:
    """Return the error of a guarded step. `hidden` is a node that must not run by itself."""
    seen: set[str] = set()
    async with fe.Session(graph) as session:
        await session.initialize()
        observing = fe.RunOptions(observe=lambda node, tag, outputs: seen.add(node))
        await session.run(fetches, feeds, targets=targets, options=observing)
        assert hidden not in seen, "it is no member of a claim"
        await session.initialize()
        with pytest.raises(errors.InvalidArgumentError, match="guard: output 0 has") as caught:
            await session.run(
                fetches, feeds, targets=targets, options=fe.RunOptions(**{"guard": True, **options})
            )
    assert __file__ in str(caught.value)
    return caught.value


def square(value: float, bad: float | None = None) -> Any:
    found = np.full((SIDE, SIDE), value, np.float32)
    if bad is not None:
        found[3, 4] = bad
    return found


@pytest.mark.parametrize("bad", ["log", "root", "end"])
async def test_an_elementwise_chain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bad: str) -> None:
    claim_at_once(monkeypatch)
    g = fe.Graph()
    x = g.placeholder("float32", [SIDE, SIDE], name="x")
    moved = g.ops.Sub(x, np.float32(1), name="moved")
    log = g.ops.Log(moved, name="log")
    root = g.ops.Sqrt(log, name="root")
    g.ops.Mul(root, np.float32(3e38), name="end")
    # The logarithm of 0, the root of a negative one, and a product that is too large.
    feeds = {"x:0": square(2.0, {"log": 1.0, "root": 1.5, "end": 100.0}[bad])}
    file = tmp_path / "found.npz"
    hidden = "log" if bad == "end" else bad
    error = await fault_of(g, "end:0", feeds, hidden, guard_file=str(file))
    assert error.node_name == bad
    assert error.op_type == {"log": "Log", "root": "Sqrt", "end": "Mul"}[bad]
    wanted = {"log": "from 0 to 1, mean", "root": "from -0.693147 to 0, mean", "end": "from 0 to 2.14"}[bad]
    assert f"input 0: float32 [64, 64] {wanted}" in str(error)
    with np.load(file) as kept:
        assert kept["input_0"].shape == (SIDE, SIDE)
        assert np.isfinite(kept["input_0"]).all()
        assert np.argwhere(~np.isfinite(kept["output_0"])).tolist() == [[3, 4]]


@pytest.mark.parametrize("bad", ["product", "biased", "end"])
async def test_a_product_and_what_follows_it(monkeypatch: pytest.MonkeyPatch, bad: str) -> None:
    claim_at_once(monkeypatch)
    g = fe.Graph()
    x = g.placeholder("float32", [SIDE, SIDE], name="x")
    product = g.ops.MatMul(x, square(1.0), name="product")
    biased = g.ops.BiasAdd(product, np.full(SIDE, 1e38 if bad == "biased" else 0, np.float32), name="biased")
    g.ops.Exp(biased, name="end")
    feeds = {"x:0": square({"product": 1e37, "biased": 3.0e38 / SIDE * 0.99, "end": 10.0}[bad])}
    if bad == "biased":
        feeds = {"x:0": square(0.0, 2.9e38)}
    error = await fault_of(g, "end:0", feeds, "product" if bad == "end" else bad)
    assert error.node_name == bad
    assert "input 0: float32 [64, 64]" in str(error)


async def test_a_sequence_with_claims_among_its_members(monkeypatch: pytest.MonkeyPatch) -> None:
    claim_at_once(monkeypatch, sequences=True)
    g = fe.Graph()
    x = g.placeholder("float32", [1, 16, 16, 8], name="x")
    filters = np.full((3, 3, 8, 8), 1.0, np.float32)
    for number in range(3):
        y = g.ops.Conv2D(x, filters, strides=[1, 1, 1, 1], padding="SAME", name=f"conv_{number}")
        y = g.ops.BiasAdd(y, np.ones(8, np.float32), name=f"bias_{number}")
        x = g.ops.Relu(y, name=f"relu_{number}")
    g.ops.MaxPool(x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME", name="end")
    # 72 times as large in each layer.
    feeds = {"x:0": np.full((1, 16, 16, 8), 3e38 / 72**2 / 1.5, np.float32)}
    error = await fault_of(g, "end:0", feeds, "relu_1")
    assert error.node_name == "conv_2"
    assert error.op_type == "Conv2D"


@pytest.mark.parametrize("bad", range(4))
async def test_updates_of_many_variables(monkeypatch: pytest.MonkeyPatch, bad: int) -> None:
    claim_at_once(monkeypatch)
    g = fe.Graph()
    updates, rate = [], g.placeholder("float32", [], name="rate")
    for number in range(4):
        held = [
            g.ops.VariableV2(shape=[8], dtype="float32", name=f"{name}{number}") for name in ("v", "slot")
        ]
        start = np.full(8, 3e38 if number == bad else 1.0, np.float32)
        for variable, value in zip(held, (start, np.ones(8, np.float32)), strict=True):
            g.ops.Assign(variable, value, name=f"init_{variable.op.name}")
        gradient = np.full(8, -1e38, np.float32)
        updates.append(
            g.ops.ApplyMomentum(held[0], held[1], rate, gradient, np.float32(0), name=f"update{number}")
        )
    with g.control_dependencies(updates):
        g.ops.NoOp(name="train")
    inits = [f"init_{name}{number}" for name in ("v", "slot") for number in range(4)]
    seen: set[str] = set()
    async with fe.Session(g) as session:
        await session.run([], targets=inits)
        observing = fe.RunOptions(observe=lambda node, tag, outputs: seen.add(node))
        await session.run([], {"rate:0": 0.0}, targets=["train"], options=observing)
        assert len([name for name in seen if name.startswith("update")]) == 1, "they are one claim"
        with pytest.raises(errors.InvalidArgumentError, match="guard: output 0 has 0 NaN and 8") as caught:
            await session.run([], {"rate:0": 1.0}, targets=["train"], options=fe.RunOptions(guard=True))
    assert caught.value.node_name == f"update{bad}"
    assert caught.value.op_type == "ApplyMomentum"
    assert "input 0: float32 [8] from 3e+38 to 3e+38" in str(caught.value), "its value before the update"


@pytest.mark.parametrize("bad", ["product", "update"])
async def test_a_product_and_the_update_by_it(monkeypatch: pytest.MonkeyPatch, bad: str) -> None:
    claim_at_once(monkeypatch)
    g = fe.Graph()
    v = g.ops.VariableV2(shape=[256, 256], dtype="float32", name="v")
    g.ops.Assign(v, np.full((256, 256), 3e38 if bad == "update" else 1, np.float32), name="init")
    x = g.placeholder("float32", [256, 256], name="x")
    rows = g.ops.Abs(x)  # a claim takes nothing that is fed
    product = g.ops.MatMul(rows, rows, transpose_a=True, name="product")
    update = g.ops.ApplyGradientDescent(v, np.float32(-1), product, name="update")
    with g.control_dependencies([update]):
        g.ops.NoOp(name="train")
    seen: set[str] = set()
    async with fe.Session(g) as session:
        await session.run([], targets=["init"])
        observing = fe.RunOptions(observe=lambda node, tag, outputs: seen.add(node))
        feeds = {"x:0": np.zeros((256, 256))}
        await session.run([], feeds, targets=["train"], options=observing)
        if "product" in seen:
            pytest.skip("this machine has no library that computes both as one")
        feeds = {"x:0": np.full((256, 256), 1e19 if bad == "product" else 5e17)}
        with pytest.raises(
            errors.InvalidArgumentError, match="guard: output 0 has 0 NaN and 65536"
        ) as caught:
            await session.run([], feeds, targets=["train"], options=fe.RunOptions(guard=True))
    assert caught.value.node_name == bad


async def test_in_a_loop_the_iteration_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    claim_at_once(monkeypatch)
    g = fe.Graph()
    x = g.placeholder("float32", [SIDE, SIDE], name="x")

    def grown(i: fe.Tensor, v: fe.Tensor) -> list[fe.Tensor]:
        return [i + 1, g.ops.Abs(g.ops.Square(v, name="grow"), name="same")]

    _, y = g.while_loop(lambda i, _: i < 9, grown, [g.constant(0), x])
    error = await fault_of(g, y, {"x:0": square(10.0)}, "while/grow")
    assert error.node_name == "while/grow"
    assert "iteration 5" in str(error)


async def test_bounds_of_a_member(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its values are looked at although the claim's own output is good."""
    claim_at_once(monkeypatch)
    g = fe.Graph()
    x = g.placeholder("float32", [SIDE, SIDE], name="x")
    g.ops.Tanh(g.ops.Mul(x, np.float32(2), name="scores"), name="y")
    error = await fault_of(g, "y:0", {"x:0": square(0.1, 3.0)}, "scores", guard={"sco*": (0.0, 1.0)})
    assert error.node_name == "scores"
    assert "values from 0.2 to 6, outside [0, 1]" in str(error)
    async with fe.Session(g) as session:
        options = fe.RunOptions(guard={"sco*": (0.0, 1.0)})
        await session.run("y:0", {"x:0": square(0.1)}, options=options)


async def test_bad_feeds_are_nobodys_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    claim_at_once(monkeypatch)
    g = fe.Graph()
    x = g.placeholder("float32", [SIDE, SIDE], name="x")
    g.ops.Neg(g.ops.Abs(x, name="inner"), name="y")
    async with fe.Session(g) as session:
        value = await session.run("y:0", {"x:0": square(1.0, np.nan)}, options=fe.RunOptions(guard=True))
    assert np.isnan(value[3, 4])


class FusedBody:
    """A claim that makes what none of its members makes by itself."""

    is_one_pass = True
    names = frozenset({"inner", "last"})

    def one_by_one(self, *values: Any) -> Iterator[MemberRun]:
        node: Any = SimpleNamespace(name="inner", op="Mul", device="", creation_site="")
        yield MemberRun(node, values, values)
        raise errors.InvalidArgumentError("and the other one refuses its inputs")


def test_a_claim_whose_members_make_good_values_is_named_itself() -> None:
    node = SimpleNamespace(attrs={"program": FusedBody()})
    item: Any = SimpleNamespace(name="last", mutates=False, single=True, node=node, groups=None)
    with pytest.raises(errors.InvalidArgumentError, match="guard: output 0 has 1 NaN") as caught:
        Guard().look(item, (), [np.ones(2)], np.array([1.0, np.nan]))
    assert caught.value.node_name is None, "the executor adds the name of the claim"


def test_an_update_on_a_device_with_memory_of_its_own_is_not_made_again() -> None:
    """Its variables are not copied there, and would be changed once more."""
    node = SimpleNamespace(attrs={"program": FusedBody()})
    item: Any = SimpleNamespace(name="last", mutates=True, groups=None, node=node)
    device: Any = SimpleNamespace(copy_out=np.asarray)
    bad = [np.array([9.0])]
    assert first_bad_member(item, bad, None, {"inner": (0.0, 1.0)}) is not None
    with copying_out(device):
        assert first_bad_member(item, bad, None, {"inner": (0.0, 1.0)}) is None
