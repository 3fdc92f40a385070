"""How kernels of this package are registered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from flowengine.core.dtypes import DType, float32
from flowengine.ir.graph import Node
from flowengine.kernels.registry import CostEstimate, KernelRegistry

#: (node, the NumPy kernel bound to it) -> what computes the node, by itself or by the NumPy kernel.
Maker = TypeVar("Maker", bound=Callable[[Node, Callable[..., Any]], Callable[..., Any]])

PROVIDER: Final = "onednn"
#: The kernels of this package; they stand in front of NumPy's.
REGISTRY: Final = KernelRegistry()

FLOAT32: Final[Mapping[str, Iterable[DType]]] = {"T": (float32,)}


def serves(
    *ops: str,
    types: Mapping[str, Iterable[DType]],
    supports: Callable[[Mapping[str, Any]], bool] | None = None,
    heavy: CostEstimate | None = None,
    one_core: bool = False,
) -> Callable[[Maker], Maker]:
    """Register what makes the kernel of one op or of several.

    one_core   whether the kernel stays on the thread that calls it; others take every core at once
    """

    def register(maker: Maker) -> Maker:
        REGISTRY.register_provided(
            *ops,
            maker=maker,
            provider=PROVIDER,
            types=types,
            supports=supports,
            heavy=heavy,
            one_core=one_core,
        )
        return maker

    return register
