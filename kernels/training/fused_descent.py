"""A step of gradient descent along a product of matrices: see `kernels/onednn/claims/fuse_updates.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any, ClassVar, Final

from flowengine.core.errors import OpError
from flowengine.ir.graph import Node
from flowengine.kernels.member_times import MEMBER_TIMES
from flowengine.kernels.provider import MemberRun, located, run_alone
from flowengine.kernels.registry import kernel

HOST: Final = "variables are updated in place, and their arrays are in host memory"


class DescentByProduct:
    """MatMul, and ApplyGradientDescent by what it gives: one after the other, or block by block."""

    is_one_pass: ClassVar[bool] = True

    def __init__(
        self, product: Node, multiply: Callable[..., Any], update: Node, apply: Callable[..., Any]
    ) -> None:
        """
        multiply, apply   the bound kernels of the two nodes; the second may have `by_product`, which computes
                          both, to the same bits, or returns False where it cannot
        """
        self._product, self._update = product, update
        self._multiply, self._apply = multiply, apply
        self._by_product = getattr(apply, "by_product", None)
        attrs = product.attrs
        self._transposed = bool(attrs["transpose_a"]), bool(attrs["transpose_b"])

    def __repr__(self) -> str:
        return f"{self._product.op} -> {self._update.op}"

    @property
    def names(self) -> frozenset[str]:
        """The names of the nodes that it stands for."""
        return frozenset((self._product.name, self._update.name))

    def run(self, variable: Any, alpha: Any, a: Any, b: Any) -> Any:
        """The variable, changed."""
        times = MEMBER_TIMES.get()
        began = 0.0 if times is None else perf_counter()
        node = self._product
        try:
            if self._by_product is not None and self._by_product(variable, alpha, a, b, *self._transposed):
                if times is not None:
                    times.append(((self._product, self._update), began, perf_counter()))
                return variable
            delta = self._multiply(a, b)
            if times is not None:
                times.append(((node,), began, began := perf_counter()))
            node = self._update
            made = self._apply(variable, alpha, delta)
        except OpError as error:
            raise located(error, node) from None
        if times is not None:
            times.append(((node,), began, perf_counter()))
        return made

    def one_by_one(self, variable: Any, alpha: Any, a: Any, b: Any) -> Iterator[MemberRun]:
        """See `MemberwiseBody`."""
        found = run_alone(self._product, self._multiply, [a, b])
        yield found
        (delta,) = found.outputs
        found = run_alone(self._update, self._apply, [variable, alpha, delta])
        yield found._replace(outputs=(variable,))


@kernel("_DescentByProduct", heavy=lambda variable, alpha, a, b: 1e4)
def descent_by_product(variable: Any, alpha: Any, a: Any, b: Any, *, node: Node) -> Any:
    """The variable, changed: var - alpha a b."""
    return node.attrs["program"].run(variable, alpha, a, b)
