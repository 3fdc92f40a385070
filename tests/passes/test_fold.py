"""Folding computes what it may, and nothing else."""

from __future__ import annotations

import tracemalloc
import zlib
from typing import Any

import numpy as np
import pytest

import flowengine.kernels.load
from flowengine.core.errors import ResourceExhaustedError
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.opdef import OpDef, OpRegistry
from flowengine.ir.validate import check_graph
from flowengine.kernels.registry import KernelRegistry
from flowengine.ops.load import registry
from flowengine.passes.context import PassContext
from flowengine.passes.pipeline import prepare
from flowengine.passes.simplify import fold
from flowengine.passes.simplify.fold import (
    FOLDED_BYTES_MAX,
    FOLDED_BYTES_TOTAL_MAX,
    FoldingAccount,
    fold_constants,
)
from flowengine.passes.simplify.prune import prune

KERNELS = flowengine.kernels.load.load_all()


def context(*fetches: Tensor, feeds: tuple[Tensor, ...] = (), kernels: Any = KERNELS) -> PassContext:
    return PassContext(
        feeds=tuple(t.port for t in feeds), fetches=tuple(t.port for t in fetches), kernels=kernels
    )


def folded(
    graph: Graph, *fetches: Tensor, feeds: tuple[Tensor, ...] = (), kernels: Any = KERNELS
) -> NodeGraph:
    result = prepare(graph, context(*fetches, feeds=feeds, kernels=kernels))
    check_graph(result, supplied=[t.port for t in feeds])
    return result


def value(node: Node) -> Any:
    assert node.op == "Const"
    return node.attrs["value"].value()


def test_a_tree_of_constants_becomes_one() -> None:
    g = Graph()
    x = g.placeholder("float32", [2], name="x")
    scale = g.ops.Mul(g.ops.Add(g.constant(1.0), g.constant(2.0)), g.constant(4.0), name="scale")
    y = g.ops.Mul(x, scale, name="y")
    result = folded(g, y, feeds=(x,))
    assert list(result.nodes) == ["scale", "y"]
    assert value(result["scale"]) == 12.0
    assert value(result["scale"]).dtype == np.float32
    assert result["y"] is g["y"]


def test_lists_and_several_outputs() -> None:
    g = Graph()
    both = g.ops.ConcatV2([g.constant([1, 2]), g.constant([3, 4])], g.constant(0), name="both")
    first, second = g.ops.Split(g.constant(0), both, num_split=2, name="split")
    x = g.placeholder("int32", [2], name="x")
    y = g.ops.Add(g.ops.Mul(first, x), second, name="y")
    result = prune(fold_constants(g, context(y, feeds=(x,))), context(y, feeds=(x,)))
    assert "split" not in result
    assert value(result["_folded/split/0"]).tolist() == [1, 2]
    assert result["y"].inputs[1] == OutputPort("_folded/split/1", 0)
    # What is fetched keeps its node; its consumers go on with the constant.
    kept = fold_constants(g, context(y, first, feeds=(x,)))
    assert kept["split"].op == "Split"
    assert kept["y"].inputs[1].node == "_folded/split/1"


def test_strings() -> None:
    g = Graph()
    joined = g.ops.ConcatV2([g.constant([b"a\0"]), g.constant([b"b"])], g.constant(0), name="joined")
    assert value(folded(g, joined)["joined"]).tolist() == [b"a\0", b"b"]


def test_the_constant_waits_for_all_that_its_parts_waited_for() -> None:
    g = Graph()
    x = g.placeholder("float32", [], name="x")
    first, second, third = g.ops.Neg(x, name="first"), g.ops.Abs(x, name="second"), g.ops.Exp(x, name="third")
    with g.control_dependencies([first]):
        a = g.constant(1.0)
    with g.control_dependencies([second]):
        b = g.constant(2.0)
    with g.control_dependencies([third, first]):
        c = g.ops.Add(a, b, name="c")
    result = folded(g, c, feeds=(x,))
    assert set(result["c"].control_inputs) == {"first", "second", "third"}
    assert result["c"].op == "Const"


def test_the_device_and_colocation_stay() -> None:
    g = Graph()
    x = g.placeholder("float32", [], name="x")
    with g.colocate_with(x), g.device("/device:CPU:1"):
        y = g.ops.Neg(g.constant(1.0), name="y")
    node = folded(g, y, feeds=(x,))["y"]
    assert (node.op, node.device, node.attrs["_class"]) == ("Const", "/device:CPU:1", (b"loc:@x",))


def test_what_is_fed_is_no_constant() -> None:
    g = Graph()
    c = g.constant(1.0, name="c")
    d = g.ops.Neg(c, name="d")
    e = g.ops.Neg(d, name="e")
    assert folded(g, e, feeds=(c,))["e"] is g["e"]
    assert folded(g, e, feeds=(d,))["e"] is g["e"]
    assert folded(g, e)["e"].op == "Const"


def test_of_a_node_of_which_any_output_is_fed_nothing_is_folded() -> None:
    """Nodes that read a fed output read the feed, however many other outputs there are."""
    g = Graph()
    first, second = g.ops.Split(g.constant(0), g.constant([1, 2]), num_split=2, name="split")
    ends = [g.ops.Neg(each, name=f"end{slot}") for slot, each in enumerate((first, second))]
    for fed in (first, second):
        result = folded(g, *ends, feeds=(fed,))
        assert [result[f"end{slot}"].inputs for slot in range(2)] == [(first.port,), (second.port,)]


@pytest.mark.parametrize(
    "build",
    [
        lambda g: g.ops.RandomUniform(g.constant([2]), dtype="float32"),
        lambda g: g.ops.PlaceholderWithDefault(g.constant(1.0), shape=[]),
        lambda g: g.ops.Switch(g.constant(1.0), g.constant(True))[0],
        lambda g: g.ops.Merge([g.constant(1.0), g.constant(2.0)])[0],
        lambda g: g.ops.Enter(g.constant(1.0), frame_name="f"),
        lambda g: g.ops.ReadFile(g.constant(b"/nowhere")),
        lambda g: g.ops.EmptyTensorList(g.constant([2]), g.constant(3), element_dtype="float32"),
        lambda g: g.ops.TensorArrayV3(g.constant(3), dtype="float32")[1],
        # Errors are for the step that meets them.
        lambda g: g.ops.Div(g.constant(1), g.constant(0)),
        lambda g: g.ops.GatherV2(g.constant([1.0, 2.0]), g.constant([7]), g.constant(0)),
        # Too large, or of a size that only running would tell.
        lambda g: g.ops.Fill(g.constant([FOLDED_BYTES_MAX // 4 + 1]), g.constant(1.0)),
        lambda g: g.ops.Fill(g.constant([2**40]), g.constant(1.0)),
        lambda g: g.ops.Where(g.constant([True, False])),
    ],
)
def test_what_is_left_to_the_step(build: Any) -> None:
    g = Graph()
    y = build(g)
    context_ = PassContext(fetches=(y.port,), kernels=KERNELS)
    assert fold_constants(g, context_) is g


def test_a_large_result_at_the_limit_is_made() -> None:
    g = Graph()
    y = g.ops.Fill(g.constant([FOLDED_BYTES_MAX // 4]), g.constant(1.0), name="y")
    assert value(folded(g, y)["y"]).nbytes == FOLDED_BYTES_MAX


def test_a_large_input_is_not_read() -> None:
    g = Graph()
    big = g.constant(0.0, shape=[FOLDED_BYTES_MAX // 4 + 1])
    y = g.ops.Sum(big, g.constant([0]), name="y")
    assert folded(g, y)["y"].op == "Sum"


def test_what_takes_long_is_left_to_the_threads_of_the_step() -> None:
    g = Graph()
    a = g.constant(0.0, shape=[1500, 1500])
    y = g.ops.MatMul(a, a, name="y")
    assert folded(g, y)["y"].op == "MatMul"


def test_all_results_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "thread_time", lambda: 0.0)
    g = Graph()
    tensor = g.constant(0.0, shape=[FOLDED_BYTES_MAX // 4])
    count = FOLDED_BYTES_TOTAL_MAX // FOLDED_BYTES_MAX
    for _ in range(count + 3):
        tensor = g.ops.Neg(tensor)
    result = folded(g, tensor)
    assert sum(node.op == "Neg" for node in result) == 3


def test_the_result_cannot_be_written_to() -> None:
    g = Graph()
    y = g.ops.Neg(g.constant([1.0, 2.0]), name="y")
    assert not value(folded(g, y)["y"]).flags.writeable


def own_op(function: Any, **options: Any) -> tuple[Graph, Tensor, KernelRegistry]:
    ops = OpRegistry(registry())
    ops.register(
        OpDef.build(
            "Own",
            inputs=["x: float"],
            outputs=["y: float"],
            shape=lambda c: [c.input(0)],
            **options,
        )
    )
    kernels = KernelRegistry(KERNELS)
    kernels.kernel("Own")(function)
    g = Graph(registry=ops)
    return g, g.ops["Own"](g.constant([1.0, 2.0]), name="y"), kernels


def test_an_op_of_the_user_is_folded_like_any_other() -> None:
    g, y, kernels = own_op(lambda x: x + 1)
    assert value(folded(g, y, kernels=kernels)["y"]).tolist() == [2, 3]


def test_a_kernel_is_given_a_list_argument_as_it_is_in_a_step() -> None:
    """As a tuple, which nothing can change, and which can be added to another."""
    seen: list[type] = []

    def packed(values: Any, axis: int = 0) -> Any:
        seen.append(type(values))
        return np.stack(values, axis)

    kernels = KernelRegistry()
    kernels.kernel("Pack")(packed)
    g = Graph()
    both = g.ops.Pack([g.constant(1), g.constant(2)], name="both")
    assert value(folded(g, both, kernels=kernels)["both"]).tolist() == [1, 2]
    assert seen == [tuple]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.astype(np.float64),
        lambda x: None,
        lambda x: "text",
        lambda x: (x, x),
        lambda x: 1 / 0,
    ],
)
def test_a_kernel_that_does_not_keep_its_word_is_left_to_the_step(function: Any) -> None:
    g, y, kernels = own_op(function)
    assert folded(g, y, kernels=kernels)["y"].op == "Own"


def test_a_stateful_or_waiting_op_is_not_folded() -> None:
    g, y, kernels = own_op(lambda x: x, is_stateful=True)
    assert folded(g, y, kernels=kernels)["y"].op == "Own"

    async def wait(x: Any) -> Any:
        return x

    g, y, kernels = own_op(wait)
    assert folded(g, y, kernels=kernels)["y"].op == "Own"

    def ask(x: Any, *, ctx: Any) -> Any:
        return x

    g, y, kernels = own_op(ask)
    assert folded(g, y, kernels=kernels)["y"].op == "Own"


def test_it_can_be_switched_off() -> None:
    g = Graph()
    y = g.ops.Neg(g.constant(1.0), name="y")
    off = PassContext(fetches=(y.port,), kernels=KERNELS, fold_constants=False)
    assert prepare(g, off)["y"].op == "Neg"
    assert folded(g, y, kernels=None)["y"].op == "Neg"


@pytest.mark.parametrize(
    "large",
    [
        lambda g: g.ops.AsString(g.constant([1, 2, 3]), width=20_000_000),
        lambda g: g.ops.StaticRegexReplace(
            g.constant(b"a" * 300), pattern="a", rewrite=b"b" * 100_000, replace_global=True
        ),
        lambda g: g.ops.DecodeCompressed(
            g.constant(zlib.compress(bytes(30_000_000))), compression_type="ZLIB"
        ),
    ],
)
def test_a_kernel_that_asks_for_too_much_is_left_to_the_step(large: Any) -> None:
    g = Graph()
    y = large(g)
    tracemalloc.start()
    try:
        kept = folded(g, y)
        assert tracemalloc.get_traced_memory()[1] < 2 * FOLDED_BYTES_MAX
    finally:
        tracemalloc.stop()
    assert kept[y.port.node].op != "Const"


def test_a_kernel_may_make_as_much_as_a_folded_node_may_hold() -> None:
    FoldingAccount().check(FOLDED_BYTES_MAX)
    with pytest.raises(ResourceExhaustedError, match="too many to be folded"):
        FoldingAccount().check(FOLDED_BYTES_MAX + 1)
