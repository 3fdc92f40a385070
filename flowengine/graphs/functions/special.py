"""Special functions: of errors, gamma and beta, and logarithms that know about zero.

>>> graph = fe.Graph()
>>> x, a = graph.constant([0.5, 2.0]), graph.constant([1.0, 2.0])
>>> tensors = [fe.erf(x), fe.erfc(x), fe.lgamma(x), fe.digamma(x), fe.polygamma(a, x), fe.zeta(a + 1.0, x)]
>>> tensors += [fe.igamma(a, x), fe.igammac(a, x), fe.betainc(a, a, x / 4.0)]
>>> tensors += [fe.xlogy(0.0 * x, x), fe.xdivy(x, a)]
>>> for value in fe.testing.evaluate(graph, [each.name for each in tensors]):
...     print(np.round(value.astype(float), 3).tolist())
[0.52, 0.995]
[0.48, 0.005]
[0.572, 0.0]
[-1.964, 0.423]
[4.935, -0.404]
[4.935, 0.202]
[0.393, 0.594]
[0.607, 0.406]
[0.125, 0.5]
[0.0, 0.0]
[0.5, 1.0]
"""

from __future__ import annotations

from flowengine.graphs.conversion import TensorLike
from flowengine.graphs.functions.support import one
from flowengine.graphs.tensor import Tensor


def erf(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the error function. Floating point, the result of the same type and shape."""
    return one("Erf", x, name=name)


def erfc(x: TensorLike, name: str | None = None) -> Tensor:
    """1 - erf(x). Floating point, the result of the same type and shape."""
    return one("Erfc", x, name=name)


def lgamma(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the logarithm of |gamma(x)|. Floating point, the result of the same type and shape."""
    return one("Lgamma", x, name=name)


def digamma(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the derivative of lgamma. Floating point, the result of the same type and shape."""
    return one("Digamma", x, name=name)


def xlogy(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """x * log(y), and 0 where x is 0. Both of one type; shapes broadcast."""
    return one("Xlogy", x, y, name=name)


def xdivy(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """x / y, and 0 where x is 0. Both of one type; shapes broadcast."""
    return one("Xdivy", x, y, name=name)


def igamma(a: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """Return the lower regularised incomplete gamma function P(a, x). Floating point; shapes broadcast."""
    return one("Igamma", a, x, name=name)


def igammac(a: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """Return the upper regularised incomplete gamma function Q(a, x) = 1 - P(a, x).

    Floating point; shapes broadcast.
    """
    return one("Igammac", a, x, name=name)


def polygamma(a: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """Return the a-th derivative of digamma at x. Floating point; shapes broadcast."""
    return one("Polygamma", a, x, name=name)


def zeta(x: TensorLike, q: TensorLike, name: str | None = None) -> Tensor:
    """Return the Hurwitz zeta function, the sum of (q + n) ** -x. Floating point; shapes broadcast."""
    return one("Zeta", x, q, name=name)


def betainc(a: TensorLike, b: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """Return the regularised incomplete beta function I_x(a, b).

    Floating point; shapes equal, or single numbers.
    """
    return one("Betainc", a, b, x, name=name)


__all__ = [
    "betainc",
    "digamma",
    "erf",
    "erfc",
    "igamma",
    "igammac",
    "lgamma",
    "polygamma",
    "xdivy",
    "xlogy",
    "zeta",
]
