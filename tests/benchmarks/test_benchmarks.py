"""The benchmarks compute what they claim to; beside TensorFlow, where there is one, the limits hold."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from tests.benchmarks import building, startup
from tests.benchmarks.__main__ import compare, line
from tests.benchmarks.engines import Engine
from tests.benchmarks.workloads import WORKLOADS, Workload

TENSORFLOW = os.environ.get("FLOWENGINE_TENSORFLOW_PYTHON")
needs_tensorflow = pytest.mark.skipif(
    TENSORFLOW is None, reason="FLOWENGINE_TENSORFLOW_PYTHON names no Python that has TensorFlow"
)

X = np.linspace(-1, 1, 4, dtype=np.float32)


def chain_of_both(x: Any, pairs: int) -> Any:
    y = x
    for _ in range(pairs):
        y = np.tanh(y * x)
    return y


def applied(function: Any, times: int, x: Any) -> Any:
    for _ in range(times):
        x = function(x)
    return x


VALUES = {
    "one_op_run": -2.0,
    "one_op_callable": -2.0,
    "chain_of_1000_ops": chain_of_both(X, 500),
    "chain_of_1000_tanh": applied(np.tanh, 1000, X),
    "chain_of_scalar_adds": 500.5,
    "while_of_1000_iterations": applied(np.tanh, 1000, np.float32(0.5)),
    "queue_pass": 1.0,
}


def play(work: Workload) -> Any:
    async def main() -> Any:
        async with fe.Session(fe.Graph.from_graph_def(work.graph)) as session:
            for run in work.setup:
                await session.run(list(run.fetches), run.feeds, targets=run.targets)
            first = await session.run(list(work.run.fetches), work.run.feeds, targets=work.run.targets)
            second = await session.run(list(work.run.fetches), work.run.feeds, targets=work.run.targets)
            return first[0], second[0]

    return trio.run(main)


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_a_workload_computes_what_it_claims(name: str) -> None:
    work = WORKLOADS[name]()
    assert len(work.expectation) > 40, "each says what it is expected to cost"
    first, second = play(work)
    if name in VALUES:
        np.testing.assert_allclose(first, VALUES[name], rtol=1e-5)
    elif name == "perceptron_training_step":
        assert second < first
    else:
        assert np.isfinite(first).all()


@pytest.mark.slow
def test_an_engine_answers_from_its_own_process(tmp_path: Path) -> None:
    with Engine.flowengine() as engine:
        result = compare(WORKLOADS["one_op_run"](), [engine], rounds=1)
        assert "absolute" in line(result)
        bad = Workload("bad", b"", WORKLOADS["one_op_run"]().run)
        assert "failed" in line(compare(bad, [engine], rounds=1))


def test_the_graph_that_is_built_trains() -> None:
    graph = building.build(2)
    assert len(graph.collection("trainable_variables")) == 3 * 94 + 2
    assert {"Conv2D", "FusedBatchNormV3", "Conv2DBackpropFilter"} <= {node.op for node in graph}
    assert graph.shape_of(graph["dense/BiasAdd"].inputs[0]).as_list() == [2, 1000]


@pytest.mark.slow
@needs_tensorflow
@pytest.mark.parametrize("name", [n for n in sorted(WORKLOADS) if WORKLOADS[n]().limit is not None])
def test_limits_beside_tensorflow(name: str) -> None:
    assert TENSORFLOW is not None
    with Engine.flowengine() as ours, Engine.tensorflow(TENSORFLOW) as theirs:
        result = compare(WORKLOADS[name](), [ours, theirs], rounds=15)
    assert result["limit"] is not None
    assert result["step"][0] / result["step"][1] <= result["limit"], line(result)


@pytest.mark.slow
@needs_tensorflow
def test_the_command_line_starts_in_a_fifth_of_the_time(tmp_path: Path) -> None:
    ours, theirs = startup.interleaved(startup.command_line_commands(tmp_path, TENSORFLOW), rounds=5)
    assert ours / theirs <= 1 / 5


@pytest.mark.slow
def test_importing_costs_little_more_than_importing_numpy() -> None:
    ours, numpys = startup.import_ratio()
    assert ours / numpys <= 1.3
