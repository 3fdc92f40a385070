"""The claims of NumPy on several nodes: chains in cache-sized pieces, and many small updates at once."""

from __future__ import annotations

from typing import Final

from flowengine.kernels.numpy.claims.chains import fuse_elementwise
from flowengine.kernels.numpy.claims.contractions import fuse_contractions
from flowengine.kernels.numpy.claims.gather_updates import gather_updates
from flowengine.kernels.provider import Claim, Provider

PROVIDER: Final = Provider(
    "numpy",
    (
        Claim("gather_updates", gather_updates, keeps_bits=True, option="fuse_contractions"),
        # Before the chains by themselves: one that follows a product is computed in the product's memory.
        Claim("fuse_contractions", fuse_contractions, keeps_bits=True, option="fuse_contractions"),
        Claim("fuse_elementwise", fuse_elementwise, keeps_bits=True, option="fuse_elementwise"),
    ),
)

__all__ = ["PROVIDER"]
