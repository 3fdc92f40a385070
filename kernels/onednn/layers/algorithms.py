"""Which algorithm computes a convolution: candidates with a cost and a build, of which the cheapest wins.

A cost is a share of the time of the library's own convolution, whose cost is therefore 1. Costs follow from
rules of shapes and threads, never from timing: a layer has the same bits in every process. A candidate that
cannot compute a case costs None; one that turns out not to be built, as the library has no good
implementation of a part of it, makes room for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Generic, TypeVar

from flowengine.kernels.onednn.layers.shapes import Layer, WindowAttributes
from flowengine.kernels.onednn.layers.winograd import Tiles, share_in_tiles
from flowengine.kernels.onednn.library import LibraryError

Made = TypeVar("Made")

#: What candidates cost whose rules say where they are quicker: measured examples, in the order of their gain.
#: Products of few rows, of patches (13 ms became 4) and of filters of one pixel (3.6 ms became 2.2).
PRODUCT_SHARE: Final = 0.2
PATCHES_SHARE: Final = 0.3
FILTER_PRODUCT_SHARE: Final = 0.6
#: The gradient of images of few channels, gathered in planes by NumPy: see `nn/conv_planes.py`.
PLANES_SHARE: Final = 0.5
DIRECT_SHARE: Final = 1.0


@dataclass(frozen=True)
class ConvolutionCase:
    """A convolution to compute.

    x, w       shapes of the input and the filters
    forms      of what is done to the result: see `after`
    constant   whether the filters never change
    alone      whether the work is too little for more than one core
    """

    sliding: WindowAttributes
    x: tuple[int, ...]
    w: tuple[int, ...]
    forms: tuple[str, ...] = ()
    constant: bool = False
    alone: bool = False

    @cached_property
    def layer(self) -> Layer:
        """Its descriptors; LibraryError where oneDNN should not compute it."""
        return Layer(self.sliding, self.x, self.w)

    @cached_property
    def tiling(self) -> tuple[Tiles, float] | None:
        """(tiles of rows, their cost), if it can be computed in tiles."""
        return share_in_tiles(self.sliding, self.layer, self.layer.library.threads(), self.constant)

    @property
    def tiles(self) -> Tiles:
        assert self.tiling is not None
        return self.tiling[0]


@dataclass(frozen=True, slots=True)
class Candidate(Generic[Made]):
    """One algorithm.

    cost    of a case, None where it cannot compute it
    build   what computes the case; None where that cannot be made after all. LibraryError hands the case over
            to NumPy, whatever other candidates there are
    """

    name: str
    cost: Callable[[ConvolutionCase], float | None]
    build: Callable[[ConvolutionCase], Made | None]


def tiled_cost(case: ConvolutionCase) -> float | None:
    """Return the cost of computing rows in tiles: see `winograd`."""
    return None if case.tiling is None else case.tiling[1]


def direct_cost(case: ConvolutionCase) -> float:
    """Return the cost of the library's own convolution."""
    return DIRECT_SHARE


def cheapest(candidates: Sequence[Candidate[Made]], case: ConvolutionCase) -> Made:
    """Build a case by the cheapest candidate that can compute it; of equal ones the first.

    Raises LibraryError where NumPy is to compute it.
    """
    costs = ((_cost(each, case), place) for place, each in enumerate(candidates))
    for _, place in sorted((cost, place) for cost, place in costs if cost is not None):
        made = candidates[place].build(case)
        if made is not None:
            return made
    raise LibraryError("nothing computes it")


def _cost(candidate: Candidate[Made], case: ConvolutionCase) -> float | None:
    try:
        return candidate.cost(case)
    except LibraryError:
        return None  # its descriptors cannot be made


__all__ = [
    "DIRECT_SHARE",
    "FILTER_PRODUCT_SHARE",
    "PATCHES_SHARE",
    "PLANES_SHARE",
    "PRODUCT_SHARE",
    "Candidate",
    "ConvolutionCase",
    "cheapest",
    "direct_cost",
    "tiled_cost",
]
