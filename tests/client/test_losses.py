"""Losses beside TensorFlow 1.15's: values and gradients by labels, predictions and weights."""

from __future__ import annotations

import numpy as np
import pytest

import flowengine as fe
from flowengine.client import losses
from flowengine.core.errors import InvalidArgumentError
from tests.client import replayed

#: Keywords that have another name with TensorFlow.
_OURS = {"multi_class_labels": "labels"}


@pytest.mark.parametrize("group", sorted({name.partition("/")[0] for name in replayed.names("losses")}))
async def test_a_loss_is_that_of_tensorflow(group: str) -> None:
    graph = fe.Graph()
    fetched = {}
    for name, case in replayed.by_name("losses").items():
        if name.partition("/")[0] != group:
            continue
        tensors = {_OURS.get(key, key): graph.constant(value) for key, value in case["inputs"].items()}
        value = replayed.function(case["ours"])(**tensors, **case["options"])
        floats = [key for key, tensor in tensors.items() if tensor.dtype.is_floating]
        found = fe.gradients(value, [tensors[key] for key in floats])
        theirs = {ours: key for key, ours in _OURS.items() if key in case["inputs"]}
        fetched[name] = {"value": value} | {
            f"d_{theirs.get(key, key)}": each
            for key, each in zip(floats, found, strict=True)
            if each is not None
        }
    async with fe.Session(graph) as session:
        got = await session.run(fetched)
    for name, values in got.items():
        replayed.compare("losses", name, values)


async def test_weights_whose_shape_is_not_known_are_checked_when_run() -> None:
    graph = fe.Graph()
    labels, weights = graph.placeholder("float32"), graph.placeholder("float32")
    loss = fe.losses.absolute_difference(labels, graph.constant(np.zeros((2, 3), np.float32)), weights)
    values = np.ones((2, 3), np.float32)
    async with fe.Session(graph) as session:
        for good in (np.float32(2), np.full((2, 1), 2, np.float32), np.full((1, 3), 2, np.float32)):
            assert await session.run(loss, {labels: values, weights: good}) == 2.0
        with pytest.raises(InvalidArgumentError, match="weights of shape"):
            await session.run(loss, {labels: values, weights: np.ones(3, np.float32)})


def test_what_does_not_fit_is_told_when_it_is_written() -> None:
    graph = fe.Graph()
    predictions = graph.placeholder("float32", [2, 3])
    with pytest.raises(InvalidArgumentError, match=r"labels have the shape \[3,2\]"):
        fe.losses.mean_squared_error(np.zeros((3, 2)), predictions)
    with pytest.raises(InvalidArgumentError, match="weights of shape"):
        fe.losses.huber(predictions, predictions, np.ones(3, np.float32))
    with pytest.raises(InvalidArgumentError, match="reduction is one of"):
        fe.losses.huber(predictions, predictions, reduction="mean")
    with pytest.raises(InvalidArgumentError, match="none of the arguments"):
        fe.losses.huber(1.0, 2.0)


async def test_losses_are_collected_and_summed() -> None:
    graph = fe.Graph()
    x = graph.constant([1.0, 3.0])
    first = fe.losses.mean_squared_error([0.0, 0.0], x)
    fe.losses.absolute_difference([0.0, 0.0], x, collection=None)
    second = fe.losses.absolute_difference([0.0, 0.0], x, name="second")
    assert losses.collected(graph) == [first, second]
    assert second.name.startswith("second/")
    async with fe.Session(graph) as session:
        assert await session.run(losses.total(graph)) == 5.0 + 2.0
    with pytest.raises(InvalidArgumentError, match="no losses"):
        losses.total(fe.Graph())


async def test_predictions_of_float64_are_summed_in_float64() -> None:
    graph = fe.Graph()
    x = graph.constant(np.array([1 / 3, 2 / 3]))
    loss = fe.losses.mean_squared_error(np.array([0.1, 0.2]), x)
    assert loss.dtype is fe.dtypes.float64
    async with fe.Session(graph) as session:
        assert abs(await session.run(loss) - np.mean((np.array([1 / 3, 2 / 3]) - [0.1, 0.2]) ** 2)) < 1e-15


@pytest.mark.parametrize("name", replayed.names("regularizers"))
async def test_a_regulariser_is_that_of_tensorflow(name: str) -> None:
    case = replayed.by_name("regularizers")[name]
    graph = fe.Graph()
    x = graph.constant(case["inputs"]["tensor"])
    value = replayed.function(case["ours"])(**case["options"])(x)
    async with fe.Session(graph) as session:
        got = await session.run({"value": value, "d_tensor": fe.gradients(value, [x])[0]})
    replayed.compare("regularizers", name, got)
