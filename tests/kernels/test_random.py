"""Random kernels: TensorFlow's own sequences, how they go on, and their statistics."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.load import load_all
from flowengine.ops.load import registry
from flowengine.resources.container import ResourceManager

Draw = Callable[..., Any]


class _Session:
    """Nodes of one session: each keeps its place in its sequence."""

    def __init__(self) -> None:
        self.resources = ResourceManager()

    def run(self, op: str, *inputs: Any, name: str = "node", **given: Any) -> Any:
        definition = registry()[op]
        attrs = definition.with_defaults(given)
        for argument, value in zip(definition.inputs, inputs, strict=True):
            if argument.type_attr is not None:
                attrs[argument.type_attr] = dtypes.as_dtype(np.asarray(value).dtype)
        node = Node(name, op, attrs=attrs)
        kernel = load_all().find(node)
        context = (
            {"ctx": SimpleNamespace(resources=self.resources, sequences=self.resources)}
            if kernel.takes_context
            else {}
        )
        with np.errstate(all="ignore"):
            return kernel.bind(node)(*inputs, **context)


_FIVE = np.array([5], np.int32)


@pytest.mark.parametrize(
    ("dtype", "first", "second"),
    [
        (
            dtypes.float32,
            [
                0.4944496154785156,
                0.9379479885101318,
                0.12477767467498779,
                0.9834195375442505,
                0.2620009183883667,
            ],
            [
                0.6042112112045288,
                0.41547203063964844,
                0.8051254749298096,
                0.19441008567810059,
                0.27668464183807373,
            ],
        ),
        (
            dtypes.float64,
            [
                0.9555977451390549,
                0.9982218574423707,
                0.09600751582891576,
                0.7398598764079483,
                0.32251962672920764,
            ],
            [
                0.8336898338337839,
                0.4410041071370432,
                0.21347717524998533,
                0.8923790816058994,
                0.9760169615084013,
            ],
        ),
        (
            dtypes.float16,
            [0.53125, 0.669921875, 0.1787109375, 0.1728515625, 0.3115234375],
            [0.6982421875, 0.546875, 0.587890625, 0.607421875, 0.6005859375],
        ),
        (
            dtypes.bfloat16,
            [0.25, 0.359375, 0.4296875, 0.3828125, 0.4921875],
            [0.5859375, 0.375, 0.703125, 0.859375, 0.8046875],
        ),
    ],
    ids=str,
)
def test_uniform_numbers_are_those_of_tensorflow(dtype: Any, first: Any, second: Any) -> None:
    session = _Session()
    for expected in (first, second):
        drawn = session.run("RandomUniform", _FIVE, dtype=dtype, seed=12345, seed2=678)
        assert drawn.dtype == dtype.as_numpy_dtype
        assert drawn.astype(np.float64).tolist() == expected


@pytest.mark.parametrize(
    ("op", "first", "second"),
    [
        (
            "RandomStandardNormal",
            [
                -0.4511007070541382,
                1.0977832078933716,
                -0.21216091513633728,
                2.0291454792022705,
                -0.8057748675346375,
            ],
            [
                0.5084232687950134,
                -0.8655452728271484,
                0.6186618804931641,
                0.2253257930278778,
                -1.593205213546753,
            ],
        ),
        (
            "TruncatedNormal",
            [
                -0.4511007070541382,
                1.0977832078933716,
                -0.21216091513633728,
                -0.8057748675346375,
                -0.13497912883758545,
            ],
            [
                0.5084232687950134,
                -0.8655452728271484,
                0.6186618804931641,
                0.2253257930278778,
                0.31086042523384094,
            ],
        ),
    ],
)
def test_normal_numbers_are_those_of_tensorflow(op: str, first: Any, second: Any) -> None:
    session = _Session()
    for expected in (first, second):
        drawn = session.run(op, _FIVE, dtype=dtypes.float32, seed=12345, seed2=678)
        assert drawn.astype(np.float64).tolist() == expected


def test_double_normal_numbers_agree_to_the_last_bits() -> None:
    drawn = _Session().run("TruncatedNormal", _FIVE, dtype=dtypes.float64, seed=12345, seed2=678)
    expected = [
        -0.0033671888723582123,
        0.30137204310042964,
        -0.4417999929379067,
        -0.4422140689891719,
        -0.09025778054455864,
    ]
    np.testing.assert_allclose(drawn, expected, rtol=1e-14)


@pytest.mark.parametrize(
    ("dtype", "first", "second"),
    [
        (np.int32, [118, 209, 749, 255, 967], [49, 361, 737, 786, 361]),
        (np.int64, [445, 782, 787, 336, 147], [718, 441, 946, 979, 836]),
    ],
)
def test_integers_are_those_of_tensorflow(dtype: Any, first: Any, second: Any) -> None:
    session = _Session()
    for expected in (first, second):
        drawn = session.run("RandomUniformInt", _FIVE, dtype(-7), dtype(1000), seed=1, seed2=2)
        assert drawn.dtype == dtype
        assert drawn.tolist() == expected


def test_a_shuffle_is_that_of_tensorflow() -> None:
    session = _Session()
    order = session.run("RandomShuffle", np.arange(10), seed=3, seed2=4)
    assert order.tolist() == [1, 5, 3, 8, 0, 4, 7, 6, 9, 2]
    order = session.run("RandomShuffle", np.arange(10), seed=3, seed2=4)
    assert order.tolist() == [6, 5, 9, 3, 2, 7, 8, 1, 4, 0]


def test_draws_from_categories_are_those_of_tensorflow() -> None:
    session = _Session()
    logits = np.array([[0, 1, 2], [-np.inf, 0, 0]], np.float32)
    drawn = session.run("Multinomial", logits, np.int32(6), seed=3, seed2=4)
    assert drawn.tolist() == [[2, 2, 1, 2, 0, 1], [1, 2, 2, 1, 2, 2]]
    drawn = session.run("Multinomial", logits, np.int32(6), seed=3, seed2=4)
    assert drawn.tolist() == [[0, 0, 1, 1, 2, 1], [2, 2, 2, 2, 2, 2]]


@pytest.mark.parametrize(
    ("op", "unique", "classes", "true_count", "counts"),
    [
        ("UniformCandidateSampler", True, [5, 9, 3, 1, 4], [0.5695328] * 2, [0.5695328] * 5),
        ("UniformCandidateSampler", False, [5, 9, 9, 9, 9], [0.5] * 2, [0.5] * 5),
        (
            "LogUniformCandidateSampler",
            True,
            [4, 2, 5, 6, 0],
            [0.6709080, 0.2160058],
            [0.3777915, 0.5355096, 0.3287887, 0.2909187, 0.8708841],
        ),
        (
            "LogUniformCandidateSampler",
            False,
            [4, 2, 5, 6, 5],
            [0.8454604, 0.1987372],
            [0.3801700, 0.5998637, 0.3214291, 0.2784346, 0.3214291],
        ),
    ],
)
def test_candidates_are_those_of_tensorflow(
    op: str, unique: bool, classes: Any, true_count: Any, counts: Any
) -> None:
    true = np.array([[1, 9]], np.int64)
    attrs: dict[str, Any] = {
        "num_true": 2,
        "num_sampled": 5,
        "unique": unique,
        "range_max": 10,
        "seed": 5,
        "seed2": 6,
    }
    sampled, true_expected, sampled_expected = _Session().run(op, true, **attrs)
    assert sampled.tolist() == classes
    np.testing.assert_allclose(true_expected, [true_count], rtol=1e-5)
    np.testing.assert_allclose(sampled_expected, counts, rtol=1e-5)
    assert true_expected.dtype == sampled_expected.dtype == np.float32


def test_gamma_numbers_are_those_of_tensorflow() -> None:
    session = _Session()
    alpha = np.array([0.3, 1, 2.5], np.float32)
    first = session.run("RandomGamma", np.array([3]), alpha, seed=1, seed2=2)
    expected = [
        [0.0017811220604926348, 0.3340418338775635, 2.10901141166687],
        [0.06502508372068405, 0.27169960737228394, 3.640136480331421],
        [0.045153774321079254, 0.965160608291626, 1.3657408952713013],
    ]
    assert first.dtype == np.float32
    np.testing.assert_allclose(first, expected, rtol=1e-6)
    second = session.run("RandomGamma", np.array([3]), alpha, seed=1, seed2=2)
    assert second[0, 1] == pytest.approx(0.12614542245864868, rel=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1.0, 7.5])
def test_gamma_moments(alpha: float) -> None:
    drawn = _Session().run("RandomGamma", np.array([40_000]), np.float64(alpha), seed=3, seed2=4)
    assert drawn.shape == (40_000,)
    assert drawn.mean() == pytest.approx(alpha, abs=0.03)
    assert drawn.var() == pytest.approx(alpha, abs=0.15)


@pytest.mark.parametrize(
    ("pseudo_random", "rows", "columns"),
    [
        (False, [0, 2, 4, 6, 7, 9, 10], [0, 2, 3, 5, 6, 8, 10, 12]),
        (True, [0, 2, 4, 5, 7, 9, 10], [0, 2, 4, 6, 7, 9, 11, 12]),
    ],
)
def test_fractional_windows_are_those_of_tensorflow(pseudo_random: bool, rows: Any, columns: Any) -> None:
    session = _Session()
    x = np.random.default_rng(0).normal(size=(1, 10, 12, 1)).astype(np.float32)
    ratio = (1.0, 1.5, 1.7, 1.0)
    for _ in range(2):
        pooled, *borders = session.run(
            "FractionalMaxPool",
            x,
            pooling_ratio=ratio,
            pseudo_random=pseudo_random,
            deterministic=True,
            seed=5,
            seed2=6,
        )
        assert [b.tolist() for b in borders] == [rows, columns]
        assert pooled[0, 1, 2, 0] == x[0, rows[1] : rows[2], columns[2] : columns[3]].max()
    with pytest.raises(InvalidArgumentError, match="should be 0 if deterministic is false"):
        session.run("FractionalAvgPool", x, pooling_ratio=ratio, seed=5)


def test_two_nodes_with_the_same_seeds_draw_the_same_and_do_not_disturb_each_other() -> None:
    session = _Session()

    def draw(name: str) -> list[float]:
        drawn = session.run("RandomUniform", _FIVE, name=name, dtype=dtypes.float32, seed=1, seed2=2)
        result: list[float] = drawn.tolist()
        return result

    first = [draw("a"), draw("a")]
    assert [draw("b"), draw("b")] == first
    assert first[0] != first[1]


def test_without_seeds_every_session_draws_its_own() -> None:
    drawn = [_Session().run("RandomUniform", _FIVE, dtype=dtypes.float64).tolist() for _ in range(2)]
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize(
    ("op", "mean", "deviation", "low", "high"),
    [
        ("RandomUniform", 0.5, 12**-0.5, 0, 1),
        ("RandomStandardNormal", 0, 1, -7, 7),
        # Of a normal distribution cut at two deviations.
        ("TruncatedNormal", 0, 0.8796, -2, 2),
    ],
)
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64, dtypes.float16], ids=str)
def test_moments(op: str, mean: float, deviation: float, low: float, high: float, dtype: Any) -> None:
    drawn = _Session().run(op, np.array([200, 500]), dtype=dtype, seed=9, seed2=9).astype(np.float64)
    assert drawn.mean() == pytest.approx(mean, abs=4 * deviation / 100_000**0.5 + 1e-3)
    assert drawn.std() == pytest.approx(deviation, rel=0.01)
    assert drawn.min() >= low
    assert drawn.max() <= high


def test_bad_shapes_and_limits() -> None:
    session = _Session()
    with pytest.raises(InvalidArgumentError, match="must be a vector"):
        session.run("RandomUniform", np.int32(3), dtype=dtypes.float32)
    with pytest.raises(InvalidArgumentError, match="Dimension -1 must be >= 0"):
        session.run("RandomUniform", np.array([2, -1]), dtype=dtypes.float32)
    with pytest.raises(InvalidArgumentError, match="Need minval < maxval, got 3 >= 3"):
        session.run("RandomUniformInt", _FIVE, np.int32(3), np.int32(3))
    with pytest.raises(InvalidArgumentError, match="should be nonnegative, got -1"):
        session.run("Multinomial", np.zeros((1, 2), np.float32), np.int32(-1))
    with pytest.raises(InvalidArgumentError, match="range is too small: 5 different classes of 3"):
        session.run(
            "UniformCandidateSampler",
            np.zeros((1, 1), np.int64),
            num_true=1,
            num_sampled=5,
            unique=True,
            range_max=3,
        )


def test_nothing_is_drawn_for_an_empty_tensor() -> None:
    session = _Session()
    empty = session.run("RandomUniform", np.array([0, 3]), dtype=dtypes.float32, seed=12345, seed2=678)
    assert empty.shape == (0, 3)
    after = session.run("RandomUniform", _FIVE, dtype=dtypes.float32, seed=12345, seed2=678)
    assert after[0] == np.float32(0.4944496154785156)
