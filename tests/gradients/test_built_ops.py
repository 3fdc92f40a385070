"""The derivatives of small graphs around single ops beside finite differences, of first and second order."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe
from flowengine.gradients.index import GRADIENTS
from flowengine.gradients.values import dense
from tests.gradients.built_ops import BUILT, KIND, SHAPE
from tests.gradients.peculiar import APART, ELSEWHERE
from tests.oprecords.found import RECORDS

_STEP: Final = 1e-6
_AT: Final = np.array([[0.3, -0.7], [1.1, 0.4], [-0.2, 0.9]])
#: {names of ops: why what was built of them is differentiated once only}
_ONCE: Final = {
    "Batch Unbatch": "the gradient of what is parted for all steps has none",
}


def _changes(session: Any, ys: Any, x: fe.Tensor, weights: Any, way: Any) -> float:
    ends = []
    for sign in (1, -1):
        values = session.run(ys, {x: _AT + sign * _STEP * way})
        ends.append(sum(np.vdot(w, value) for w, value in zip(weights, values, strict=True)))
    return float(ends[0] - ends[1]) / (2 * _STEP)


def _gradient(graph: fe.Graph, ys: list[fe.Tensor], by: fe.Tensor, weights: Any) -> fe.Tensor:
    (found,) = fe.gradients(ys, by, [graph.constant(weight, KIND) for weight in weights])
    assert found is not None
    return found if isinstance(found, fe.Tensor) else dense(graph, graph.ops, found)


@pytest.mark.parametrize("names", BUILT)
def test_derivatives_agree_with_differences(names: str) -> None:
    random = np.random.default_rng(5)
    graph = fe.Graph()
    x = graph.placeholder(KIND, SHAPE)
    built = BUILT[names](graph, x)
    missing = set(names.split()) - {operation.type for operation in graph.operations()}
    way = random.normal(size=SHAPE)
    with fe.blocking.Session(graph) as session:
        weights = [random.normal(size=np.shape(value)) for value in session.run(built.ys, {x: _AT})]
        first = _gradient(graph, built.ys, built.by, weights)
        told = np.vdot(session.run(first, {x: _AT}), way)
        assert told == pytest.approx(_changes(session, built.ys, x, weights, way), rel=1e-6, abs=1e-7)
        if names in _ONCE:
            return
        again = [random.normal(size=SHAPE)]
        second = _gradient(graph, [first], built.by, again)
        told = np.vdot(session.run(second, {x: _AT}), way)
        assert told == pytest.approx(_changes(session, [first], x, again, way), rel=1e-6, abs=1e-6)
    missing -= {operation.type for operation in graph.operations()}
    assert not missing


def test_every_op_with_a_gradient_is_looked_at() -> None:
    """By its record, by a graph of its own, or by a test that names it; or there is a reason."""
    differentiated = {op for ops in GRADIENTS.values() for op in ops.split()}
    told = {record.op for record in RECORDS if record.differentiable}
    built = {op for names in BUILT for op in names.split()}
    named = {op for names in ELSEWHERE.values() for op in names.split()}
    assert sorted(differentiated - told - built - named - APART.keys()) == []
    assert sorted(told & APART.keys()) == []


@pytest.mark.parametrize("module", ELSEWHERE)
def test_the_test_names_the_ops(module: str) -> None:
    text = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    assert [op for op in ELSEWHERE[module].split() if f"{op}" not in text] == []
