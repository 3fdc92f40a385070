"""Random graphs of ops that were named: those are drawn, and what cannot be drawn is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.ir.names import CONTROL_FLOW_OPS
from flowengine.kernels.load import load_all
from flowengine.ops.load import registry
from flowengine.resources.container import ResourceManager
from flowengine.testing import evaluate, strategies
from flowengine.testing.strategies import DrawnOp, GraphCase

OPS = fe.OpRegistry(parent=registry())
OPS.register(
    fe.OpDef.parse("Halve(x: T) -> y: T", "T: {float, double}", shape=lambda context: [context.input(0)])
)
OPS.register(fe.OpDef.parse("Between(x: T, y: T) -> z: T", "weight: float; T: {float, double}"))
KERNELS = fe.KernelRegistry(parent=load_all())


@KERNELS.kernel("Halve")
def halve(x: Any) -> Any:
    return x / x.dtype.type(2)


@KERNELS.kernel("Between")
def between(x: Any, y: Any, *, weight: float) -> Any:
    return x + (y - x) * x.dtype.type(weight)


#: Looks for an example, and does not make it smaller.
LOOKS = settings(max_examples=3000, phases=[Phase.generate], database=None)

OWN: list[str | DrawnOp] = ["Halve", DrawnOp("Between", attrs={"weight": st.sampled_from([0.25, 0.5])})]


def steps(case: GraphCase) -> list[Any]:
    """Return the values that the engine gives as bytes, so that NaN equals itself."""

    async def run() -> list[Any]:
        async with fe.Session(case.graph, kernels=KERNELS) as session:
            for name in case.setup:
                await session.run([], targets=[name])
            return [await session.run(list(f), dict(d), targets=case.targets) for f, d in case.runs]

    return [[np.asarray(value).tobytes() for value in values] for values in trio.run(run)]


def wanted(case: GraphCase) -> list[Any]:
    """The same of the interpreter."""
    resources = ResourceManager()
    for name in case.setup:
        evaluate(case.graph, [], targets=[name], resources=resources, kernels=KERNELS)
    values = [
        evaluate(case.graph, f, d, case.targets, resources=resources, kernels=KERNELS) for f, d in case.runs
    ]
    return [[np.asarray(value).tobytes() for value in each] for each in values]


@settings(max_examples=30)
@given(strategies.graphs(ops=[*OWN, "AddN", "MatMul", "Select"], registry=OPS))
def test_the_engine_gives_what_the_interpreter_does(case: GraphCase) -> None:
    assert steps(case) == wanted(case)


def own_ops(case: GraphCase) -> list[str]:
    return [node.op for node in case.graph if node.op in ("Halve", "Between")]


@settings(max_examples=30)
@given(strategies.graphs(ops=OWN, registry=OPS, variables=False, loops=False, conditionals=False))
def test_nothing_else_computes(case: GraphCase) -> None:
    around = {"Placeholder", "Const", "Identity", "Unpack", "TensorArrayV3", *CONTROL_FLOW_OPS}
    around |= {f"TensorArray{what}V3" for what in ("Write", "Read", "Gather")}
    assert {node.op for node in case.graph} <= around | {"Halve", "Between"}


@pytest.mark.parametrize(
    "wish",
    [
        lambda case: {"Halve", "Between"} <= set(own_ops(case)),
        lambda case: any(
            node.op == "Halve" and node.inputs[0].node.startswith("Halve") for node in case.graph
        ),
        # Without a shape function the end of a chain: fetched all the same.
        lambda case: any(name.startswith("Between") for fetches, _ in case.runs for name in fetches),
        lambda case: {0.25, 0.5} <= {node.attrs["weight"] for node in case.graph if node.op == "Between"},
        lambda case: any(node.op == "LoopCond" for node in case.graph) and "Halve" in own_ops(case),
    ],
)
def test_the_named_ops_are_found(wish: Any) -> None:
    find(strategies.graphs(ops=OWN, registry=OPS, variables=False, runs=1), wish, settings=LOOKS)


def test_inputs_of_several_types_lists_and_shapes_are_drawn() -> None:
    def case_with(*ops: Any, wish: Any) -> GraphCase:
        return find(strategies.graphs(ops=ops, variables=False, loops=False, runs=1), wish, settings=LOOKS)

    def node(op: str, **attrs: Any) -> Any:
        def is_there(case: GraphCase) -> bool:
            return any(n.op == op and all(n.attrs[k] == v for k, v in attrs.items()) for n in case.graph)

        return is_there

    case_with("AddN", wish=node("AddN", N=3))
    case_with("Cast", wish=node("Cast", SrcT=fe.dtypes.bool_, DstT=fe.dtypes.float32))
    case_with("IdentityN", wish=node("IdentityN", T=(fe.dtypes.int32, fe.dtypes.float32)))
    case_with("Erf", wish=node("Erf", T=fe.dtypes.float32))
    case_with("MatMul", DrawnOp("Transpose"), wish=node("MatMul", transpose_a=False))
    case_with(DrawnOp("MatMul", {"transpose_b": True}), wish=node("MatMul", transpose_b=True))


@pytest.mark.parametrize(
    ("ops", "error", "text"),
    [
        (["Nothing"], fe.errors.NotFoundError, "Nothing"),
        ([], fe.errors.InvalidArgumentError, "names no op"),
        (["RandomUniform"], fe.errors.InvalidArgumentError, "RandomUniform has state"),
        (["Assign"], fe.errors.InvalidArgumentError, "Assign has state"),
        (["StringLength"], fe.errors.InvalidArgumentError, "takes a string"),
        (["Between"], fe.errors.InvalidArgumentError, r"'weight' \(float\) has no default: say DrawnOp"),
        ([DrawnOp("Halve", {"heavy": 1})], fe.errors.InvalidArgumentError, "no attribute heavy"),
    ],
)
def test_what_cannot_be_drawn_is_refused(ops: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        find(strategies.graphs(ops=ops, registry=OPS), lambda case: True, settings=LOOKS)
