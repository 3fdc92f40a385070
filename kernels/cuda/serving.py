"""Kernels of single nodes by our CUDA C and by cuBLAS: they stand in front of those over CuPy's arrays.

    @serves("Softmax", family="softmax", types=OF_FLOATS)
    def softmax_kernel(launcher, node, otherwise):
        return lambda logits: softmax(launcher, dense(launcher, logits))

What is made for a node is called with arrays of the device, within its `computing()`. `otherwise` is the
kernel of the node over CuPy's arrays; calls that the sources have no kernel for go there, bad ones too: it
has the words for what is wrong with them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType, float16, float32, float64
from flowengine.devices import cuda
from flowengine.ir.graph import Node
from flowengine.kernels.cuda.session_launcher import SessionLauncher

PROVIDER_NAME: Final = "cuda"
#: The floats that CuPy's arrays hold.
FLOATS: Final = (float16, float32, float64)
OF_FLOATS: Final[Mapping[str, Iterable[DType]]] = {"T": FLOATS}

#: (launcher, node, the node's kernel over CuPy's arrays) -> what computes the node.
CardMaker = Callable[[SessionLauncher, Node, Callable[..., Any]], Callable[..., Any]]
_Made = TypeVar("_Made", bound=CardMaker)


@dataclass(frozen=True, slots=True)
class CardOffer:
    """Kernels of some ops.

    needs   the library without which there are none: a name of `cuda.libraries()`
    """

    ops: tuple[str, ...]
    family: str
    types: Mapping[str, Iterable[DType]]
    supports: Callable[[Mapping[str, Any]], bool] | None
    needs: str
    maker: CardMaker


#: What there are kernels for, once `overrides` was imported.
OFFERS: Final[list[CardOffer]] = []


def serves(
    *ops: str,
    family: str,
    types: Mapping[str, Iterable[DType]] = OF_FLOATS,
    supports: Callable[[Mapping[str, Any]], bool] | None = None,
    needs: str = "nvrtc",
) -> Callable[[_Made], _Made]:
    """Have a function make the kernels of these ops; `types` and `supports` as in `registry.Kernel`."""

    def register(maker: _Made) -> _Made:
        OFFERS.append(CardOffer(ops, family, types, supports, needs, maker))
        return maker

    return register


@functools.lru_cache(maxsize=1)
def is_compiled_here() -> bool:
    """Whether there is NVRTC, without which CuPy computes all."""
    return any(library.name == "nvrtc" and library.path for library in cuda.libraries())


def dense(launcher: SessionLauncher, array: Any) -> Array:
    """An array that lies row by row without gaps: itself, or a copy."""
    if array.flags.c_contiguous:
        return array  # type: ignore[no-any-return]
    copied: Array = launcher.xp.ascontiguousarray(array)
    return copied


__all__ = [
    "FLOATS",
    "OFFERS",
    "OF_FLOATS",
    "PROVIDER_NAME",
    "CardMaker",
    "CardOffer",
    "dense",
    "is_compiled_here",
    "serves",
]
