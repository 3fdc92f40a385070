"""Streaming metrics beside TensorFlow 1.15's, over 20 batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError
from tests.client import replayed
from tests.client.cases import STEPS

#: Keywords that have another name here.
_OURS = {"dim": "axis", "predictions_idx": "predicted"}


def _group(name: str) -> str:
    return name.partition("/")[0].partition("_at_")[0]


@pytest.mark.parametrize("group", sorted({_group(name) for name in replayed.names("metrics")}))
async def test_a_metric_is_that_of_tensorflow(group: str) -> None:
    graph = fe.Graph()
    metrics: dict[str, Any] = {}
    feeds: list[dict[Any, Any]] = [{} for _ in range(STEPS)]
    for name, case in replayed.by_name("metrics").items():
        if _group(name) != group:
            continue
        inputs = {}
        for theirs, value in case["inputs"].items():
            key = _OURS.get(theirs, theirs)
            inputs[key] = graph.placeholder(value.dtype, value.shape[1:])
            for feed, batch in zip(feeds, value, strict=True):
                feed[inputs[key]] = batch
        options = {_OURS.get(key, key): value for key, value in case["options"].items()}
        metrics[name] = replayed.function(case["ours"])(**inputs, **options)
    values: dict[str, list[Any]] = {name: [] for name in metrics}
    async with fe.Session(graph) as session:
        await session.run([each.initializer for each in graph.collection("local_variables")])
        for feed in feeds:
            updates = await session.run({name: each.update for name, each in metrics.items()}, feed)
            now = await session.run({name: each.value for name, each in metrics.items()})
            for name in metrics:
                np.testing.assert_array_equal(updates[name], now[name], err_msg=name)
                values[name].append(now[name])
    for name, seen in values.items():
        replayed.compare("metrics", name, {"value": np.array(seen)})


def test_the_sums_are_local_variables_under_the_names_of_tensorflow() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [3])
    fe.metrics.mean(x)
    fe.metrics.precision(x, x, name="mine")
    names = [each.name for each in graph.collection("local_variables")]
    assert names == [
        "mean/total:0",
        "mean/count:0",
        "mine/true_positives/count:0",
        "mine/false_positives/count:0",
    ]
    assert graph.collection(fe.metrics.METRIC_VARIABLES) == graph.collection("local_variables")
    assert list(graph.collection("trainable_variables")) == []


async def test_predictions_outside_of_0_and_1_have_no_thresholds() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [2])
    metric = fe.metrics.auc([0, 1], x)
    async with fe.Session(graph) as session:
        await session.run([each.initializer for each in graph.collection("local_variables")])
        with pytest.raises(InvalidArgumentError, match="from 0 to 1"):
            await session.run(metric.update, {x: np.array([0.5, 1.5], np.float32)})


def test_what_does_not_fit_is_told_when_it_is_written() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [2, 3])
    with pytest.raises(InvalidArgumentError, match=r"labels have the shape \[4\]"):
        fe.metrics.accuracy([1.0, 2.0, 3.0, 4.0], x)
    with pytest.raises(InvalidArgumentError, match="weights of shape"):
        fe.metrics.mean(x, [1.0, 2.0, 3.0, 4.0])
    with pytest.raises(InvalidArgumentError, match="summation_method of ROC"):
        fe.metrics.auc(x, x, summation_method="careful_interpolation")
    with pytest.raises(InvalidArgumentError, match="specificity is from 0 to 1"):
        fe.metrics.sensitivity_at_specificity(x, x, 1.5)
    with pytest.raises(InvalidArgumentError, match="must be known"):
        fe.metrics.mean_tensor(graph.placeholder("float32", [None]))


async def test_a_confusion_matrix_counts_by_class() -> None:
    graph = fe.Graph()
    found = fe.metrics.confusion_matrix(
        graph.constant([0, 1, 1, 2]), [0, 1, 2, 2], 3, [1.0, 2.0, 3.0, 4.0], dtype="float32"
    )
    async with fe.Session(graph) as session:
        np.testing.assert_array_equal(await session.run(found), [[1, 0, 0], [0, 2, 3], [0, 0, 4]])


@pytest.mark.parametrize("name", replayed.names("confusion"))
async def test_a_matrix_of_confusion_is_that_of_tensorflow(name: str) -> None:
    case = replayed.by_name("confusion")[name]
    graph = fe.Graph()
    inputs = {key: graph.constant(value) for key, value in case["inputs"].items()}
    value = replayed.function(case["ours"])(**inputs, **case["options"])
    async with fe.Session(graph) as session:
        replayed.compare("confusion", name, {"value": await session.run(value)})
