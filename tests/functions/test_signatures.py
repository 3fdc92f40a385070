"""Functions that do not fit the call that names them: an error of ours that says how, and never a value."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.config import Config
from flowengine.core.errors import InvalidArgumentError
from flowengine.functions.lowering import CallLowering


def _defined(graph: fe.Graph) -> dict[str, Any]:
    """Functions by what they take and give: i is int64, n int32, f float32, b bool, s string, v variant."""

    def row(x: Any) -> Any:
        return x.graph.ops.TensorDataset([x], output_shapes=[[]])

    written: dict[str, tuple[list[str], Any]] = {
        "i_i": (["int64"], lambda x: x.graph.ops.Add(x, np.int64(5))),
        "ii_i": (["int64", "int64"], lambda x, y: x.graph.ops.Add(x, y)),
        "i_ii": (["int64"], lambda x: [x.graph.ops.Neg(x), x.graph.ops.Abs(x)]),
        "i_": (["int64"], lambda x: []),
        "i_b": (["int64"], lambda x: x.graph.ops.Less(x, np.int64(9))),
        "i_s": (["int64"], lambda x: x.graph.ops.AsString(x)),
        "i_v": (["int64"], row),
        "f_f": (["float32"], lambda x: x.graph.ops.Neg(x)),
        "ni_i": (["int32", "int64"], lambda n, x: x.graph.ops.Neg(x)),
    }
    return {name: fe.function(graph, types, name=name)(body).attr for name, (types, body) in written.items()}


FUNCTIONS: Final = sorted(_defined(fe.Graph()))
#: {op: the functions that fit it, first and second}
FIT: Final = {
    "If": ({"i_i"}, {"i_i"}),
    "Case": ({"i_i"}, {"i_i"}),
    "While": ({"i_b", "i_i", "i_s"}, {"i_i"}),
    "For": ({"ni_i"}, set(FUNCTIONS)),
    "StatefulPartitionedCall": ({"i_i"}, set(FUNCTIONS)),
}


def _call(graph: fe.Graph, op: str, first: Any, second: Any) -> Any:
    """A call; of one with branches the second function is run."""
    ops, x = graph.ops, graph.constant(np.int64(1))
    no, one = graph.constant(np.bool_(False)), graph.constant(np.int32(1))
    calls = {
        "If": lambda: ops.If(no, [x], then_branch=first, else_branch=second, Tout=["int64"]),
        "Case": lambda: ops.Case(one, [x], branches=[first, second], Tout=["int64"]),
        "While": lambda: ops.While([x], cond=first, body=second),
        "For": lambda: ops.For(np.int32(0), np.int32(3), np.int32(1), [x], body=first),
        "StatefulPartitionedCall": lambda: ops.StatefulPartitionedCall([x], f=first, Tout=["int64"]),
    }
    return calls[op]()[0]


@pytest.mark.parametrize("opens", [True, False])
@pytest.mark.parametrize("op", sorted(FIT))
def test_only_functions_that_fit_are_called(op: str, opens: bool) -> None:
    seconds = FUNCTIONS if op in ("If", "Case", "While") else ["i_i"]
    for first, second in product(FUNCTIONS, seconds):
        graph = fe.Graph()
        functions = _defined(graph)
        called = _call(graph, op, functions[first], functions[second])
        out = graph.ops.Identity(called)
        fits = second in FIT[op][1] and (op in ("If", "Case") or first in FIT[op][0])
        # Of those that fit only this condition ends the loop.
        if op == "While" and fits and first != "i_b":
            continue
        with fe.blocking.Session(graph, config=Config(open_calls=opens)) as session:
            if fits:
                assert session.run(out).dtype == np.int64
            else:
                with pytest.raises(InvalidArgumentError, match=r"function '\w+' (takes|gives) \(") as caught:
                    session.run(out)
                assert caught.value.node_name == called.op.name


@pytest.mark.parametrize("op", ["If", "Case"])
def test_of_a_branch_that_is_not_taken_nothing_is_asked(op: str) -> None:
    graph = fe.Graph()
    functions = _defined(graph)
    called = _call(graph, op, functions["f_f"], functions["i_i"])
    with fe.blocking.Session(graph) as session:
        assert session.run(called) == 6


def test_a_call_that_does_not_fit_is_no_code() -> None:
    graph = fe.Graph()
    functions = _defined(graph)
    called = _call(graph, "While", functions["i_b"], functions["ii_i"])
    before = list(graph)
    with pytest.raises(InvalidArgumentError, match=r"'ii_i' takes \(int64, int64\), and is given \(int64\)"):
        CallLowering(graph).lower(called.op.node, False)
    assert list(graph) == before


def test_what_goes_wrong_when_a_body_has_ended_names_the_call() -> None:
    """A body that waits has ended when nobody calls it any more: its result is looked at then."""
    graph = fe.Graph()

    @fe.function(graph, ["int64"], name="waits")
    def waits(x: Any) -> Any:
        ops = x.graph.ops
        queue = ops.FIFOQueueV2(component_types=["int64"], shapes=[[]], shared_name="q")
        with x.graph.control_dependencies([ops.QueueEnqueueV2(queue, [x])]):
            taken = ops.QueueDequeueV2(queue, component_types=["int64"])[0]
        return ops.Switch(taken, ops.Less(taken, np.int64(0))).output_true

    call = graph.ops.StatefulPartitionedCall([graph.constant(np.int64(1))], f=waits.attr, Tout=["int64"])[0]
    with fe.blocking.Session(graph, config=Config(open_calls=False)) as session:
        with pytest.raises(InvalidArgumentError, match="branch that would produce it") as caught:
            session.run(call)
        assert caught.value.node_name == call.op.name
