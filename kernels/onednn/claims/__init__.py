"""The claims of oneDNN on several nodes, and the node order that suits it."""

from __future__ import annotations

from typing import Final

from flowengine.kernels.onednn.claims.fuse_updates import fuse_updates
from flowengine.kernels.onednn.claims.keep_maxima import keep_maxima
from flowengine.kernels.onednn.claims.pools_first import pools_first
from flowengine.kernels.onednn.claims.rectify_norms import rectify_norms
from flowengine.kernels.provider import Claim, Provider

PROVIDER: Final = Provider(
    "onednn",
    (
        Claim("keep_maxima", keep_maxima, keeps_bits=True, option="fuse_contractions"),
        Claim("rectify_norms", rectify_norms, keeps_bits=True, option="fuse_contractions"),
        Claim("fuse_updates", fuse_updates, keeps_bits=True, option="fuse_contractions"),
    ),
    arrange=pools_first,
)

__all__ = ["PROVIDER"]
