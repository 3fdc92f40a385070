"""What CUDA takes over beside single nodes: chains of elementwise nodes, and many updates at once."""

from __future__ import annotations

from typing import Final

from flowengine.kernels.common.launched_chains import launch_claim
from flowengine.kernels.cuda.chains import CardChains
from flowengine.kernels.cuda.claims.updates import gather_card_updates
from flowengine.kernels.cuda.serving import PROVIDER_NAME, card_kernels
from flowengine.kernels.provider import Claim, Provider

PROVIDER: Final = Provider(
    PROVIDER_NAME,
    (
        Claim("gather_updates", gather_card_updates, keeps_bits=True, option="fuse_contractions"),
        launch_claim(CardChains()),
    ),
    kernels=card_kernels,
)

__all__ = ["PROVIDER"]
