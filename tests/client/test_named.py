"""Activations, initializers and optimizers by name, and `training` as a Tensor of unknown rank."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.client.named import activation_of
from flowengine.core.errors import InvalidArgumentError


def unrolled(cell: fe.rnn.RNNCell, x: fe.Tensor) -> Any:
    """The outputs of a cell over the rows of images."""
    return fe.rnn.dynamic_rnn(cell, fe.reshape(x, [-1, 8, 24]))[0]


#: Layers and cells that end in an activation: a call with one, of images (?, 8, 8, 3).
ACTIVATED: dict[str, Callable[[fe.Tensor, Any], Any]] = {
    "dense": lambda x, f: fe.layers.dense(x, 4, f),
    "conv1d": lambda x, f: fe.layers.conv1d(fe.reshape(x, [-1, 64, 3]), 4, 3, activation=f),
    "conv2d": lambda x, f: fe.layers.conv2d(x, 4, 3, activation=f),
    "conv3d": lambda x, f: fe.layers.conv3d(fe.expand_dims(x, 1), 4, 1, activation=f),
    "conv2d_transpose": lambda x, f: fe.layers.conv2d_transpose(x, 4, 3, activation=f),
    "separable_conv2d": lambda x, f: fe.layers.separable_conv2d(x, 4, 3, activation=f),
    "depthwise_conv2d": lambda x, f: fe.layers.depthwise_conv2d(x, 3, activation=f),
    "basic_rnn": lambda x, f: unrolled(fe.rnn.BasicRNNCell(4, activation=f), x),
    "gru": lambda x, f: unrolled(fe.rnn.GRUCell(4, activation=f), x),
    "lstm": lambda x, f: unrolled(fe.rnn.LSTMCell(4, activation=f), x),
    "basic_lstm": lambda x, f: unrolled(fe.rnn.BasicLSTMCell(4, activation=f), x),
    "layer_norm_lstm": lambda x, f: unrolled(fe.rnn.LayerNormLSTMCell(4, activation=f), x),
}


KNOWN = ["elu", "gelu", "leaky_relu", "linear", "log_softmax", "relu", "relu6", "selu", "sigmoid", "silu"]
KNOWN += ["softmax", "softplus", "softsign", "swish", "tanh"]


def images(graph: fe.Graph) -> fe.Tensor:
    graph.seed = 7
    return graph.constant(np.random.default_rng(1).standard_normal((2, 8, 8, 3)).astype(np.float32))


@pytest.mark.parametrize("what", ACTIVATED)
async def test_a_name_is_the_function_of_that_name(what: str) -> None:
    graph = fe.Graph()
    x = images(graph)
    with graph.variable_scope("named", initializer="glorot_uniform"):
        named = ACTIVATED[what](x, "relu6")
    with graph.variable_scope("named", reuse=True):
        given = ACTIVATED[what](x, fe.nn.relu6)
    async with fe.Session(graph) as session:
        await session.initialize()
        one, other = await session.run([named, given])
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("what", ACTIVATED)
def test_an_unknown_name_lists_those_that_there_are(what: str) -> None:
    graph = fe.Graph()
    x = images(graph)
    with pytest.raises(
        InvalidArgumentError, match=r"no activation 'rellu'; did you mean 'relu'.* \(there are: elu, gelu"
    ):
        ACTIVATED[what](x, "rellu")
    with pytest.raises(InvalidArgumentError, match="3 is no activation: give a name such as 'relu'"):
        ACTIVATED[what](x, 3)
    assert graph.collection("variables") == []


@given(st.text(max_size=8) | st.sampled_from(KNOWN))
def test_every_text_is_a_name_or_an_error(name: str) -> None:
    if name in KNOWN:
        assert callable(activation_of(name)) is (name != "linear")
    else:
        with pytest.raises(ValueError, match=re.escape(f"there is no activation {name!r}")):
            activation_of(name)


def test_linear_is_no_function() -> None:
    assert activation_of("linear") is None
    assert activation_of(None) is None


@pytest.mark.parametrize("name", [name for name in fe.initializers.__all__ if name.endswith(("form", "mal"))])
async def test_an_initializer_by_name_has_its_default_arguments(name: str) -> None:
    graph = fe.Graph()
    graph.seed = 3
    with graph.name_scope("a"):
        named = graph.get_variable("named", [5, 4], initializer=name)
    made = getattr(fe.initializers, name)()
    assert callable(fe.initializers.get(name))
    assert fe.initializers.get(made) is made
    async with fe.Session(graph) as session:
        await session.initialize()
        assert np.ptp(await session.run(named)) > 0


async def test_layers_and_scopes_take_initializers_by_name() -> None:
    graph = fe.Graph()
    x = images(graph)
    dense = fe.layers.dense(x, 4, kernel_initializer="ones", bias_initializer="ones")
    norm = fe.layers.layer_normalization(x, gamma_initializer="zeros", beta_initializer="ones")
    table = fe.layers.embedding(graph.constant([0]), 3, 2, embeddings_initializer="ones")
    batch = fe.layers.batch_normalization(x, moving_mean_initializer="ones", gamma_initializer="zeros")
    with graph.variable_scope("scope", initializer="ones"):
        inside = graph.get_variable("v", [2])
    text = graph.get_variable("text", dtype="string", initializer="ones")
    async with fe.Session(graph) as session:
        await session.initialize()
        found = await session.run([dense, norm, table, batch, inside, text])
    np.testing.assert_allclose(found[0][..., 0], np.sum(await_free(x), axis=-1) + 1, rtol=1e-5)
    assert [np.unique(each).tolist() for each in found[1:5]] == [[1.0], [1.0], [0.0], [1.0]]
    assert found[5] == b"ones"


def await_free(x: fe.Tensor) -> Any:
    """The value of a constant."""
    return x.graph.constant_value(x)


@pytest.mark.parametrize(
    "use",
    [
        lambda g, x: g.get_variable("v", [2], initializer="glorot_unifrom"),
        lambda g, x: fe.layers.dense(x, 4, kernel_initializer="glorot_unifrom"),
        lambda g, x: fe.layers.separable_conv2d(x, 4, 3, pointwise_initializer="glorot_unifrom"),
        lambda g, x: fe.layers.embedding(g.constant([0]), 3, 2, embeddings_initializer="glorot_unifrom"),
        lambda g, x: fe.rnn.LSTMCell(4, initializer="glorot_unifrom"),
        lambda g, x: fe.rnn.GRUCell(4, kernel_initializer="glorot_unifrom"),
        lambda g, x: fe.initializers.get("glorot_unifrom"),
    ],
)
def test_an_unknown_initializer_lists_those_that_there_are(use: Any) -> None:
    graph = fe.Graph()
    x = images(graph)
    with pytest.raises(
        InvalidArgumentError,
        match=r"no initializer 'glorot_unifrom'; did you mean 'glorot_uniform'.*he_normal",
    ):
        use(graph, x)
    assert graph.collection("variables") == []


def test_regularizers_and_constraints_are_functions() -> None:
    x = images(fe.Graph())
    with pytest.raises(
        TypeError, match=r"kernel_regularizer is 'l2': give a function .*fe\.regularizers\.l2"
    ):
        fe.layers.dense(x, 4, kernel_regularizer="l2")
    with pytest.raises(TypeError, match=r"bias_constraint is 1.0: give a function of a tensor"):
        fe.layers.dense(x, 4, bias_constraint=1.0)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in fe.optimizers.__all__
        if isinstance(getattr(fe.optimizers, name), type)
        and name not in ("LBFGSResult", "LossScaling", "Optimizer")
    ],
)
def test_an_optimizer_by_name_is_made_with_its_options(name: str) -> None:
    step = fe.Graph().variable(0, trainable=False)
    needed: dict[str, dict[str, Any]] = {
        "AdaGradDA": {"global_step": step},
        "AdamW": {"weight_decay": 0.1},
        "Momentum": {"momentum": 0.9},
    }
    for spelled in (name, name.lower(), name.upper()):
        made = fe.optimizers.get(spelled, learning_rate=0.25, **needed.get(name, {}))
        assert type(made) is getattr(fe.optimizers, name)
        assert made.learning_rate == 0.25  # type: ignore[attr-defined]
        assert fe.optimizers.get(made) is made


@pytest.mark.parametrize(
    ("wrong", "options", "kind", "told"),
    [
        (
            "adamm",
            {},
            ValueError,
            r"no optimizer 'adamm'; did you mean 'adam'.* \(there are: adadelta, adagrad",
        ),
        (
            "adam",
            {"momentum": 1},
            TypeError,
            r"fe\.optimizers\.Adam: .*unexpected keyword argument 'momentum'",
        ),
        (3, {}, TypeError, "3 is no optimizer: give its name"),
        (
            fe.optimizers.Adam(),
            {"beta1": 1},
            TypeError,
            "Adam is an optimizer: options beta1 need its name",
        ),
    ],
)
def test_what_is_no_optimizer_is_refused(wrong: Any, options: Any, kind: Any, told: str) -> None:
    with pytest.raises(kind, match=told) as caught:
        fe.optimizers.get(wrong, **options)
    assert isinstance(caught.value, InvalidArgumentError)


#: Layers with a `training`, of images (?, 8, 8, 3) and of rows (?, 4).
TRAINED: dict[str, Callable[[fe.Graph, Any], fe.Tensor]] = {
    "dropout": lambda g, t: fe.layers.dropout(g.placeholder("float32", [None, 4]), 0.5, training=t),
    "batch_normalization": lambda g, t: fe.layers.batch_normalization(
        g.placeholder("float32", [None, 4]), training=t
    ),
    "fused": lambda g, t: fe.layers.batch_normalization(
        g.placeholder("float32", [None, 8, 8, 4]), training=t, fused=True
    ),
    "attention": lambda g, t: fe.layers.multi_head_attention(
        g.placeholder("float32", [None, 5, 4]), heads=2, dropout_rate=0.5, training=t
    ),
}


@pytest.mark.parametrize("what", TRAINED)
def test_layers_keep_the_shape_behind_a_training_flag_of_unknown_rank(what: str) -> None:
    graph = fe.Graph()
    known = TRAINED[what](graph, graph.placeholder("bool", [])).shape
    unknown = TRAINED[what](graph, graph.placeholder("bool")).shape
    assert known.rank is not None
    assert str(unknown) == str(known)


@pytest.mark.parametrize("what", TRAINED)
def test_a_training_flag_is_a_bool_scalar(what: str) -> None:
    graph = fe.Graph()
    with pytest.raises(ValueError, match=r"training is .* of shape \[2\]; it must be a scalar"):
        TRAINED[what](graph, graph.placeholder("bool", [2]))
    with pytest.raises(TypeError, match=r"training is .* of float32; it must be bool"):
        TRAINED[what](graph, graph.placeholder("float32"))


async def test_a_training_flag_of_unknown_rank_is_checked_in_the_step() -> None:
    graph = fe.Graph()
    flag = graph.placeholder("bool")
    variable = graph.variable(False, name="is_training")
    x = graph.constant(np.ones((3, 4), np.float32))
    told, kept = (fe.layers.dropout(x, 0.5, training=each) for each in (flag, variable))
    async with fe.Session(graph) as session:
        await session.initialize()
        np.testing.assert_array_equal(await session.run(told, {flag: False}), np.ones((3, 4)))
        np.testing.assert_array_equal(await session.run(kept), np.ones((3, 4)))
        assert (await session.run(told, {flag: True})).max() == 2
        with pytest.raises(InvalidArgumentError, match="Reshape 'dropout/training'"):
            await session.run(told, {flag: [True, False]})
