"""Rates that change with the count of steps, `fe.schedules`: tensors to pass to an optimizer.

`step` is a () tensor or variable of whole numbers or floats. `learning_rate`, `decay_rate`, `decay_steps`,
`alpha`, `beta` and `power` are numbers or tensors; the result is a () tensor of the rate's type, float32 for
a number. `staircase` decays in whole steps; `seed` is that of random numbers.

`num_periods` counts periods of a cosine; `initial_variance` and `variance_decay` are those of the noise;
`first_decay_steps` is the length of the first decay.

>>> schedules, graph = fe.schedules, fe.Graph()
>>> step = graph.variable(100, name="global_step", dtype="int64", trainable=False)
>>> rates = [schedules.exponential_decay(0.1, step, decay_steps=100, decay_rate=0.5)]
>>> rates += [schedules.natural_exp_decay(0.1, step, 100, 0.5)]
>>> rates += [schedules.inverse_time_decay(0.1, step, 100, 0.5)]
>>> rates += [schedules.piecewise_constant(step, [50, 200], [0.3, 0.2, 0.1])]
>>> rates += [schedules.polynomial_decay(0.1, step, 200), schedules.cosine_decay(0.1, step, 200)]
>>> rates += [schedules.cosine_decay_restarts(0.1, step, 80), schedules.linear_cosine_decay(0.1, step, 200)]
>>> noisy = schedules.noisy_linear_cosine_decay(0.1, step, 200, seed=1)
>>> with fe.blocking.Session(graph) as session:
...     initialized = session.initialize()
...     print(np.round(session.run(rates), 3))
[0.05  0.061 0.067 0.2   0.05  0.05  0.096 0.025]
>>> train = fe.optimizers.SGD(rates[0])
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from flowengine.core.dtypes import DType, as_dtype
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.public_names.missing import public_module
from flowengine.graphs.graph import Graph
from flowengine.graphs.seeds import seeds_for
from flowengine.graphs.tensor import Tensor


class _ScheduleTensors:
    """The numbers of one schedule as tensors of one type."""

    def __init__(self, learning_rate: Any, step: Any) -> None:
        if hasattr(step, "__flowengine_tensor__"):
            step = step.__flowengine_tensor__(step.graph, None, None)
        if not isinstance(step, Tensor):
            raise InvalidArgumentError(f"the count of steps is a tensor or variable of a graph, not {step!r}")
        self.graph: Graph = step.graph
        self.ops = self.graph.ops
        self.dtype: DType = (
            learning_rate.dtype.base if hasattr(learning_rate, "dtype") else as_dtype("float32")
        )
        self.rate = self.number(learning_rate, "learning_rate")
        self.step = self.number(step)

    def number(self, value: Any, name: str = "Const") -> Tensor:
        """A number or tensor as one of the schedule's type."""
        if hasattr(value, "__flowengine_tensor__"):
            value = value.__flowengine_tensor__(self.graph, None, None)
        if not isinstance(value, Tensor):
            return self.graph.constant(value, self.dtype, name=name)
        if value.dtype.base is self.dtype:
            return value
        cast: Tensor = self.ops.Cast(value, DstT=self.dtype)
        return cast


def exponential_decay(
    learning_rate: Any,
    step: Any,
    decay_steps: Any,
    decay_rate: Any,
    *,
    staircase: bool = False,
    name: str = "ExponentialDecay",
) -> Tensor:
    """rate * decay_rate ** (step / decay_steps), the quotient rounded down for a staircase.

    Scalar of the type of `rate`, float32 for a number; `step` is a scalar. Raises InvalidArgumentError where
    they are of two graphs, or none is of any.
    """
    with _graph(step).name_scope(name) as scope:
        b = _ScheduleTensors(learning_rate, step)
        power = b.ops.RealDiv(b.step, b.number(decay_steps))
        if staircase:
            power = b.ops.Floor(power)
        return _named(b.ops.Mul(b.rate, b.ops.Pow(b.number(decay_rate), power), name=scope))


def natural_exp_decay(
    learning_rate: Any,
    step: Any,
    decay_steps: Any,
    decay_rate: Any,
    *,
    staircase: bool = False,
    name: str = "NaturalExpDecay",
) -> Tensor:
    """rate * exp(-decay_rate * step / decay_steps), the quotient rounded down for a staircase.

    Scalar of the type of `rate`, float32 for a number; `step` is a scalar. Raises InvalidArgumentError where
    they are of two graphs, or none is of any.
    """
    with _graph(step).name_scope(name) as scope:
        b = _ScheduleTensors(learning_rate, step)
        power = b.ops.RealDiv(b.step, b.number(decay_steps))
        if staircase:
            power = b.ops.Floor(power)
        fallen = b.ops.Exp(b.ops.Mul(b.ops.Neg(b.number(decay_rate)), power))
        return _named(b.ops.Mul(b.rate, fallen, name=scope))


def inverse_time_decay(
    learning_rate: Any,
    step: Any,
    decay_steps: Any,
    decay_rate: Any,
    *,
    staircase: bool = False,
    name: str = "InverseTimeDecay",
) -> Tensor:
    """rate / (1 + decay_rate * step / decay_steps), the quotient rounded down for a staircase.

    Scalar of the type of `rate`, float32 for a number; `step` is a scalar. Raises InvalidArgumentError where
    they are of two graphs, or none is of any.
    """
    with _graph(step).name_scope(name) as scope:
        b = _ScheduleTensors(learning_rate, step)
        quotient = b.ops.RealDiv(b.step, b.number(decay_steps))
        if staircase:
            quotient = b.ops.Floor(quotient)
        divisor = b.ops.Add(b.number(1), b.ops.Mul(b.number(decay_rate), quotient))
        return _named(b.ops.RealDiv(b.rate, divisor, name=scope))


def polynomial_decay(
    learning_rate: Any,
    step: Any,
    decay_steps: Any,
    *,
    end_learning_rate: Any = 0.0001,
    power: Any = 1.0,
    cycle: bool = False,
    name: str = "PolynomialDecay",
) -> Tensor:
    """Decay the rate to `end_learning_rate` in `decay_steps`, along (1 - step / decay_steps) ** power.

    cycle   the way becomes longer by `decay_steps` whenever its end is reached; else the end stays

    Scalar of the type of `rate`, float32 for a number; `step` is a scalar. Raises InvalidArgumentError where
    they are of two graphs, or none is of any.
    """
    with _graph(step).name_scope(name) as scope:
        b = _ScheduleTensors(learning_rate, step)
        ops, length, count, end = b.ops, b.number(decay_steps), b.step, b.number(end_learning_rate)
        if cycle:
            times = ops.Maximum(b.number(1), ops.Ceil(ops.RealDiv(count, length)))
            length = ops.Mul(length, times)
        else:
            count = ops.Minimum(count, length)
        left = ops.Sub(b.number(1), ops.RealDiv(count, length))
        return _named(ops.Add(ops.Mul(ops.Sub(b.rate, end), ops.Pow(left, b.number(power))), end, name=scope))


def piecewise_constant(
    step: Any, boundaries: Sequence[float], values: Sequence[float], name: str = "PiecewiseConstant"
) -> Tensor:
    """Return values[0] up to and including boundaries[0], values[i] after boundaries[i - 1].

    Raises InvalidArgumentError unless there is one value more than boundaries, which grow.

    Scalar of the values' type; `step` is a scalar, of the boundaries' type.
    """
    if len(values) != len(boundaries) + 1 or list(boundaries) != sorted(boundaries):
        raise InvalidArgumentError(
            f"piecewise_constant needs rising boundaries and one value more, not {boundaries} and {values}"
        )
    with _graph(step).name_scope(name):
        b = _ScheduleTensors(0.0, step)
        count = step if isinstance(step, Tensor) else b.step
        passed = b.ops.Greater(count, b.graph.constant(np.array(boundaries), count.dtype.base))
        index = b.ops.Sum(b.ops.Cast(passed, DstT="int32"), [0])
        found: Tensor = b.ops.GatherV2(b.graph.constant(list(values), b.dtype), index, 0)
        return found


def cosine_decay(
    learning_rate: Any, step: Any, decay_steps: Any, *, alpha: Any = 0.0, name: str = "CosineDecay"
) -> Tensor:
    """Return half a period of a cosine, from the rate to rate * alpha in `decay_steps`.

    Loshchilov, Hutter 2017.

    Scalar of the type of `rate`, float32 for a number; `step` is a scalar. Raises InvalidArgumentError where
    they are of two graphs, or none is of any.
    """
    with _graph(step).name_scope(name) as scope:
        b = _ScheduleTensors(learning_rate, step)
        length = b.number(decay_steps)
        done = b.ops.RealDiv(b.ops.Minimum(b.step, length), length)
        return _named(b.ops.Mul(b.rate, _above(b, _half_cosine(b, done), alpha), name=scope))


def cosine_decay_restarts(
    learning_rate: Any,
    step: Any,
    first_decay_steps: Any,
    *,
    t_mul: float = 2.0,
    m_mul: float = 1.0,
    alpha: Any = 0.0,
    name: str = "SGDRDecay",
) -> Tensor:
    """Compute a rate by cosine decays with restarts. Loshchilov, Hutter 2017.

    t_mul, m_mul   by how much each is longer than the one before, and how much its rate is of that one's

    Scalar of the type of `rate`, float32 for a number; `step` is a scalar. Raises InvalidArgumentError where
    they are of two graphs, or none is of any.
    """
    with _graph(step).name_scope(name) as scope:
        b = _ScheduleTensors(learning_rate, step)
        ops, one = b.ops, b.number(1)
        done = ops.RealDiv(b.step, b.number(first_decay_steps))
        if t_mul == 1.0:
            restarts = ops.Floor(done)
            done = ops.Sub(done, restarts)
        else:
            grown = ops.Sub(one, ops.Mul(done, b.number(1.0 - t_mul)))
            restarts = ops.Floor(ops.RealDiv(ops.Log(grown), b.number(math.log(t_mul))))
            length = ops.Pow(b.number(t_mul), restarts)
            begin = ops.RealDiv(ops.Sub(one, length), b.number(1.0 - t_mul))
            done = ops.RealDiv(ops.Sub(done, begin), length)
        height = ops.Mul(ops.Pow(b.number(m_mul), restarts), _half_cosine(b, done))
        return _named(ops.Mul(b.rate, _above(b, height, alpha), name=scope))


def linear_cosine_decay(
    learning_rate: Any,
    step: Any,
    decay_steps: Any,
    *,
    num_periods: float = 0.5,
    alpha: Any = 0.0,
    beta: Any = 0.001,
    name: str = "LinearCosineDecay",
) -> Tensor:
    """rate * ((alpha + linear) * cosine + beta), linear from 1 to 0 and so many periods of a cosine.

    Bello, Zoph, Vasudevan, Le 2017.

    Scalar of the type of `rate`, float32 for a number; `step` is a scalar. Raises InvalidArgumentError where
    they are of two graphs, or none is of any.
    """
    with _graph(step).name_scope(name) as scope:
        return _linear_cosine(
            _ScheduleTensors(learning_rate, step), decay_steps, num_periods, alpha, beta, None, scope
        )


def noisy_linear_cosine_decay(
    learning_rate: Any,
    step: Any,
    decay_steps: Any,
    *,
    initial_variance: float = 1.0,
    variance_decay: float = 0.55,
    num_periods: float = 0.5,
    alpha: Any = 0.0,
    beta: Any = 0.001,
    seed: int | None = None,
    name: str = "NoisyLinearCosineDecay",
) -> Tensor:
    """Do as `linear_cosine_decay`, with noise of variance initial_variance / (1 + step) ** variance_decay.

    Scalar of the type of `rate`, float32 for a number; `step` is a scalar. Raises InvalidArgumentError where
    they are of two graphs, or none is of any.
    """
    with _graph(step).name_scope(name) as scope:
        b = _ScheduleTensors(learning_rate, step)
        ops, (first, second) = b.ops, seeds_for(b.graph, seed)
        spread = ops.Pow(ops.Add(b.number(1), b.step), b.number(variance_decay))
        deviation = ops.Sqrt(ops.RealDiv(b.number(initial_variance), spread))
        drawn = ops.RandomStandardNormal(
            b.graph.constant(np.zeros(0, np.int32)), dtype=b.dtype, seed=first, seed2=second
        )
        noise = ops.Mul(drawn, deviation)
        return _linear_cosine(b, decay_steps, num_periods, alpha, beta, noise, scope)


def _linear_cosine(
    b: _ScheduleTensors,
    decay_steps: Any,
    periods: float,
    alpha: Any,
    beta: Any,
    noise: Tensor | None,
    scope: str,
) -> Tensor:
    ops, length = b.ops, b.number(decay_steps)
    count = ops.Minimum(b.step, length)
    linear = ops.RealDiv(ops.Sub(length, count), length)
    if noise is not None:
        linear = ops.Add(linear, noise)
    turned = ops.Mul(b.number(2.0 * periods), ops.RealDiv(count, length))
    cosine = _half_cosine(b, turned)
    height = ops.Add(ops.Mul(ops.Add(b.number(alpha), linear), cosine), b.number(beta))
    return _named(ops.Mul(b.rate, height, name=scope))


def _half_cosine(b: _ScheduleTensors, done: Tensor) -> Tensor:
    """(1 + cos(pi * done)) / 2"""
    cosine = b.ops.Cos(b.ops.Mul(b.number(math.pi), done))
    found: Tensor = b.ops.Mul(b.number(0.5), b.ops.Add(b.number(1), cosine))
    return found


def _above(b: _ScheduleTensors, height: Tensor, alpha: Any) -> Tensor:
    """(1 - alpha) * height + alpha"""
    low = b.number(alpha)
    found: Tensor = b.ops.Add(b.ops.Mul(b.ops.Sub(b.number(1), low), height), low)
    return found


def _graph(step: Any) -> Graph:
    graph = getattr(step, "graph", None)
    if not isinstance(graph, Graph):
        raise InvalidArgumentError(f"the count of steps is a tensor or variable of a graph, not {step!r}")
    return graph


def _named(made: Any) -> Tensor:
    found: Tensor = made
    return found


__all__ = [
    "cosine_decay",
    "cosine_decay_restarts",
    "exponential_decay",
    "inverse_time_decay",
    "linear_cosine_decay",
    "natural_exp_decay",
    "noisy_linear_cosine_decay",
    "piecewise_constant",
    "polynomial_decay",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public_module(__name__, __all__)
