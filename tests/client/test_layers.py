"""Layers beside TensorFlow 1.15's: what comes out, names of variables, and 20 steps of training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError
from tests.client import replayed
from tests.client.trained import after_training, assigned

pytestmark = pytest.mark.provided

GROUPS = sorted({name.partition("/")[0] for name in replayed.names("layers")})


#: What options are told by, here.
TOLD: dict[str, Callable[[Any], Any]] = {
    "activation": lambda name: getattr(fe.nn, name),
    **{
        f"{part}_regularizer": lambda factor: fe.regularizers.l2(2 * factor)
        for part in ("activity", "kernel", "bias")
    },
}


def relu(x: fe.Tensor) -> fe.Tensor:
    result: fe.Tensor = x.graph.ops.Relu(x)
    return result


@pytest.mark.parametrize("group", GROUPS)
async def test_a_layer_is_that_of_tensorflow(group: str) -> None:
    for name, case in replayed.by_name("layers").items():
        if name.partition("/")[0] != group:
            continue
        graph = fe.Graph()
        options = {key: TOLD[key](value) if key in TOLD else value for key, value in case["options"].items()}
        inputs = {key: graph.constant(value) for key, value in case["inputs"].items()}
        first = [inputs.pop("inputs")] if "inputs" in inputs else []
        value = replayed.function(case["ours"])(*first, **inputs, **options)
        async with fe.Session(graph) as session:
            await assigned(session, graph)
            got = {"value": await session.run(value)}
            got |= await after_training(session, graph, value)
        replayed.compare("layers", name, got, rtol=1e-4, atol=1e-5)


def test_variables_are_named_by_layer_and_found_again() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None, 3])
    fe.layers.dense(x, 2)
    fe.layers.dense(x, 2)
    fe.layers.dense(x, 2, name="mine", trainable=False, use_bias=False)
    before = [each.name for each in graph.collection("variables")]
    assert before == ["dense/kernel:0", "dense/bias:0", "dense_1/kernel:0", "dense_1/bias:0", "mine/kernel:0"]
    y = fe.layers.dense(x, 2, name="mine", use_bias=False, reuse=True)
    assert [each.name for each in graph.collection("variables")] == before
    assert y.op.inputs[1].op.inputs[0].name == "mine/kernel:0"
    assert len(graph.collection("trainable_variables")) == 4
    with graph.variable_scope("net"):
        fe.layers.dense(x, 2)
    assert graph.collection("variables")[-1].name == "net/dense/bias:0"


def test_a_regulariser_is_listed_and_a_constraint_kept() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None, 3])

    def squares(v: fe.Tensor) -> Any:
        return graph.ops.L2Loss(v)

    fe.layers.dense(x, 2, kernel_regularizer=squares, kernel_constraint=relu)
    assert len(graph.collection("regularization_losses")) == 1
    kernel, bias = graph.collection("variables")
    assert kernel.constraint is relu
    assert bias.constraint is None


async def test_a_layer_over_a_partitioned_kernel_is_that_over_a_whole_one() -> None:
    graph = fe.Graph()
    x = graph.constant(np.arange(8, dtype=np.float32).reshape(2, 4))
    with graph.variable_scope("", partitioner=lambda shape, dtype: [2] + [1] * (len(shape) - 1)):
        y = fe.layers.dense(x, 2, kernel_initializer=fe.initializers.ones(), use_bias=False)
    async with fe.Session(graph) as session:
        await session.initialize()
        np.testing.assert_array_equal(await session.run(y), [[6, 6], [22, 22]])


async def test_dropout_keeps_a_share_and_the_mean() -> None:
    graph = fe.Graph()
    x = graph.constant(np.ones((100, 50), np.float32))
    training = graph.placeholder("bool", [])
    on = fe.layers.dropout(x, 0.25, training=True, seed=3)
    told = fe.layers.dropout(x, 0.25, training=training, seed=3)
    rows = fe.layers.dropout(x, 0.5, training=True, seed=3, noise_shape=[None, 1])
    async with fe.Session(graph) as session:
        kept, by_row = await session.run([on, rows])
        np.testing.assert_array_equal(await session.run(told, {training: False}), np.ones((100, 50)))
        assert set(np.unique(await session.run(told, {training: True}))) == set(np.unique(kept))
    assert sorted(np.unique(kept)) == [0, np.float32(1 / 0.75)]
    assert abs((kept != 0).mean() - 0.75) < 0.03
    assert (by_row == by_row[:, :1]).all()


@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 4, 3)])
async def test_batch_normalization_may_be_told_whether_to_train_by_the_run(shape: tuple[int, ...]) -> None:
    graph = fe.Graph()
    x = graph.constant(np.random.default_rng(1).normal(size=shape).astype(np.float32))
    training = graph.placeholder("bool", [])
    told = fe.layers.batch_normalization(x, training=training)
    updates = graph.collection("update_ops")
    train = fe.layers.batch_normalization(x, training=True, fused=False)
    use = fe.layers.batch_normalization(x, training=False)
    mean = graph.collection("variables")[2]
    async with fe.Session(graph) as session:
        await session.initialize()
        np.testing.assert_allclose(
            await session.run(told, {training: True}), await session.run(train), 1e-5, 1e-6
        )
        np.testing.assert_allclose(
            await session.run(told, {training: False}), await session.run(use), 1e-5, 1e-6
        )
        await session.run([], {training: False}, targets=updates)
        np.testing.assert_array_equal(await session.run(mean.value()), np.zeros(3))
        await session.run([], {training: True}, targets=updates)
        assert (await session.run(mean.value()) != 0).all()


def test_sizes_that_are_only_known_to_the_run_pass_through() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None, None, 4, 3])
    assert fe.layers.dense(x, 2).shape.as_list() == [None, None, 4, 2]
    assert fe.layers.conv2d(x, 2, 3, padding="same").shape.as_list() == [None, None, 4, 2]
    assert fe.layers.conv2d_transpose(x, 2, 3, 2, padding="same").shape.rank == 4
    assert fe.layers.max_pooling2d(x).shape.as_list() == [None, None, 2, 3]
    assert fe.layers.flatten(graph.placeholder("float32", [None, 4, 3])).shape.as_list() == [None, 12]


async def test_attention_is_a_mean_of_values_by_softmax() -> None:
    rng = np.random.default_rng(2)
    q, k, v = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 5, 4)), rng.normal(size=(2, 5, 6))
    mask = rng.random((2, 3, 5)) > 0.4
    mask[..., 0] = True
    graph = fe.Graph()
    found = fe.layers.attention(graph.constant(q), k, v, mask=mask)
    past = fe.layers.attention(graph.constant(k), k, v, causal=True, scale=1.0)

    def reference(q: Any, k: Any, seen: Any, scale: float) -> Any:
        fits = np.where(seen, q @ k.transpose(0, 2, 1) * scale, -np.inf)
        weights = np.exp(fits - fits.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v

    async with fe.Session(graph) as session:
        got, causal = await session.run([found, past])
    np.testing.assert_allclose(got, reference(q, k, mask, 0.5), 1e-9)
    np.testing.assert_allclose(causal, reference(k, k, np.tril(np.ones((5, 5), bool)), 1.0), 1e-9)


async def test_heads_attend_by_themselves() -> None:
    graph = fe.Graph()
    x = np.random.default_rng(3).normal(size=(2, 3, 4)).astype(np.float32)
    y = fe.layers.multi_head_attention(graph.constant(x), heads=2, causal=True, use_bias=False)
    names = [each.op.name for each in graph.collection("variables")]
    assert names == [f"multi_head_attention/{part}/kernel" for part in ("query", "key", "value", "output")]
    async with fe.Session(graph) as session:
        await session.initialize()
        got, kernels = await session.run([y, [each.value() for each in graph.collection("variables")]])
    q, k, v = (x @ kernel for kernel in kernels[:3])
    parts = []
    for head in (slice(0, 2), slice(2, 4)):
        fits = q[..., head] @ k[..., head].transpose(0, 2, 1) / np.sqrt(2)
        fits = np.where(np.tril(np.ones((3, 3), bool)), fits, -np.inf)
        weights = np.exp(fits - fits.max(-1, keepdims=True))
        parts.append(weights / weights.sum(-1, keepdims=True) @ v[..., head])
    np.testing.assert_allclose(got, np.concatenate(parts, -1) @ kernels[3], 1e-4, 1e-5)


def test_what_does_not_fit_is_told_when_it_is_written() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [2, 5, 5, None])
    y = graph.placeholder("float32", [2, 5, 5, 3])
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: fe.layers.dense(x, 2), "must be known"),
        (lambda: fe.layers.conv1d(y, 2, 3), "must have 3 axes"),
        (lambda: fe.layers.conv2d(y, 2, [3, 3, 3]), "2 positive integers"),
        (lambda: fe.layers.conv2d(y, 2, 3, padding="full"), "padding is"),
        (lambda: fe.layers.conv2d(y, 2, 3, data_format="NHWC"), "data_format is"),
        (lambda: fe.layers.conv2d(y, 2, 3, strides=2, dilation_rate=2), "either strides"),
        (lambda: fe.layers.dropout(y, 1.0), "less than 1"),
        (lambda: fe.layers.conv2d(y, 2, 3, kernal_initializer=None), "did you mean kernel_initializer"),  # type: ignore[call-arg]
        (lambda: fe.layers.dense(y, 2, reuse=True), "reuse=True needs name="),
        (lambda: fe.layers.batch_normalization(y, 4), "axis 4 is out of range"),
        (
            lambda: fe.layers.multi_head_attention(graph.constant(np.zeros((1, 2, 3))), heads=2),
            "do not divide",
        ),
    ]
    for call, message in calls:
        with pytest.raises(InvalidArgumentError, match=message):
            call()


async def test_channels_may_stand_first() -> None:
    graph = fe.Graph()
    x = np.random.default_rng(4).normal(size=(2, 6, 5, 4)).astype(np.float32)
    last, first = graph.constant(x), graph.constant(x.transpose(0, 3, 1, 2))
    calls: list[Callable[..., Any]] = [
        lambda t, **o: fe.layers.conv2d(t, 3, 3, 2, "same", **o),
        lambda t, **o: fe.layers.separable_conv2d(t, 3, 3, depth_multiplier=2, **o),
        lambda t, **o: fe.layers.depthwise_conv2d(t, 3, padding="same", **o),
        lambda t, **o: fe.layers.conv2d_transpose(t, 3, 3, 2, **o),
        lambda t, **o: fe.layers.max_pooling2d(t, 2, 2, **o),
        lambda t, **o: fe.layers.average_pooling2d(t, 3, 2, "same", **o),
    ]
    pairs = []
    for number, call in enumerate(calls):
        with graph.variable_scope(f"layer_{number}"):
            there = call(last, name="it") if number < 4 else call(last)
        with graph.variable_scope(f"layer_{number}", reuse=number < 4):
            options: dict[str, Any] = {"name": "it", "reuse": True} if number < 4 else {}
            here = call(first, data_format="channels_first", **options)
        pairs.append((there, here))
    async with fe.Session(graph) as session:
        await session.initialize()
        for there, here in await session.run(pairs):
            np.testing.assert_allclose(here, there.transpose(0, 3, 1, 2), 1e-4, 1e-5)
