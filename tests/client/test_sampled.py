"""Sampled softmax and noise-contrastive estimation beside TensorFlow 1.15's; what the samplers draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError
from flowengine.gradients.values import dense
from tests.client import replayed


def _loss(graph: fe.Graph, case: dict[str, Any]) -> dict[str, Any]:
    inputs = case["inputs"]
    weights = [graph.constant(part) for part in inputs["weights"]]
    biases, activations = graph.constant(inputs["biases"]), graph.constant(inputs["inputs"])
    drawn = fe.sampled.Candidates(*(graph.constant(each) for each in inputs["drawn"]))
    value = replayed.function(case["ours"])(
        weights,
        biases,
        graph.constant(inputs["labels"]),
        activations,
        sampled_values=drawn,
        **case["options"],
    )
    found = fe.gradients(value, [activations, biases, *weights])
    made = {
        f"d_{i}": each if isinstance(each, fe.Tensor) else dense(graph, graph.ops, each)
        for i, each in enumerate(found)
        if each is not None
    }
    return {"value": value, **made}


async def test_losses_over_samples_are_those_of_tensorflow() -> None:
    graph = fe.Graph()
    fetched = {name: _loss(graph, case) for name, case in replayed.by_name("sampled").items()}
    async with fe.Session(graph) as session:
        for name, got in (await session.run(fetched)).items():
            replayed.compare("sampled", name, got, rtol=1e-4, atol=1e-5)


async def test_samplers_draw_from_their_range_and_the_same_by_seed() -> None:
    graph = fe.Graph()
    true = graph.constant(np.array([[1], [2]], np.int64))
    drawn = {
        "log_uniform": fe.sampled.log_uniform_sampler(true, 1, 6, True, 20, seed=1),
        "uniform": fe.sampled.uniform_sampler(true, 1, 6, True, 20, seed=1),
        "learned": fe.sampled.learned_unigram_sampler(true, 1, 6, True, 20, seed=1),
        "fixed": fe.sampled.fixed_unigram_sampler(true, 1, 6, False, 4, unigrams=[0, 1, 1, 0], seed=1),
        "all": fe.sampled.all_candidates(true, 1, 6, True),
    }
    seen = []
    for _ in range(2):
        async with fe.Session(graph) as session:
            seen.append(await session.run(drawn))
    for name, got in seen[0].items():
        assert got.sampled.shape == (6,)
        assert got.true_expected_count.shape == (2, 1)
        assert set(got.sampled) <= ({1, 2} if name == "fixed" else set(range(20)))
        np.testing.assert_array_equal(got.sampled, seen[1][name].sampled)
    assert len(set(seen[0]["uniform"].sampled)) == 6
    np.testing.assert_array_equal(seen[0]["all"].sampled, range(6))


def test_there_is_at_least_one_sample() -> None:
    graph = fe.Graph()
    with pytest.raises(InvalidArgumentError, match="at least 1"):
        fe.sampled.softmax_loss(graph.constant([[1.0]]), [0.0], [[0]], graph.constant([[1.0]]), 0, 1)


@pytest.mark.parametrize("name", replayed.names("samplers"))
async def test_with_a_seed_samplers_draw_what_those_of_tensorflow_draw(name: str) -> None:
    case = replayed.by_name("samplers")[name]
    graph = fe.Graph()
    drawn = replayed.function(case["ours"])(graph.constant(case["inputs"]["true_classes"]), **case["options"])
    async with fe.Session(graph) as session:
        found = [await session.run(drawn) for _ in range(3)]
    got = {f"value {number}": np.array([each[number] for each in found]) for number in range(3)}
    replayed.compare("samplers", name, got)
