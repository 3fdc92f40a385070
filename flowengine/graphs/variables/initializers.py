"""Initializers, `fe.initializers`: functions that build the initial value of a variable.

Each function here returns a function (graph, shape, dtype) -> Tensor that adds nodes. Shapes must be known,
and random initializers need floating-point dtypes. With a `seed`, of its own or of the graph, the values are
those that TensorFlow draws. `mean` and `stddev` are those of a normal distribution. The functions raise
InvalidArgumentError for a shape or dtype that does not fit.

>>> graph, initializers = fe.Graph(), fe.initializers
>>> w = graph.variable(initializers.glorot_uniform(seed=1), name="w", shape=[784, 10])
>>> made = [initializers.zeros(), initializers.ones(), initializers.constant(3.0), initializers.identity()]
>>> fetches = [each(graph, [2, 2], fe.dtypes.float32).name for each in made]
>>> [value.tolist() for value in fe.testing.evaluate(graph, fetches)]
[[[0.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [1.0, 1.0]], [[3.0, 3.0], [3.0, 3.0]], [[1.0, 0.0], [0.0, 1.0]]]
>>> drawn = [initializers.uniform(-1.0, 1.0), initializers.normal(), initializers.truncated_normal()]
>>> drawn += [initializers.glorot_normal(), initializers.he_normal(), initializers.he_uniform()]
>>> drawn += [initializers.lecun_normal(), initializers.lecun_uniform(), initializers.orthogonal()]
>>> drawn += [initializers.variance_scaling(2.0, "fan_avg", "uniform"), initializers.get("he_normal")]
>>> biases = [graph.variable(each, shape=[3, 4], dtype="float32") for each in drawn]
>>> initializers.fans([3, 3, 16, 32])
(144.0, 288.0)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from flowengine.core.arrays import to_array
from flowengine.core.dtypes import DType, as_dtype
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.public_names.missing import public_module
from flowengine.core.public_names.suggest import did_you_mean
from flowengine.core.shapes import TensorShape
from flowengine.graphs.seeds import seeds_for
from flowengine.graphs.tensor import Tensor

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph

#: (graph, shape, dtype) -> Tensor of that shape and type.
Initializer: TypeAlias = Callable[..., Tensor]

#: The standard deviation that is left of a standard normal distribution when it is cut off at 2.
_TRUNCATED_DEVIATION: Final = 0.87962566103423978
#: Values of fewer elements are constants in the graph, as in TensorFlow; others are made in a step.
_CONSTANT_ELEMENTS: Final = 1000

Mode: TypeAlias = Literal["fan_in", "fan_out", "fan_avg"]
Distribution: TypeAlias = Literal["truncated_normal", "untruncated_normal", "uniform"]


def constant(value: Any = 0) -> Initializer:
    """Return an initializer to `value`: for every element, or an array or list with one for each."""

    def make(graph: Graph, shape: Any, dtype: Any) -> Tensor:
        count = math.prod(_known(shape))
        given = to_array(value) if not isinstance(value, str | bytes) else value
        if isinstance(given, np.ndarray) and given.size not in (1, count):
            raise InvalidArgumentError(f"{given.size} values cannot initialize a variable of shape {shape}")
        single = not isinstance(given, np.ndarray) or given.size == 1
        return _filled(graph, value, dtype, shape) if single else graph.constant(value, dtype, shape)

    return make


def zeros() -> Initializer:
    """Return an initializer to zero, False or the empty string."""

    def make(graph: Graph, shape: Any, dtype: Any) -> Tensor:
        found = as_dtype(dtype)
        return _filled(
            graph, b"" if found.name == "string" else False if found.name == "bool" else 0, found, shape
        )

    return make


def ones() -> Initializer:
    """Return an initializer to one, or True."""

    def make(graph: Graph, shape: Any, dtype: Any) -> Tensor:
        found = as_dtype(dtype)
        return _filled(graph, True if found.name == "bool" else 1, found, shape)

    return make


def uniform(minimum: Any = 0, maximum: Any = None, *, seed: int | None = None) -> Initializer:
    """Return an initializer that draws uniformly from [minimum, maximum).

    The maximum of floating-point types is 1 if you give none; integers need one.
    """

    def make(graph: Graph, shape: Any, dtype: Any) -> Tensor:
        found = as_dtype(dtype)
        if not found.is_integer:
            return _uniform(graph, shape, found, minimum, 1.0 if maximum is None else maximum, seed)
        if maximum is None:
            raise InvalidArgumentError(f"a uniform distribution of {found} needs its maximum")
        with graph.name_scope("random_uniform") as scope:
            dims = graph.constant(np.array(_known(shape), np.int32), name="shape")
            low = graph.constant(minimum, found, name="min")
            high = graph.constant(maximum, found, name="max")
            first, second = seeds_for(graph, seed)
            return graph.ops.RandomUniformInt(dims, low, high, seed=first, seed2=second, name=scope)

    return make


def normal(mean: float = 0.0, stddev: float = 1.0, *, seed: int | None = None) -> Initializer:
    """Return an initializer that draws from a normal distribution."""

    def make(graph: Graph, shape: Any, dtype: Any) -> Tensor:
        return _normal(graph, shape, dtype, mean, stddev, seed, "RandomStandardNormal")

    return make


def truncated_normal(mean: float = 0.0, stddev: float = 1.0, *, seed: int | None = None) -> Initializer:
    """Return an initializer that draws from a normal distribution, within two `stddev` of the mean."""

    def make(graph: Graph, shape: Any, dtype: Any) -> Tensor:
        return _normal(graph, shape, dtype, mean, stddev, seed, "TruncatedNormal")

    return make


def orthogonal(gain: float = 1.0, *, seed: int | None = None) -> Initializer:
    """Return an initializer to a random orthogonal matrix times `gain`; all axes but the last count as one.

    Saxe, McClelland, Ganguli: Exact solutions to the nonlinear dynamics of learning in deep linear neural
    networks. Raises InvalidArgumentError for fewer than two axes.
    """

    def make(graph: Graph, shape: Any, dtype: Any) -> Tensor:
        dims, ops = _known(shape), graph.ops
        if len(dims) < 2:
            raise InvalidArgumentError(f"an orthogonal matrix has two axes; the variable is of shape {shape}")
        rows, columns = math.prod(dims[:-1]), dims[-1]
        drawn = _normal(
            graph, (max(rows, columns), min(rows, columns)), dtype, 0.0, 1.0, seed, "RandomStandardNormal"
        )
        q, r = ops.Qr(drawn, full_matrices=False)
        # The signs of R make the distribution uniform for any choice of signs by the decomposition.
        matrix = ops.Mul(q, ops.Sign(ops.MatrixDiagPart(r)))
        if rows < columns:
            matrix = ops.Transpose(matrix, [1, 0])
        scaled: Tensor = ops.Mul(graph.constant(gain, dtype), ops.Reshape(matrix, dims))
        return scaled

    return make


def identity(gain: float = 1.0) -> Initializer:
    """Return an initializer to a matrix with `gain` on its diagonal.

    It raises InvalidArgumentError unless the variable has two axes.
    """

    def make(graph: Graph, shape: Any, dtype: Any) -> Tensor:
        dims = _known(shape)
        if len(dims) != 2:
            raise InvalidArgumentError(f"an identity matrix has two axes; the variable is of shape {shape}")
        return graph.constant(np.eye(*dims) * gain, dtype)

    return make


@dataclass(frozen=True)
class ScaledInitializer:
    """An initializer whose variance depends on the numbers of inputs and outputs.

    scale, mode, distribution, seed   as for `variance_scaling`, which makes it
    whole   the shape of the whole variable if it initializes only a part of one

    >>> initializer = fe.initializers.variance_scaling(2.0, "fan_in", seed=1)
    >>> initializer.of_part([8, 4], [0, 0]).whole
    (8, 4)
    """

    scale: float
    mode: Mode
    distribution: Distribution
    seed: int | None
    whole: tuple[int, ...] | None = None

    def of_part(self, whole: Sequence[int], offset: Sequence[int]) -> ScaledInitializer:
        """Return the initializer for the part at `offset` of a variable of shape `whole`."""
        return ScaledInitializer(self.scale, self.mode, self.distribution, self.seed, tuple(whole))

    def __call__(self, graph: Graph, shape: Any, dtype: Any) -> Tensor:
        fan_in, fan_out = fans(self.whole if self.whole is not None else _known(shape))
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        variance = self.scale / max(1.0, fan)
        if self.distribution == "uniform":
            limit = math.sqrt(3 * variance)
            return _uniform(graph, shape, as_dtype(dtype), -limit, limit, self.seed)
        deviation = math.sqrt(variance)
        if self.distribution == "untruncated_normal":
            return _normal(graph, shape, dtype, 0.0, deviation, self.seed, "RandomStandardNormal")
        deviation /= _TRUNCATED_DEVIATION
        return _normal(graph, shape, dtype, 0.0, deviation, self.seed, "TruncatedNormal")


def variance_scaling(
    scale: float = 1.0,
    mode: Mode = "fan_in",
    distribution: Distribution = "truncated_normal",
    *,
    seed: int | None = None,
) -> ScaledInitializer:
    """Return an initializer that draws with variance scale / n.

    mode           n is the number of inputs (fan_in), of outputs (fan_out), or their mean (fan_avg)
    distribution   truncated_normal, untruncated_normal or uniform

    The inputs and outputs are the last two axes, times the product of the others (a kernel's window). Raises
    InvalidArgumentError for a scale that is not positive and for other modes and distributions.
    """
    if scale <= 0:
        raise InvalidArgumentError(f"the scale of a variance is positive, not {scale}")
    if mode not in ("fan_in", "fan_out", "fan_avg"):
        raise InvalidArgumentError(f"mode is fan_in, fan_out or fan_avg, not {mode!r}")
    if distribution not in ("truncated_normal", "untruncated_normal", "uniform"):
        raise InvalidArgumentError(
            f"distribution is truncated_normal, untruncated_normal or uniform, not {distribution!r}"
        )
    return ScaledInitializer(scale, mode, distribution, seed)


def glorot_uniform(*, seed: int | None = None) -> ScaledInitializer:
    """Return an initializer: uniform, with variance 1 / mean of inputs and outputs. Glorot, Bengio 2010."""
    return variance_scaling(1.0, "fan_avg", "uniform", seed=seed)


def glorot_normal(*, seed: int | None = None) -> ScaledInitializer:
    """Return an initializer: truncated normal, variance 1 / mean of inputs, outputs. Glorot, Bengio 2010."""
    return variance_scaling(1.0, "fan_avg", "truncated_normal", seed=seed)


def he_uniform(*, seed: int | None = None) -> ScaledInitializer:
    """Return an initializer: uniform, with variance 2 / inputs. He, Zhang, Ren, Sun 2015."""
    return variance_scaling(2.0, "fan_in", "uniform", seed=seed)


def he_normal(*, seed: int | None = None) -> ScaledInitializer:
    """Return an initializer: truncated normal, with variance 2 / inputs. He, Zhang, Ren, Sun 2015."""
    return variance_scaling(2.0, "fan_in", "truncated_normal", seed=seed)


def lecun_uniform(*, seed: int | None = None) -> ScaledInitializer:
    """Return an initializer: uniform, with variance 1 / inputs. LeCun, Bottou, Orr, Müller 1998."""
    return variance_scaling(1.0, "fan_in", "uniform", seed=seed)


def lecun_normal(*, seed: int | None = None) -> ScaledInitializer:
    """Return an initializer: truncated normal, variance 1 / inputs. LeCun, Bottou, Orr, Müller 1998."""
    return variance_scaling(1.0, "fan_in", "truncated_normal", seed=seed)


def get(given: str | Initializer) -> Initializer:
    """Return an initializer by its name in this module, such as "zeros" or "glorot_uniform"; others as given.

    By name each has its default arguments: write `fe.initializers.normal(stddev=0.1)` for other ones. Raises
    InvalidArgumentError for an unknown name, listing those that there are.

        v = graph.get_variable("v", [3, 4], initializer="he_normal")
    """
    if not isinstance(given, str):
        return given
    if given not in _NAMED:
        raise InvalidArgumentError(
            f"there is no initializer {given!r}{did_you_mean(given, _NAMED)} (there are: {', '.join(_NAMED)})"
        )
    return _NAMED[given]()


def fans(shape: Sequence[int]) -> tuple[float, float]:
    """Return how many inputs and outputs a weight of this shape connects."""
    if not shape:
        return 1.0, 1.0
    if len(shape) == 1:
        return float(shape[0]), float(shape[0])
    window = math.prod(shape[:-2])
    return float(shape[-2] * window), float(shape[-1] * window)


def default_initializer(name: str, dtype: DType) -> Initializer:
    """Return the initializer for a variable without one: glorot_uniform, or zeros for integers and bool.

    Raises InvalidArgumentError for any other dtype.
    """
    if dtype.is_floating or dtype.is_complex:
        return glorot_uniform()
    if dtype.is_integer or dtype.name == "bool":
        return zeros()
    raise InvalidArgumentError(f"variable '{name}' of {dtype} needs an initializer")


def _filled(graph: Graph, value: Any, dtype: Any, shape: Any) -> Tensor:
    """One value in all places: a large graph would be larger than its model if these were constants."""
    dims = _known(shape)
    if math.prod(dims) < _CONSTANT_ELEMENTS:
        return graph.constant(value, dtype, shape)
    single = np.reshape(value, ()) if isinstance(value, np.ndarray | list | tuple) else value
    lengths = np.array(dims, np.int32 if max(dims) < 2**31 else np.int64)
    found: Tensor = graph.ops.Fill(lengths, graph.constant(single, dtype))
    return found


def _known(shape: Any) -> tuple[int, ...]:
    dims = TensorShape(shape).as_tuple()
    if dims is None:
        raise InvalidArgumentError(f"an initializer needs a known shape, not {TensorShape(shape)}")
    return dims


def _uniform(graph: Graph, shape: Any, dtype: DType, minimum: Any, maximum: Any, seed: int | None) -> Tensor:
    ops = graph.ops
    with graph.name_scope("random_uniform") as scope:
        dims = graph.constant(np.array(_known(shape), np.int32), name="shape")
        low = graph.constant(minimum, dtype, name="min")
        high = graph.constant(maximum, dtype, name="max")
        first, second = seeds_for(graph, seed)
        drawn = ops.RandomUniform(dims, dtype=dtype, seed=first, seed2=second)
        span = ops.Mul(drawn, ops.Sub(high, low, name="sub"), name="mul")
        moved: Tensor = ops.Add(span, low, name=scope)
    return moved


def _normal(
    graph: Graph, shape: Any, dtype: Any, mean: float, stddev: float, seed: int | None, op: str
) -> Tensor:
    ops = graph.ops
    with graph.name_scope("truncated_normal" if op == "TruncatedNormal" else "random_normal") as scope:
        dims = graph.constant(np.array(_known(shape), np.int32), name="shape")
        centre = graph.constant(mean, dtype, name="mean")
        deviation = graph.constant(stddev, dtype, name="stddev")
        first, second = seeds_for(graph, seed)
        drawn = getattr(ops, op)(dims, dtype=dtype, seed=first, seed2=second)
        moved: Tensor = ops.Add(ops.Mul(drawn, deviation, name="mul"), centre, name=scope)
    return moved


#: {name: a function that makes the initializer with its default arguments}
_NAMED: Final[dict[str, Callable[[], Initializer]]] = {
    "glorot_normal": glorot_normal,
    "glorot_uniform": glorot_uniform,
    "he_normal": he_normal,
    "he_uniform": he_uniform,
    "identity": identity,
    "lecun_normal": lecun_normal,
    "lecun_uniform": lecun_uniform,
    "normal": normal,
    "ones": ones,
    "orthogonal": orthogonal,
    "truncated_normal": truncated_normal,
    "uniform": uniform,
    "variance_scaling": variance_scaling,
    "zeros": zeros,
}

__all__ = [
    "ScaledInitializer",
    "constant",
    "fans",
    "get",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "identity",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "zeros",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public_module(__name__, __all__)
