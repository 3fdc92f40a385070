"""Generated code in the place of a call, which gives the call's result bit for bit."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.load import registry
from flowengine.kernels.registry import Kernel
from flowengine.passes.blocks.codegen_calls import INLINE_TYPES

_BOOLEAN = ("LogicalAnd", "LogicalOr", "LogicalNot", "ToBool")
_EITHER = ("Equal", "NotEqual")
_INTEGER = ("BitwiseAnd", "BitwiseOr", "BitwiseXor")


def _inlined() -> list[Kernel]:
    registered = registry()
    registered.candidates("Add")
    ops = [
        "Add",
        "AddV2",
        "Sub",
        "Mul",
        "BitwiseAnd",
        "BitwiseOr",
        "BitwiseXor",
        "Less",
        "LessEqual",
        "Greater",
        "GreaterEqual",
        "LogicalAnd",
        "LogicalOr",
        "Equal",
        "NotEqual",
        "Div",
        "RealDiv",
        "TruncateDiv",
        "FloorDiv",
        "FloorMod",
        "Maximum",
        "Minimum",
        "Abs",
        "LogicalNot",
        "Neg",
        "Square",
        "ToBool",
    ]
    return [k for op in ops for k in registered.candidates(op) if k.inline is not None]


def _values(dtype: DType) -> list[Any]:
    kind = dtype.as_numpy_dtype
    if dtype.is_bool:
        return [np.bool_(False), np.bool_(True)]
    scalar = np.dtype(kind).type
    rng = np.random.default_rng(dtype.size)
    if dtype.is_integer:
        info = np.iinfo(kind)
        some = rng.integers(info.min, info.max, 20, dtype=kind, endpoint=True)
        return [scalar(v) for v in (info.min, info.max, 0, 1, 2, 3, 7, max(info.min, -1))] + list(some)
    info_f = np.finfo(kind)
    edges = [0.0, -0.0, 1.0, -1.0, 3.5, np.inf, -np.inf, np.nan, info_f.max, info_f.tiny, info_f.eps]
    edges.append(info_f.smallest_subnormal)
    return [scalar(v) for v in edges] + [scalar(v) for v in rng.normal(scale=10.0, size=20)]


def _takes(kernel: Kernel, dtype: DType) -> bool:
    if kernel.op in _BOOLEAN:
        return dtype.is_bool
    if dtype.is_bool:
        return kernel.op in _EITHER
    if kernel.op in _INTEGER and not dtype.is_integer:
        return False
    if kernel.op == "Neg" and dtype.name.startswith("u"):
        return False
    node = Node("node", kernel.op, attrs={"T": dtype})
    return kernel.serves(node) and registry().find(node) is kernel


_CASES = [(k, d) for k in _inlined() for d in sorted(INLINE_TYPES, key=str) if _takes(k, d)]


@pytest.mark.parametrize(("kernel", "dtype"), _CASES, ids=[f"{k.op}-{d}" for k, d in _CASES])
def test_an_operator_gives_what_the_kernel_gives(kernel: Kernel, dtype: DType) -> None:
    node = Node("node", kernel.op, attrs={"T": dtype})
    assert kernel.inline is not None
    function = kernel.bind(node)
    operands = 2 if "{1}" in kernel.inline else 1
    text = kernel.inline.format("a", "b", f="f")
    inlined = eval(f"lambda a, b, f: {text}")
    values = _values(dtype)
    assert len(values) > 1
    with np.errstate(all="ignore"):
        for chosen in itertools.product(values, repeat=operands):
            arrays = [np.array(v) for v in chosen]
            try:
                expected = np.asarray(function(*arrays))
            except InvalidArgumentError as error:
                with pytest.raises(InvalidArgumentError, match=str(error.message)):
                    inlined(chosen[0], chosen[-1], function)
                continue
            for operands_given in (chosen, arrays):
                got = inlined(operands_given[0], operands_given[-1], function)
                assert np.asarray(got).dtype == expected.dtype
                assert not np.ndim(got)
                assert np.asarray(got).tobytes() == expected.tobytes(), (chosen, got, expected)


@pytest.mark.parametrize("value", [True, False, [], [False], [[True, False]], np.zeros((0, 3), bool)])
def test_a_truth_is_told_of_any_rank_where_its_own_is_not_known(value: Any) -> None:
    fed = np.array(value, bool)
    g = fe.Graph()
    x = g.placeholder("bool", None, name="x")
    g.ops.LogicalNot(g.ops.ToBool(g.ops.LogicalNot(x)), name="y")
    with fe.blocking.Session(g) as session:
        assert ".ndim else" in session.explain("y:0", [x], source=True)
        for _ in range(12):
            found = session.run("y:0", {x: fed})
            assert not found.ndim
            assert found == (fed.size == 0 if fed.ndim else fed)


def test_what_stands_where_a_call_was_is_no_call() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [3], name="x")
    y, z = g.ops.IdentityN([g.ops.Exp(x), g.ops.Neg(x)], T=["float32", "float32"])
    total = g.ops.Sub(y, z, name="total")
    feed = np.array([0.0, 1.0, 2.0], np.float32)
    with fe.blocking.Session(g) as session:
        assert "IdentityN" not in session.explain([total], [x], source=True)
        for _ in range(12):
            got = session.run([total, y, z], {x: feed})
            for one, wanted in zip(got, (np.exp(feed) + feed, np.exp(feed), -feed), strict=True):
                np.testing.assert_allclose(one, wanted, rtol=1e-6)


def test_numbers_are_written_as_operators() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    y = g.ops.Sub(g.ops.Mul(x, x), g.constant(2.0), name="y")
    with fe.blocking.Session(g) as session:
        source = session.explain(y, [x], source=True)
    assert "a0 * a0" in source
    assert "t0 - k" in source


def test_a_dead_buffer_is_written_to_again() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [3], name="x")
    a = g.ops.Exp(x, name="a")
    y = g.ops.Mul(g.ops.Tanh(a), a, name="y")
    with fe.blocking.Session(g) as session:
        source = session.explain(y, [x], source=True)
    # `a` is needed later, so Tanh gets memory of its own, which Mul then takes.
    assert "t1 = k1(t0)  " in source
    assert ", t1)" in source or ", t0)" in source


def _source(shape: list[int | None] | None, **fetched: Any) -> str:
    g = fe.Graph()
    x = g.placeholder("float32", shape, name="x")
    a = g.ops.Exp(x, name="a")
    g.ops.Neg(a, name="y")
    fetches = ["y:0", *(["a:0"] if fetched else [])]
    with fe.blocking.Session(g) as session:
        return session.explain(fetches, [x], source=True)


def test_what_is_handed_out_is_never_written_to() -> None:
    assert "k1(t0, t0)" in _source([3])
    assert "k1(t0, t0)" not in _source([3], also="a")


def test_an_array_of_unknown_rank_may_be_a_number() -> None:
    assert "k1(t0, t0)" not in _source(None)
    assert "k1(t0, t0)" not in _source([])
    assert "k1(t0, t0)" in _source([None, 2])


def test_what_a_view_shows_is_never_written_to() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [2, 3], name="x")
    a = g.ops.Exp(x)
    seen = g.ops.Reshape(a, [6])
    y = g.ops.Neg(a)
    z = g.ops.Neg(seen)
    feed = {x: np.arange(6, dtype=np.float32).reshape(2, 3)}
    with fe.blocking.Session(g) as session:
        source = session.explain([y, z], [x], source=True)
        assert source.count("(t0, t0)") == 0
        for _ in range(12):
            got = session.run([y, z], feed)
            np.testing.assert_array_equal(got[0].reshape(-1), got[1])


def test_an_operand_that_would_grow_is_not_written_to() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [1], name="x")
    y = g.placeholder("float32", [4], name="y")
    total = g.ops.Add(g.ops.Exp(x), y)
    with fe.blocking.Session(g) as session:
        for _ in range(12):
            got = session.run(total, {x: [0.0], y: np.arange(4, dtype=np.float32)})
            assert got.tolist() == [1.0, 2.0, 3.0, 4.0]
